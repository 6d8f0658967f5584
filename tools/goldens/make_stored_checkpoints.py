"""Writes the checkpoints that are stored rather than generated, and their goldens.

    python make_stored_checkpoints.py [--only saved|quark]

tests/golden/saved-by-transformers/   save_pretrained of a random bf16 model
tests/golden/exported-by-quark/       the same kind of model through AMD Quark's own MXFP4 recipe for this architecture
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM

import make_logits
from logit_cases import Case
from make_logits import ROOT

FOLDER = ROOT / "tests" / "golden"

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 12,
    "indexer_types": ["full", "shared", "full"],
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "max_position_embeddings": 512,
    "eos_token_id": [95],
    "pad_token_id": 95,
}


def random_model(seed):
    """Like the generator's weights: matrices keep activations near 1, norm weights lie around 1.

    But the latents before their norms are small, as they can be in trained models, so that the norms' eps shows.
    """
    torch.manual_seed(seed)
    model = GlmMoeDsaForCausalLM(GlmMoeDsaConfig(**SIZES)).eval()
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if "inv_freq" in name:
            continue
        noise = torch.randn(value.shape)
        if name.endswith("e_score_correction_bias"):
            value.copy_(6.9 + 0.3 * noise)
        elif value.dim() == 1:
            value.copy_(0.1 * noise + (0 if name.endswith("bias") else 1))
        elif "embed_tokens" in name:
            value.copy_(noise)
        else:
            value.copy_(noise * value.shape[-1] ** -0.5)
        if name.endswith("q_a_proj.weight"):
            value.mul_(0.01)
        elif name.endswith("kv_a_proj_with_mqa.weight"):
            value[: SIZES["kv_lora_rank"]].mul_(0.01)
    return model


def save(folder, seed):
    """In bf16, by way of from_pretrained, as a published bf16 file is made: the router stays f32."""
    with tempfile.TemporaryDirectory() as first:
        random_model(seed).save_pretrained(first)
        GlmMoeDsaForCausalLM.from_pretrained(first, dtype=torch.bfloat16).save_pretrained(folder)


def export_by_quark(folder, seed):
    from quark.torch import LLMTemplate, ModelQuantizer, export_safetensors
    from quark.torch.utils.llm.model_preparation import preprocess_for_quantization

    with tempfile.TemporaryDirectory() as source:
        save(source, seed)
        model = GlmMoeDsaForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
        preprocess_for_quantization(model)  # fused experts to one Linear each
        quantizer = ModelQuantizer(LLMTemplate.get("glm_moe_dsa").get_config(scheme="mxfp4"))
        model = quantizer.freeze(quantizer.quantize_model(model))
        export_safetensors(model, str(folder))


def golden_of(name, about, folder, layout):
    case = Case(
        name,
        about,
        json.loads((folder / "config.json").read_text()),
        layout,
        positions=[4, 11, 12, 63, 99],
        greedy_from=[5],
    )
    golden = make_logits.run_case(case, folder, {"folder": name} | make_logits.weights_hashes(folder))
    make_logits.dump(golden, FOLDER / f"{name}.json")
    print(make_logits.summary(golden), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["saved", "quark"])
    only = parser.parse_args().only
    for key, name, make, layout, about in [
        ("saved", "saved-by-transformers", save, "bf16", "save_pretrained of a random model in bf16"),
        ("quark", "exported-by-quark", export_by_quark, "quark", "AMD Quark's MXFP4 recipe and exporter"),
    ]:
        if only not in (None, key):
            continue
        folder = FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        with torch.no_grad():
            make(folder, seed=3)
        for path in folder.iterdir():
            path.chmod(0o644)
        (folder / "generation_config.json").unlink(missing_ok=True)
        golden_of(name, about, folder, layout)


if __name__ == "__main__":
    main()
