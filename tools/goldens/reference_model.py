"""Hugging Face transformers as the judge: builds a model from decoded weights and runs it."""

import contextlib
import re

import numpy as np
import torch
from transformers import (
    Glm4MoeLiteConfig,
    Glm4MoeLiteForCausalLM,
    GlmMoeDsaConfig,
    GlmMoeDsaForCausalLM,
)

torch.set_num_threads(1)

CLASSES = {
    "glm_moe_dsa": (GlmMoeDsaConfig, GlmMoeDsaForCausalLM),
    "glm4_moe_lite": (Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# transformers keeps these in f32 whatever the model's dtype (_keep_in_fp32_modules_strict).
KEPT_IN_F32 = ("e_score_correction_bias", "mlp.gate.weight")


@contextlib.contextmanager
def stable_topk():
    """torch.topk leaves the order of equal values open, and index scores of exactly 0 (every head's
    ReLU closed) are common in small models. Inside this context ties go to the lower index.
    """

    def topk(x, k, dim=-1, largest=True, sorted=True):
        assert dim in (-1, x.dim() - 1) and largest
        values, order = torch.sort(x, dim=-1, descending=True, stable=True)
        return torch.return_types.topk((values[..., :k], order[..., :k]))

    saved = torch.topk, torch.Tensor.topk
    torch.topk = torch.Tensor.topk = topk
    try:
        yield
    finally:
        torch.topk, torch.Tensor.topk = saved


def fuse_experts(weights):
    """experts.E.{gate,up,down}_proj.weight -> experts.gate_up_proj [E, 2I, H], experts.down_proj."""
    fused, experts = {}, {}
    for name, value in weights.items():
        match = re.fullmatch(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight", name)
        if match is None:
            fused[name] = value
        else:
            experts.setdefault(match[1], {})[int(match[2]), match[3]] = value
    for prefix, parts in experts.items():
        count = 1 + max(e for e, _ in parts)
        assert len(parts) == 3 * count, prefix
        fused[prefix + ".gate_up_proj"] = np.stack(
            [np.concatenate([parts[e, "gate"], parts[e, "up"]]) for e in range(count)]
        )
        fused[prefix + ".down_proj"] = np.stack([parts[e, "down"] for e in range(count)])
    return fused


def make_config(json_config):
    fields = {k: v for k, v in json_config.items() if k not in ("quantization_config", "dtype")}
    return CLASSES[fields["model_type"]][0](**fields)


def trunk_only(weights, num_layers):
    """Without the MTP layer, the one thing transformers does not build."""
    layer = re.compile(r"model\.layers\.(\d+)\.")
    return {n: v for n, v in weights.items() if (m := layer.match(n)) is None or int(m[1]) < num_layers}


def build(json_config, weights, dtype, fast=True):
    """Strict: every parameter of the model is in `weights` and every weight of the trunk is used.

    fast: transformers' defaults (sdpa, grouped_mm); else its plain loops, which round elsewhere.
    """
    config = make_config(json_config)
    config._attn_implementation = "sdpa" if fast else "eager"
    # torch's grouped GEMM wants rows of a multiple of 16 bytes.
    can_group = config.hidden_size % 8 == 0 and config.moe_intermediate_size % 8 == 0
    config._experts_implementation = "grouped_mm" if fast and can_group else "eager"
    model = CLASSES[config.model_type][1](config).eval()
    state = trunk_only(fuse_experts(weights), config.num_hidden_layers)
    tensors = {n: torch.from_numpy(np.array(v, np.float32)) for n, v in state.items()}
    if config.tie_word_embeddings:
        tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"])
    model.load_state_dict(tensors, strict=True)
    for name, parameter in model.named_parameters():
        if not name.endswith(KEPT_IN_F32):
            parameter.data = parameter.data.to(DTYPES[dtype])
    return model


@torch.no_grad()
def logits_of(model, prompts):
    """[batch, len] ids -> f32 [batch, len, vocab]."""
    with stable_topk():
        return model(input_ids=torch.as_tensor(np.asarray(prompts)), use_cache=False).logits.float().numpy()


@torch.no_grad()
def greedy(model, prompts, count):
    """-> tokens, margins (top logit - second) and the largest |logit|, each [batch, count]."""
    ids, cache, steps = torch.as_tensor(np.asarray(prompts)), None, []
    for _ in range(count):
        with stable_topk():
            out = model(input_ids=ids, cache=cache, use_cache=True)
        cache, logits = out.cache, out.logits[:, -1].float()
        values, order = torch.sort(logits, dim=-1, descending=True, stable=True)
        steps.append((order[:, 0], values[:, 0] - values[:, 1], logits.abs().amax(-1)))
        ids = order[:, :1]
    return tuple(torch.stack(part, 1).numpy() for part in zip(*steps))


def loads_alike(folder, model):
    """Does from_pretrained, given the folder itself, arrive at the same parameters as `model`?"""
    other, info = type(model).from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    layers = model.config.num_hidden_layers
    stray = [n for n in info["unexpected_keys"] if not n.startswith(f"model.layers.{layers}.")]
    assert not info["missing_keys"] and not info["mismatched_keys"] and not stray, info
    mine = dict(model.named_parameters()) | dict(model.named_buffers())
    theirs = dict(other.named_parameters()) | dict(other.named_buffers())
    assert mine.keys() == theirs.keys()
    return all(torch.equal(mine[n], theirs[n]) for n in mine)
