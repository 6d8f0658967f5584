"""Writes tests/data/quark_mxfp4.json: groups of 32 f32 weights and the bytes that AMD Quark stores for them.

    python make_quark_mxfp4.py

Quark's own observer, quantizer and packer do the work (scale mode "even"), on chosen groups: largest magnitudes
around the point where the scale rises, ties of the element rounding, zeros, tiny and huge values, random ones.
"""

import json
import struct

import numpy as np
import torch
from make_logits import ROOT
from quark.torch.export.nn.modules.realquantizer import StaticScaledRealQuantizer
from quark.torch.quantization.config.config import OCP_MXFP4Spec
from quark.torch.quantization.tensor_quantize import FakeQuantizeBase


def groups():
    rng = np.random.default_rng(7)
    out = []
    for mantissa in (1.0, 1.25, 1.5, 1.7499, np.nextafter(np.float32(1.75), np.float32(0)), 1.75, 1.76, 1.99):
        for exponent in (-100, -20, -1, 0, 1, 5, 30, 100):
            group = rng.uniform(-1, 1, 32)
            group[rng.integers(32)] = mantissa * (1 if rng.integers(2) else -1)
            out.append(group / max(1.0, np.abs(group).max() / mantissa) * 2.0**exponent)
    # Under an amax of 6 the scale is 1: elements at and beside every rounding boundary.
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)
    beside = np.concatenate([ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(9))])
    out.append(np.concatenate([beside, [6.0, 0.0, -0.0], -ties, [0.1]]))
    out.append(np.concatenate([-beside, [-6.0, 0.0, -0.0], ties, [-0.1]]))
    # Up to 7 under the scale of 6: saturates.
    out.append(np.concatenate([np.linspace(5.9, 6.99, 16), -np.linspace(5.9, 6.99, 16)]))
    out.append(np.zeros(32))
    out.append(np.full(32, -0.0))
    for size in (2.0**-149, 2.0**-130, 2.0**-126, 2.0**-124, 2.0**120, 2.0**126):
        out.append(rng.uniform(-1, 1, 32) * size)
    for _ in range(64):
        out.append(rng.standard_normal(32) * 2.0 ** rng.integers(-12, 4))
    out = np.array(out, np.float32)
    # Left out: below this, Quark rounds the elements under a scale of 2^-127 but stores 2^-126.
    amax = np.abs(out).max(axis=1)
    return out[(amax == 0) | (amax >= 2.0**-125)]


def quantize(values):
    spec = OCP_MXFP4Spec(ch_axis=-1, is_dynamic=False).to_quantization_spec()
    fake = FakeQuantizeBase.get_fake_quantize(spec, torch.device("cpu"))
    weight = torch.from_numpy(values)
    fake(weight)  # observes
    real = StaticScaledRealQuantizer(
        spec, fake, reorder=True, real_quantized=True, float_dtype=torch.float32, device=torch.device("cpu")
    )
    codes = real.to_real_quantize_params(weight)
    real.maybe_convert_and_transpose_scale()
    return codes.numpy(), real.scale.numpy()


def main():
    values = groups()
    codes, scales = quantize(values)
    assert codes.dtype == np.uint8 and codes.shape == (len(values), 16), (codes.dtype, codes.shape)
    assert scales.dtype == np.uint8 and scales.shape == (len(values), 1), (scales.dtype, scales.shape)
    rows = [
        {
            "values": [struct.unpack("<I", struct.pack("<f", v))[0] for v in group],
            "codes": bytes(code).hex(),
            "scale": int(scale[0]),
        }
        for group, code, scale in zip(values, codes, scales)
    ]
    about = (
        "Groups of 32 weights quantized by AMD Quark 0.13 (fp4 per_group 32, e8m0, even). Made by "
        "tools/goldens/make_quark_mxfp4.py. values: bits of f32."
    )
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path = ROOT / "tests" / "data" / "quark_mxfp4.json"
    path.write_text(f'{{"about":{json.dumps(about)},"groups":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
