"""Makes the MXFP4 checkpoint of quern-nano with AMD Quark, in the layout of amd/GLM-5.2-MXFP4.

    python quantize.py --model models/quern-nano --out models/quern-nano-mxfp4

Routed and shared experts of the trunk become MXFP4 (scales "even"); everything else stays as it is. Quark's own recipe for this
architecture does that, on the model as transformers builds it. What transformers does not build, the MTP layer, is added here
in bf16 and listed in `exclude`, leaf by leaf. Then every byte is compared with what Quark's quantizer alone makes of the same
weights as plain matrices.
"""

import argparse
import json
import pathlib
import re
import shutil
import tempfile

import torch
from config import NanoConfig
from layout import is_trunk_expert
from safetensors.torch import load_file, save_file

COPIED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "examples.json")


def export_by_quark(source, folder):
    from quark.torch import LLMTemplate, ModelQuantizer, export_safetensors
    from quark.torch.utils.llm.model_preparation import preprocess_for_quantization
    from transformers import GlmMoeDsaForCausalLM

    model = GlmMoeDsaForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    preprocess_for_quantization(model)  # fused experts to one Linear each
    quantizer = ModelQuantizer(LLMTemplate.get("glm_moe_dsa").get_config(scheme="mxfp4"))
    export_safetensors(quantizer.freeze(quantizer.quantize_model(model)), str(folder))


def quantize_plain(weight):
    """One matrix through Quark's observer, quantizer and packer -> codes [out, in / 2], scales [out, in / 32]."""
    from quark.torch.export.nn.modules.realquantizer import StaticScaledRealQuantizer
    from quark.torch.quantization.config.config import OCP_MXFP4Spec
    from quark.torch.quantization.tensor_quantize import FakeQuantizeBase

    cpu = torch.device("cpu")
    spec = OCP_MXFP4Spec(ch_axis=-1, is_dynamic=False).to_quantization_spec()
    fake = FakeQuantizeBase.get_fake_quantize(spec, cpu)
    fake(weight)  # observes
    real = StaticScaledRealQuantizer(
        spec, fake, reorder=True, real_quantized=True, float_dtype=torch.float32, device=cpu
    )
    codes = real.to_real_quantize_params(weight)
    real.maybe_convert_and_transpose_scale()
    return codes, real.scale


def is_linear(name):
    """Leaves that Quark's lists speak of: Linear modules, not norms and not the router."""
    return name.endswith(".weight") and not re.search(r"norm\.weight$|mlp\.gate\.weight$|embed_tokens", name)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    source, out = pathlib.Path(args.model), pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    c = NanoConfig(vocab_size=config["vocab_size"])
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        export_by_quark(source, scratch)
        made = {}
        for path in sorted(pathlib.Path(scratch).glob("*.safetensors")):
            made |= load_file(path)
        quark = json.loads((pathlib.Path(scratch) / "config.json").read_text())["quantization_config"]

    plain, tensors, quantized = load_file(source / "model.safetensors"), {}, 0
    mtp = f"model.layers.{c.layers}."
    for name, weight in plain.items():
        if is_trunk_expert(name, c):
            scale = name.replace(".weight", ".weight_scale")
            codes, scales = quantize_plain(weight.float())
            assert torch.equal(made[name], codes) and torch.equal(made[scale], scales), name
            tensors[name], tensors[scale] = made.pop(name), made.pop(scale)
            quantized += 1
            continue
        if not name.startswith(mtp):
            # The router too: Quark widens it to f32, the published file has it in bf16; the values are the same.
            assert torch.equal(made.pop(name).to(weight.dtype), weight), name
        tensors[name] = weight
    assert not made, sorted(made)

    exclude = list(quark["exclude"])
    exclude += [n.removesuffix(".weight") for n in plain if n.startswith(mtp) and is_linear(n)]
    config["quantization_config"] = quark | {"exclude": exclude}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({n: t.contiguous() for n, t in tensors.items()}, out / "model.safetensors", metadata={"format": "pt"})
    for name in COPIED:
        if (source / name).exists():
            shutil.copyfile(source / name, out / name)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    print(f"{quantized} matrices in MXFP4, the bytes of Quark on plain matrices; {len(tensors)} tensors, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
