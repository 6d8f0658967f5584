"""Greedy decoding with a cache, several sequences at a time: the reference for what the model answers."""

import torch
import torch.nn.functional as F
from kernels import rms_norm, rope
from layout import from_hf
from model import Batch, Nano, Trace, rotation
from safetensors.torch import load_file


def load(folder, dtype=torch.float32):
    """A model from an exported bf16 checkpoint, computing in `dtype`."""
    import json
    import pathlib

    from config import NanoConfig, hf_config

    fields = json.loads((pathlib.Path(folder) / "config.json").read_text())
    c = NanoConfig(vocab_size=fields["vocab_size"])
    ours = hf_config(c, fields["eos_token_id"], fields["pad_token_id"])
    wrong = [k for k in ours if fields.get(k) != ours[k]]
    assert not wrong, f"{folder}: config.json is not that of config.py in {wrong}"
    model = Nano(c, dtype).eval()
    state = from_hf(load_file(f"{folder}/model.safetensors"), model.state_dict(), c)
    model.load_state_dict(state)
    return model, fields["eos_token_id"]


class Cache:
    def __init__(self, c, batch, room):
        self.k = torch.zeros(c.layers, batch, room, c.heads, c.nope + c.rope)
        self.v = torch.zeros(c.layers, batch, room, c.heads, c.v)
        self.index = {i: torch.zeros(batch, room, c.index_dim) for i in range(c.layers) if c.has_indexer(i)}


@torch.no_grad()
def prefill(model, cache, row, ids, sparse):
    """Fills row `row` of the cache; returns the logits after the last token."""
    c = model.c
    batch = Batch.of([ids], c)
    trace = Trace(sparse=sparse, keep=True)
    h = model(batch, trace)
    for i, (_, k, v) in trace.attended.items():
        cache.k[i, row, : len(ids)] = k
        cache.v[i, row, : len(ids)] = v[..., : c.v]
    for i, (indexer, qr, x) in trace.indexed.items():
        cache.index[i][row, : len(ids)] = indexer.project(qr, x, batch.rot)[1]
    return torch.mv(model.lm_head.float(), h[-1].float())


def feed_forward(layer, h):
    x = rms_norm(h, layer.post_attention_layernorm, layer.c.eps)
    if not layer.is_moe:
        return h + layer.mlp(x)
    mlp, inter = layer.mlp, layer.c.moe_inter
    chosen, g = mlp.route(x)
    both = torch.einsum("bkoh,bh->bko", mlp.gate_up[chosen], x)
    y = torch.einsum("bkho,bko->bkh", mlp.down[chosen], F.silu(both[..., :inter]) * both[..., inter:])
    return h + torch.einsum("bk,bkh->bh", g.to(y.dtype), y) + mlp.shared_experts(x)


@torch.no_grad()
def decode(model, cache, ids, pos, sparse):
    """One token per sequence: ids, pos [batch] -> logits [batch, vocab]."""
    c, rows = model.c, torch.arange(len(ids))
    rot = rotation(pos, c)
    room = int(pos.max()) + 1
    late = torch.arange(room).unsqueeze(0) > pos.unsqueeze(1)
    h, hidden_keys = F.embedding(ids, model.embed_tokens), late
    for i, layer in enumerate(model.layers):
        attn = layer.self_attn
        x = rms_norm(h, layer.input_layernorm, c.eps)
        qr, q = attn.queries(x)
        kv, kpe = attn.keys_values(x)
        q = torch.cat((q[..., : c.nope], rope(q[..., c.nope :], *rot)), -1)
        kpe = rope(kpe, *rot).unsqueeze(1).expand(-1, c.heads, -1)
        cache.k[i, rows, pos] = torch.cat((kv[..., : c.nope], kpe), -1).float()
        cache.v[i, rows, pos] = kv[..., c.nope :].float()
        if attn.indexer is not None:
            qi, ki, wi = attn.indexer.project(qr, x, rot)
            cache.index[i][rows, pos] = ki
            if sparse and room > c.index_topk:
                s = torch.einsum("bhd,bkd->bhk", qi, cache.index[i][:, :room]).relu()
                s = torch.einsum("bhk,bh->bk", s, wi).masked_fill(late, float("-inf"))
                kept = torch.sort(s, dim=1, descending=True, stable=True).indices[:, : c.index_topk]
                hidden_keys = torch.ones_like(late).scatter_(1, kept, False) | late
        s = torch.einsum("bhd,bkhd->bhk", q.float(), cache.k[i, :, :room]) * (c.nope + c.rope) ** -0.5
        p = torch.softmax(s.masked_fill(hidden_keys.unsqueeze(1), float("-inf")), -1)
        y = torch.einsum("bhk,bkhd->bhd", p, cache.v[i, :, :room]).flatten(1).to(h.dtype)
        h = feed_forward(layer, h + F.linear(y, attn.o_proj))
    return F.linear(rms_norm(h, model.norm, c.eps), model.lm_head).float()


@torch.no_grad()
def greedy(model, prompts, eos, limit, sparse=True):
    """-> per prompt, the generated ids, the end token included."""
    room = max(map(len, prompts)) + limit
    cache = Cache(model.c, len(prompts), room)
    out = [[int(prefill(model, cache, r, ids, sparse).argmax())] for r, ids in enumerate(prompts)]
    pos = torch.tensor([len(p) for p in prompts])
    live = [o[-1] not in eos for o in out]
    while any(live) and max(map(len, out)) < limit:
        logits = decode(model, cache, torch.tensor([o[-1] for o in out]), pos, sparse)
        for r, token in enumerate(logits.argmax(1).tolist()):
            if live[r]:
                out[r].append(token)
                pos[r] += 1
                live[r] = token not in eos
    return out
