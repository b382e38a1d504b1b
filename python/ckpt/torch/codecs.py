"""How values of PyTorch and NumPy stand in a document."""

from __future__ import annotations

from typing import Any

import torch

from ..tree import codec
from .element import check_whole, name_of


def dtype_of(name: Any) -> torch.dtype:
    """A type by its name in a document. ValueError: there is none."""
    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise ValueError("no element type")
    return found


def _to_json(t: torch.Tensor) -> Any:
    if hasattr(t, "device_mesh"):
        raise TypeError("a DTensor cannot stand in a document")
    check_whole(t)
    data = t.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return [name_of(t.dtype), list(t.shape), data.reshape(-1).unsqueeze(-1).view(torch.uint8).numpy().tobytes()]


def _from_json(value: Any) -> torch.Tensor:
    name, shape, data = value
    if not isinstance(data, bytes) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("no tensor")
    dtype = dtype_of(name)
    count = 1
    for n in shape:
        count *= n
    if count * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for a shape of {list(shape)}")
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)


def _array_to_json(array: Any) -> Any:
    import numpy

    if type(array) not in (numpy.ndarray, numpy.memmap):
        raise TypeError("what such an array has beside its elements, as a mask, would be lost: save these one by one")
    return _to_json(torch.from_numpy(array.copy()))


def _array(value: Any) -> Any:
    return _from_json(value).numpy()


def register() -> None:
    """Called once, when ckpt.torch is imported."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        codec(kind, "tensor", _to_json, _from_json)
    codec(torch.dtype, "dtype", name_of, dtype_of)
    codec(torch.Size, "size", list, lambda v: torch.Size(v))
    codec(torch.device, "device", str, lambda v: torch.device(v))
    try:
        import numpy
    except ImportError:
        return
    codec(numpy.ndarray, "array", _array_to_json, _array)
    codec(numpy.generic, "number", lambda n: _to_json(torch.from_numpy(numpy.asarray(n).copy())), lambda v: _array(v)[()])


