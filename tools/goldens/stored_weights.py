"""Reads a checkpoint folder with numpy alone and decodes every weight to f32.

Written from the descriptions of the formats, and on purpose not from this repository's C++: it is the
other opinion that the C++ loader is compared with.
"""

import json
from pathlib import Path

import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, -E2M1])
FP8_BLOCK = 128
MX_GROUP = 32
NV_GROUP = 16


def _e4m3_table():
    table = np.empty(256, np.float32)
    for code in range(256):
        exponent, mantissa = (code >> 3) & 15, code & 7
        if exponent == 15 and mantissa == 7:
            value = np.nan
        elif exponent == 0:
            value = mantissa / 8 * 2.0**-6
        else:
            value = (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        table[code] = -value if code & 128 else value
    return table


E4M3 = _e4m3_table()


def _as_float(dtype, raw):
    """A stored array as f32 where its dtype is a number of its own; bytes stay bytes."""
    if dtype == "F32":
        return raw.view("<f4").astype(np.float32)
    if dtype == "F16":
        return raw.view("<f2").astype(np.float32)
    if dtype == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype == "F8_E4M3":
        return E4M3[raw]
    if dtype == "U8":
        return raw
    raise ValueError(f"dtype {dtype} is not one the goldens use")


def read_tensors(folder):
    """name -> (dtype, array in the stored shape) over all .safetensors files of the folder."""
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        header_bytes = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + header_bytes])
        header.pop("__metadata__", None)
        body = np.frombuffer(data, np.uint8, offset=8 + header_bytes)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            values = _as_float(entry["dtype"], body[begin:end])
            assert name not in tensors, f"{name} is stored twice"
            tensors[name] = (entry["dtype"], values.reshape(entry["shape"]))
    return tensors


def _nibbles(packed):
    """[..., n] bytes -> [..., 2n] E2M1 values, low nibble first."""
    pairs = np.stack([packed & 15, packed >> 4], axis=-1)
    return E2M1[pairs.reshape(*packed.shape[:-1], 2 * packed.shape[-1])]


def _e8m0(codes):
    assert (codes != 255).all(), "E8M0 code 255 is NaN"
    return np.exp2(codes.astype(np.float64) - 127)


def _mxfp4(packed, codes):
    scales = np.repeat(_e8m0(codes), MX_GROUP, axis=-1)
    return (_nibbles(packed).astype(np.float64) * scales).astype(np.float32)


def _nvfp4(packed, scales, factor):
    grouped = np.repeat(scales.astype(np.float64) * factor, NV_GROUP, axis=-1)
    return (_nibbles(packed).astype(np.float64) * grouped).astype(np.float32)


def _fp8(values, scale):
    """Scale per 128 x 128 block, per row, or one for all, told apart by its shape."""
    if scale.size == 1 and scale.ndim < 2:
        return values * scale.reshape(())
    rows, cols = values.shape
    blocks = (-(-rows // FP8_BLOCK), -(-cols // FP8_BLOCK))
    if scale.ndim == 2 and scale.shape == blocks and scale.shape != (rows, 1):
        grid = np.repeat(np.repeat(scale, FP8_BLOCK, 0)[:rows], FP8_BLOCK, 1)[:, :cols]
        return values * grid
    assert scale.size == rows, f"scale {scale.shape} for weight {values.shape}"
    return values * scale.reshape(rows, 1)


def _decode_module(module, tensors, used):
    def take(suffix):
        used.add(module + suffix)
        return tensors[module + suffix]

    def has(suffix):
        return module + suffix in tensors

    if has(".weight_packed"):
        packed, (scale_dtype, scales) = take(".weight_packed")[1], take(".weight_scale")
        if scale_dtype == "U8":
            return _mxfp4(packed, scales)
        used.add(module + ".input_global_scale")
        return _nvfp4(packed, scales, 1 / np.float64(take(".weight_global_scale")[1].item()))
    dtype, weight = take(".weight")
    if has(".weight_scale_inv"):
        return _fp8(weight, take(".weight_scale_inv")[1])
    if not has(".weight_scale"):
        return weight
    scale_dtype, scales = take(".weight_scale")
    if dtype == "F8_E4M3":
        return _fp8(weight, scales)
    if scale_dtype == "U8":
        return _mxfp4(weight, scales)
    used.add(module + ".input_scale")
    return _nvfp4(weight, scales, np.float64(take(".weight_scale_2")[1].item()))


def _decode_stacked(name, tensors, used):
    """gpt-oss style: _blocks [E, rows, groups, 16], _scales [E, rows, groups]."""
    used.update({name + "_blocks", name + "_scales"})
    blocks = tensors[name + "_blocks"][1]
    values = _mxfp4(blocks.reshape(*blocks.shape[:2], -1), tensors[name + "_scales"][1])
    if name.endswith("gate_up_proj"):  # gate and up rows alternate
        values = np.concatenate([values[:, 0::2], values[:, 1::2]], axis=1)
    return values


def decode_all(folder):
    """Parameter name (as in the file, fused experts without ".weight") -> f32 array.

    Every stored tensor must be consumed: a scale nobody asked for is an error.
    """
    tensors = read_tensors(folder)
    used, decoded = set(), {}
    for name in tensors:
        if name.endswith("_blocks"):
            decoded[name[: -len("_blocks")]] = _decode_stacked(name[: -len("_blocks")], tensors, used)
        elif name.endswith((".weight", ".weight_packed")):
            module = name.rsplit(".", 1)[0]
            decoded[module + ".weight"] = _decode_module(module, tensors, used)
        elif name.endswith((".bias", "e_score_correction_bias", "experts.gate_up_proj", "experts.down_proj")):
            decoded[name] = tensors[name][1]
            used.add(name)
    left = sorted(set(tensors) - used)
    assert not left, f"{folder}: nothing decodes {left[:5]} ({len(left)} tensors)"
    return decoded
