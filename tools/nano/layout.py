"""Names of Hugging Face's checkpoint for the parameters of model.py, both ways."""

import re

import torch


def to_hf(state, c):
    """state dict of Nano -> name -> tensor as the checkpoint has them (bf16; the router's bias F32; experts one by one)."""
    out = {}
    for name, value in state.items():
        out.update(_one(name, value.detach(), c))
    return {n: v.float() if n.endswith("e_score_correction_bias") else v.bfloat16() for n, v in out.items()}


def _one(name, value, c):
    if name == "lm_head":
        return {"lm_head.weight": value}
    if name.startswith("mtp."):
        prefix = f"model.layers.{c.layers}."
        rest = name[len("mtp.") :].removeprefix("layer.")
        rest = rest.replace("shared_head_norm", "shared_head.norm")
    else:
        prefix, rest = "model.", name
    rest = rest.replace("k_norm_weight", "k_norm.weight").replace("k_norm_bias", "k_norm.bias")
    full = prefix + rest
    if full.endswith("mlp.gate_up"):
        stem, inter = full.removesuffix("gate_up"), value.shape[1] // 2
        parts = {}
        for e, w in enumerate(value):
            parts[f"{stem}experts.{e}.gate_proj.weight"] = w[:inter]
            parts[f"{stem}experts.{e}.up_proj.weight"] = w[inter:]
        return parts
    if full.endswith("mlp.down"):
        stem = full.removesuffix("down")
        return {f"{stem}experts.{e}.down_proj.weight": w for e, w in enumerate(value)}
    if full.endswith("mlp.e_score_correction_bias"):
        return {full.replace("mlp.", "mlp.gate."): value}
    if full.endswith(("k_norm.weight", "k_norm.bias")):
        return {full: value}
    return {full + ".weight": value}


def from_hf(tensors, names, c):
    """The other way: `names` are the keys of Nano's state dict with a tensor of each one's shape."""
    state = {}
    for name, like in names.items():
        if name.endswith(("mlp.gate_up", "mlp.down")):
            shards = _one(name, like, c)
            parts = [tensors[n] for n in shards]
            if name.endswith("gate_up"):
                parts = [torch.cat(parts[i : i + 2]) for i in range(0, len(parts), 2)]
            state[name] = torch.stack(parts)
        else:
            (full,) = _one(name, like, c)
            state[name] = tensors[full]
    return state


def is_trunk_expert(name, c):
    """Routed and shared experts of the trunk: what the MXFP4 checkpoint quantizes."""
    m = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.(experts\.\d+|shared_experts)\.(gate|up|down)_proj\.weight", name)
    return m is not None and int(m[1]) < c.layers
