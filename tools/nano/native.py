"""Builds and calls the C++ kernels of this folder (attention.cc); `lib` is None where that cannot be done."""

import ctypes
import hashlib
import pathlib
import subprocess
import tempfile

import torch

QK, V = 48, 32  # the widths attention.cc is written for


def _build():
    source = pathlib.Path(__file__).with_name("attention.cc")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    target = pathlib.Path(tempfile.gettempdir()) / f"quern-nano-{digest}.so"
    try:
        if "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text():
            return None
        if not target.exists():
            part = target.with_suffix(".part")
            command = ["g++", "-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-o", part, source]
            subprocess.run(command, check=True)
            part.rename(target)
        return ctypes.CDLL(str(target))
    except (OSError, subprocess.CalledProcessError):
        return None


lib = _build()


def _pointers(*tensors):
    assert all(t.is_contiguous() for t in tensors)
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def _tail(lens, masks, heads, scale):
    documents = len(lens)
    lens = (ctypes.c_int64 * documents)(*lens)
    masks = (ctypes.c_void_p * documents)(*(None if m is None else m.data_ptr() for m in masks or [None] * documents))
    return lens, masks, ctypes.c_int64(documents), ctypes.c_int64(heads), ctypes.c_float(scale)


def attention(q, k, v, lens, masks, scale):
    """q, k [tokens, heads, QK], v [tokens, heads, V], bf16 -> out like v, lse [tokens, heads] f32."""
    out, lse = torch.empty_like(v), torch.empty(v.shape[:2])
    lib.NanoAttentionForward(*_pointers(q, k, v, out, lse), *_tail(lens, masks, q.shape[1], scale))
    return out, lse


def attention_backward(dout, q, k, v, out, lse, lens, masks, scale):
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    args = _pointers(dout, q, k, v, out, lse, dq, dk, dv)
    lib.NanoAttentionBackward(*args, *_tail(lens, masks, q.shape[1], scale))
    return dq, dk, dv


def momentum(grads, m, update):
    """Muon's momentum and Nesterov update of one parameter; grads: of one or two workers, bf16."""
    assert m.numel() % 16 == 0 and len(grads) <= 2
    second = _pointers(grads[1])[0] if len(grads) > 1 else ctypes.c_void_p(None)
    args = [_pointers(grads[0])[0], second, *_pointers(m, update)]
    lib.NanoMomentum(*args, ctypes.c_int64(m.numel()))


def apply(master, direction, weight, decay, rate):
    args = _pointers(master, direction, weight)
    lib.NanoApply(*args, ctypes.c_int64(master.numel()), ctypes.c_float(decay), ctypes.c_float(rate))
