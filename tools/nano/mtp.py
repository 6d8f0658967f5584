"""The MTP layer: drafts the token after next, and goes on drafting from its own output.

Row p of step 1 combines embed[x_p] with the trunk's final hidden state h_{p-1} (zero at p = 0), at RoPE position p, and
predicts x_{p+1}. Step j > 1 of the draft rooted at p combines embed[x_{p+j-1}] with the output r of step j-1, at position p+j-1.
Later steps share the keys and the selection of step 1 at p: they attend to rows <= p only, and add no keys of their own.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from kernels import LatentAttention, rms_norm

STEPS = 3


class MTPLayer(nn.Module):
    def __init__(self, c, dtype):
        super().__init__()
        from model import Layer, matrix, ones

        self.c = c
        self.enorm, self.hnorm = ones(c.hidden), ones(c.hidden)
        self.eh_proj = matrix(c.hidden, 2 * c.hidden, dtype)
        self.layer = Layer(c, c.layers, dtype)
        self.shared_head_norm = ones(c.hidden)

    def combine(self, embedded, hidden):
        """Embedding first, hidden state second."""
        e = rms_norm(embedded, self.enorm, self.c.eps)
        return F.linear(torch.cat((e, rms_norm(hidden, self.hnorm, self.c.eps)), -1), self.eh_proj)

    def steps(self, h, embed, batch, trace, wanted, rotation, fill_up, steps=STEPS):
        """Yields, per step, (r [rows, hidden], rows, count): the first `count` rows are the roots p whose draft is wanted.

        h [tokens, hidden]: the trunk's final hidden states. wanted [tokens] bool: rows whose prediction counts; a root
        takes part in step j if the rows p .. p + j - 1 are in its document and wanted.
        """
        c, attn = self.c, self.layer.self_attn
        first = batch.pos == 0
        before = torch.cat((h.new_zeros(1, h.shape[1]), h[:-1])).masked_fill(first.unsqueeze(1), 0.0)
        u = self.combine(F.embedding(batch.ids, embed), before)
        x = rms_norm(u, self.layer.input_layernorm, c.eps)
        kv, kpe = attn.keys_values(x)
        masks = None
        ahead = torch.cat([torch.arange(n, 0, -1) for n in batch.lens])  # rows left in the document, this one included
        row_ids = torch.arange(len(batch.ids))
        r_all, alive = None, torch.ones_like(wanted)
        for j in range(1, steps + 1):
            shift = j - 1
            alive = alive & (ahead > shift) & torch.roll(wanted, -shift, 0)
            if not alive.any():
                return
            rows, count = fill_up(row_ids[alive])
            pos = batch.pos + shift
            if j > 1:
                embedded = F.embedding(torch.roll(batch.ids, -shift, 0), embed)
                u = self.combine(embedded, r_all)
                x = rms_norm(u, self.layer.input_layernorm, c.eps)
            qr, q = attn.queries(x)
            if j == 1 and (trace.sparse or trace.keep):
                trace.indexed[c.layers] = (attn.indexer, qr.detach(), x.detach())
                if trace.sparse:
                    masks = trace.masks[c.layers] = attn.indexer.masks(qr.detach(), x.detach(), batch)
            kept = [] if trace.keep and j == 1 else None
            q_rot = batch.rot if j == 1 else rotation(pos, c)
            dims = (c.nope, c.rope, c.v)
            y = LatentAttention.apply(q, kv, kpe, batch.rot, q_rot, batch.lens, masks, dims, kept)
            if kept:
                trace.attended[c.layers] = kept[0]
            u = (u + F.linear(y, attn.o_proj)).index_select(0, rows)
            r = rms_norm(self.layer.feed_forward(u, trace), self.shared_head_norm, c.eps)
            yield r, rows, count
            # A root that is out of this step is out of the later ones: its row may stay zero.
            r_all = r.new_zeros(len(batch.ids), r.shape[1]).index_copy(0, rows[:count], r[:count])
