"""The trunk of quern-nano: GLM's decoder (MLA, DSA, sigmoid-routed experts) on flat token batches, written for training.

Formulas and names follow `GlmMoeDsaForCausalLM` of Hugging Face transformers; export.py checks that the two agree.
Matrices are held in the compute dtype (bf16 in training; the f32 masters live in optim.py), norms and router in f32.
"""

from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from config import NanoConfig
from indexer import Indexer
from kernels import Experts, LatentAttention, rms_norm


@dataclass
class Batch:
    """Documents one after another. ids, pos [tokens]; rot: cos and sin tables [tokens, rope / 2] at pos."""

    ids: torch.Tensor
    pos: torch.Tensor
    lens: list
    rot: tuple

    @staticmethod
    def of(documents, c: NanoConfig):
        return Batch.flat(torch.tensor([t for d in documents for t in d]), [len(d) for d in documents], c)

    @staticmethod
    def flat(ids, lens, c):
        pos = torch.cat([torch.arange(n) for n in lens])
        return Batch(ids, pos, lens, rotation(pos, c))


def rotation(pos, c):
    freq = c.theta ** (-torch.arange(0, c.rope, 2, dtype=torch.float32) / c.rope)
    angle = pos.float().unsqueeze(1) * freq
    return angle.cos(), angle.sin()


@dataclass
class Trace:
    """What a pass leaves for the indexer's loss, the router's balance and the MTP layer."""

    sparse: bool = False
    keep: bool = False  # remember queries and keys
    masks: dict = field(default_factory=dict)  # owner layer -> one mask per document
    indexed: dict = field(default_factory=dict)  # owner layer -> (indexer, qr, x)
    attended: dict = field(default_factory=dict)  # layer -> (q, k, v)
    loads: dict = field(default_factory=dict)  # layer -> tokens per expert


def matrix(out_dim, in_dim, dtype, gain=1.0, lead=()):
    w = torch.randn(*lead, out_dim, in_dim) * (gain * in_dim**-0.5)
    return nn.Parameter(w.to(dtype))


def ones(n):
    return nn.Parameter(torch.ones(n))


class Attention(nn.Module):
    def __init__(self, c, layer, dtype):
        super().__init__()
        self.c, self.layer = c, layer
        self.q_a_proj = matrix(c.q_lora, c.hidden, dtype)
        self.q_a_layernorm = ones(c.q_lora)
        self.q_b_proj = matrix(c.heads * (c.nope + c.rope), c.q_lora, dtype)
        self.kv_a_proj_with_mqa = matrix(c.kv_lora + c.rope, c.hidden, dtype)
        self.kv_a_layernorm = ones(c.kv_lora)
        self.kv_b_proj = matrix(c.heads * (c.nope + c.v), c.kv_lora, dtype)
        self.o_proj = matrix(c.hidden, c.heads * c.v, dtype, gain=0.0)
        self.indexer = Indexer(c, dtype) if c.has_indexer(layer) else None

    def queries(self, x):
        c = self.c
        qr = rms_norm(F.linear(x, self.q_a_proj), self.q_a_layernorm, c.latent_eps)
        return qr, F.linear(qr, self.q_b_proj).view(-1, c.heads, c.nope + c.rope)

    def keys_values(self, x):
        c = self.c
        latent, kpe = F.linear(x, self.kv_a_proj_with_mqa).split((c.kv_lora, c.rope), -1)
        latent = rms_norm(latent, self.kv_a_layernorm, c.latent_eps)
        return F.linear(latent, self.kv_b_proj).view(-1, c.heads, c.nope + c.v), kpe

    def forward(self, x, batch, trace):
        c = self.c
        qr, q = self.queries(x)
        kv, kpe = self.keys_values(x)
        owner = c.index_owner(self.layer)
        if self.indexer is not None and (trace.sparse or trace.keep):
            trace.indexed[owner] = (self.indexer, qr.detach(), x.detach())
            if trace.sparse:
                trace.masks[owner] = self.indexer.masks(qr.detach(), x.detach(), batch)
        kept = [] if trace.keep else None
        masks = trace.masks.get(owner)
        dims = (c.nope, c.rope, c.v)
        y = LatentAttention.apply(q, kv, kpe, batch.rot, batch.rot, batch.lens, masks, dims, kept)
        if kept:
            trace.attended[self.layer] = kept[0]
        return F.linear(y, self.o_proj)


