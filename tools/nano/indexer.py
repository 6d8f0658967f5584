"""DSA's indexer: scores that choose the keys each query attends to, and the loss it learns from.

    I[t, s] = sum_h w[t, h] heads^-0.5 dim^-0.5 ReLU(qI[t, h] . kI[s])        (DeepSeek-V3.2 report; GLM-5: interleaved RoPE)

It learns by KL(attention distribution || softmax of I), the attention summed over heads (and averaged over the layers that
share the indexer, arXiv 2603.12201). Its inputs are detached: the trunk never sees this loss.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from kernels import rope

ROWS_AT_ONCE = 256  # rows of scores held at a time
KL_ROWS = 48  # rows of a document that the loss looks at


class Indexer(nn.Module):
    def __init__(self, c, dtype):
        super().__init__()
        self.c = c
        self.wq_b = nn.Parameter((torch.randn(c.index_heads * c.index_dim, c.q_lora) * c.q_lora**-0.5).to(dtype))
        self.wk = nn.Parameter((torch.randn(c.index_dim, c.hidden) * c.hidden**-0.5).to(dtype))
        self.k_norm_weight = nn.Parameter(torch.ones(c.index_dim))
        self.k_norm_bias = nn.Parameter(torch.zeros(c.index_dim))
        self.weights_proj = nn.Parameter((torch.randn(c.index_heads, c.hidden) * c.hidden**-0.5).to(dtype))

    def project(self, qr, x, rot, q_rot=None):
        """-> queries [tokens, heads, dim], keys [tokens, dim], head weights [tokens, heads]; f32."""
        c = self.c
        q = F.linear(qr, self.wq_b).float().view(-1, c.index_heads, c.index_dim)
        k = F.linear(x, self.wk).float()
        k = F.layer_norm(k, (c.index_dim,), self.k_norm_weight, self.k_norm_bias, c.index_eps)
        q = torch.cat((rope(q[..., : c.rope], *(q_rot or rot)), q[..., c.rope :]), -1)
        k = torch.cat((rope(k[..., : c.rope], *rot), k[..., c.rope :]), -1)
        w = F.linear(x, self.weights_proj).float() * (c.index_heads * c.index_dim) ** -0.5
        return q, k, w

    @staticmethod
    def scores(q, k, w):
        """q [rows, heads, dim], k [keys, dim], w [rows, heads] -> [rows, keys]."""
        s = torch.matmul(q.transpose(0, 1), k.t()).relu()
        return torch.einsum("hrk,rh->rk", s, w)

    @torch.no_grad()
    def masks(self, qr, x, batch):
        """One additive mask [len, len] per document, 0 at the chosen keys; None where everything is chosen."""
        topk, out, start = self.c.index_topk, [], 0
        q, k, w = self.project(qr, x, batch.rot)
        for n in batch.lens:
            part, mask = slice(start, start + n), None
            start += n
            if n > topk:
                qd, kd, wd = q[part], k[part], w[part]
                mask = torch.full((n, n), float("-inf"))
                mask[:topk] = causal(0, topk, n)
                for a in range(topk, n, ROWS_AT_ONCE):
                    b = min(a + ROWS_AT_ONCE, n)
                    s = self.scores(qd[a:b], kd[:b], wd[a:b]) + causal(a, b, b)
                    mask[a:b].scatter_(1, torch.topk(s, topk, sorted=False).indices, 0.0)
            out.append(mask)
        return out


def causal(first, end, keys):
    """Additive mask of rows first..end over `keys` keys."""
    late = torch.arange(keys) > torch.arange(first, end).unsqueeze(1)
    return torch.zeros(end - first, keys).masked_fill_(late, float("-inf"))


def kl_loss(owner, trace, batch, wanted, generator, c):
    """KL of one indexer, mean over sampled rows; None if no document is long enough to need a choice.

    Rows: half at random, half among `wanted` (the rows that predict an answer), where a wrong choice costs most.
    In sparse training both distributions are restricted to the chosen keys.
    """
    indexer, qr, x = trace.indexed[owner]
    layers = [i for i in trace.attended if c.index_owner(i) == owner]
    masks = trace.masks.get(owner)
    long = [d for d, n in enumerate(batch.lens) if n > c.index_topk]
    if not long:
        return None
    qi, ki, wi = indexer.project(qr, x, batch.rot)
    starts = [0]
    for n in batch.lens:
        starts.append(starts[-1] + n)
    total, rows_seen = 0.0, 0
    for d in long:
        s, n = starts[d], batch.lens[d]
        rows = torch.randint(c.index_topk // 2, n, (KL_ROWS // 2,), generator=generator)
        asked = wanted[s : s + n].nonzero().squeeze(1)
        asked = asked[asked >= c.index_topk // 2]
        if len(asked):
            rows = torch.cat((rows, asked[torch.randint(len(asked), (KL_ROWS // 2,), generator=generator)]))
        mask = causal_rows(rows, n)
        if masks is not None:
            mask = masks[d][rows]
        target = 0
        with torch.no_grad():
            for i in layers:
                q, k, _ = trace.attended[i]
                logits = torch.einsum("rhd,khd->hrk", q[s + rows].float(), k[s : s + n].float()) * q.shape[-1] ** -0.5
                target = target + torch.softmax(logits + mask, -1).mean(0)
            target = target / len(layers)
        scores = indexer.scores(qi[s + rows], ki[s : s + n], wi[s + rows])
        logq = torch.log_softmax(scores + mask, -1)
        seen = mask == 0
        total = total + (torch.xlogy(target, target) - target * logq.masked_fill(~seen, 0.0)).sum()
        rows_seen += len(rows)
    return total / rows_seen


def causal_rows(rows, keys):
    late = torch.arange(keys) > rows.unsqueeze(1)
    return torch.zeros(len(rows), keys).masked_fill_(late, float("-inf"))
