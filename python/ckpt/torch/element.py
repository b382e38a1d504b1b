"""Tensors of PyTorch as memory: element types, addresses, steps, and the stream that changes them."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..memory import HOST, Memory

NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3", "int16": "I16", "uint16": "U16",
    "float16": "F16", "bfloat16": "BF16", "int32": "I32", "uint32": "U32", "float32": "F32", "complex64": "C64", "float64": "F64", "int64": "I64",
    "uint64": "U64", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}


_cuda: Any = torch.cuda


@functools.cache
def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


#: PyTorch's types by the names of ckpt, for those that this version of PyTorch has.
DTYPES = {ours: getattr(torch, theirs) for theirs, ours in NAMES.items() if hasattr(torch, theirs)}


@functools.cache
def stored_as(dtype: torch.dtype) -> tuple[torch.dtype, tuple[int, ...]]:
    """The type that elements are saved as, and the dimensions that each of them then has: a complex128 is two float64, a type without a name is bytes."""
    if dtype is torch.complex128:
        return torch.float64, (2,)
    if name_of(dtype) in NAMES:
        return dtype, ()
    return torch.uint8, (dtype.itemsize,) if dtype.itemsize > 1 else ()


def check_whole(t: torch.Tensor) -> None:
    """Raises TypeError of what is more than its elements."""
    if t.is_quantized:
        raise TypeError("a quantised tensor whose scale and zero point are not in its memory: save int_repr() and these")


def plain(t: torch.Tensor) -> torch.Tensor:
    """The same memory as the type that is saved. The dimensions of an element stand behind those of the tensor."""
    t = t.detach()
    check_whole(t)
    dtype, tail = stored_as(t.dtype)
    if t.is_conj() or t.is_neg():
        raise TypeError("a view whose memory has other numbers, conjugated or negative ones: save what resolve_conj() or resolve_neg() gives")
    if dtype is t.dtype:
        return t
    return (t.unsqueeze(-1) if tail else t).view(dtype)


def memory(t: torch.Tensor) -> Memory:
    """Where a tensor of :func:`plain` stands. The tensor is kept alive with it."""
    size = t.element_size()
    strides = None if t.is_contiguous() else tuple(s * size for s in t.stride())
    device = HOST if t.device.type == "cpu" else int(t.device.index or 0)
    if t.device.type not in ("cpu", "cuda"):
        raise TypeError(f"a tensor on device {t.device}: only the host and CUDA devices are saved from")
    return Memory(t.data_ptr(), NAMES[name_of(t.dtype)], tuple(t.shape), strides, device, False, t)


def current_stream() -> int:
    """The stream on which this thread works with the GPU; 0 where there is none."""
    if _cuda.is_initialized():  # is_available asks the driver, in each begin and fence
        return int(_cuda.current_stream().cuda_stream)
    return 0