class DenseMLP(nn.Module):
    def __init__(self, hidden, inter, dtype):
        super().__init__()
        self.gate_proj = matrix(inter, hidden, dtype)
        self.up_proj = matrix(inter, hidden, dtype)
        self.down_proj = matrix(hidden, inter, dtype, gain=0.0)

    def forward(self, x):
        return F.linear(F.silu(F.linear(x, self.gate_proj)) * F.linear(x, self.up_proj), self.down_proj)


class MoE(nn.Module):
    """Selection by sigmoid score + bias, weights by score alone; the bias is moved by hand (arXiv 2408.15664)."""

    def __init__(self, c, layer, dtype):
        super().__init__()
        self.c, self.layer = c, layer
        self.gate = nn.Parameter(torch.randn(c.experts, c.hidden) * c.hidden**-0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(c.experts))
        self.gate_up = matrix(2 * c.moe_inter, c.hidden, dtype, lead=(c.experts,))
        self.down = matrix(c.hidden, c.moe_inter, dtype, gain=0.0, lead=(c.experts,))
        self.shared_experts = DenseMLP(c.hidden, c.moe_inter, dtype)

    def route(self, x):
        c = self.c
        s = torch.sigmoid(F.linear(x.float(), self.gate))
        chosen = torch.topk(s.detach() + self.e_score_correction_bias, c.experts_per_token, sorted=False).indices
        g = s.gather(1, chosen)
        return chosen, g * (c.routed_scale / (g.sum(1, keepdim=True) + 1e-20))

    def forward(self, x, trace):
        chosen, g = self.route(x)
        if self.training:
            load = torch.bincount(chosen.reshape(-1), minlength=self.c.experts)
            trace.loads[self.layer] = trace.loads.get(self.layer, 0) + load
        return Experts.apply(x, chosen, g, self.gate_up, self.down) + self.shared_experts(x)


class Layer(nn.Module):
    def __init__(self, c, layer, dtype):
        super().__init__()
        self.c = c
        self.input_layernorm = ones(c.hidden)
        self.self_attn = Attention(c, layer, dtype)
        self.post_attention_layernorm = ones(c.hidden)
        self.is_moe = c.is_moe(layer)
        self.mlp = MoE(c, layer, dtype) if self.is_moe else DenseMLP(c.hidden, c.dense_inter, dtype)

    def feed_forward(self, h, trace):
        x = rms_norm(h, self.post_attention_layernorm, self.c.eps)
        return h + (self.mlp(x, trace) if self.is_moe else self.mlp(x))

    def forward(self, h, batch, trace, rows=None):
        """rows: only these rows are wanted from here on (the last layer need not run the others' experts)."""
        h = h + self.self_attn(rms_norm(h, self.input_layernorm, self.c.eps), batch, trace)
        if rows is not None:
            h = h.index_select(0, rows)
        return self.feed_forward(h, trace)


class Nano(nn.Module):
    def __init__(self, c: NanoConfig, dtype=torch.bfloat16):
        super().__init__()
        from mtp import MTPLayer

        self.c, self.dtype = c, dtype
        self.embed_tokens = nn.Parameter((torch.randn(c.vocab_size, c.hidden) * 0.5).to(dtype))
        self.layers = nn.ModuleList(Layer(c, i, dtype) for i in range(c.layers))
        self.norm = ones(c.hidden)
        self.lm_head = nn.Parameter(torch.zeros(c.vocab_size, c.hidden, dtype=dtype))
        self.mtp = MTPLayer(c, dtype)

    def forward(self, batch, trace=None, rows=None):
        """-> hidden states after the final norm [tokens or len(rows), hidden]."""
        trace = trace or Trace()
        h = F.embedding(batch.ids, self.embed_tokens)
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            h = layer(h, batch, trace, rows if i == last else None)
        return rms_norm(h, self.norm, self.c.eps)

    def trunk_parameters(self):
        """Everything but the MTP layer and the indexers."""
        return {n: p for n, p in self.named_parameters() if not n.startswith("mtp.") and ".indexer." not in n}
