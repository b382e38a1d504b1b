"""Where an array stands: its address, element type, shape and steps, whatever made it."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

from ._ckpt import ffi

HOST = -1
_NUMBER, _cast, _from_buffer = ffi.typeof("uintptr_t"), ffi.cast, ffi.from_buffer

#: Element types by their names, with the bytes of an element. The order is that of ``ckpt_dtype``.
DTYPES: dict[str, int] = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4,
    "C64": 8, "F64": 8, "I64": 8, "U64": 8, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
}
NAMES: tuple[str, ...] = tuple(DTYPES)

_BY_TYPESTR = {
    "b1": "BOOL", "u1": "U8", "i1": "I8", "u2": "U16", "i2": "I16", "f2": "F16", "u4": "U32", "i4": "I32", "f4": "F32", "u8": "U64", "i8": "I64",
    "f8": "F64", "c8": "C64",
}
#: What no other type is called; of the rest the name of the type counts, and takes longer to find.
_CERTAIN = {kind: name for kind, name in _BY_TYPESTR.items() if kind != "f2"}
_BY_NAME = {
    "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}


@dataclass(slots=True)
class Memory:
    """Memory that holds an array. ``strides`` are bytes per step of each dimension; None: packed. ``owner`` keeps it alive."""

    pointer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    device: int = HOST
    readonly: bool = False
    owner: Any = None

    @property
    def bytes(self) -> int:
        size = DTYPES[self.dtype]
        for extent in self.shape:
            size *= extent
        return size


def dtype_name(array: Any, typestr: str) -> str:
    """The name of an element type, by the array's own ``dtype`` or by what the array interface calls it."""
    if typestr[0] == ">":
        raise TypeError(f"elements of type {typestr} are big-endian: give them in little-endian order")
    if name := _CERTAIN.get(typestr[1:]):
        return name
    name = _BY_NAME.get(str(getattr(array, "dtype", "")).removeprefix("torch.")) or _BY_TYPESTR.get(typestr[1:])
    if not name:
        raise TypeError(f"elements of type {typestr} have no name here: view them as unsigned whole numbers of their size")
    return name


@functools.cache
def _plain_types() -> dict[Any, str]:
    import numpy

    return {numpy.dtype(f"={kind}"): name for kind, name in _BY_TYPESTR.items()}


def _of_ndarray(array: Any, types: dict[Any, str]) -> Memory | None:
    """What is packed and has a common type: its array interface takes three times as long to make."""
    flags, dtype = array.flags, types.get(array.dtype)
    if dtype is None or not flags.c_contiguous:
        return None
    return Memory(int(_cast(_NUMBER, _from_buffer(array))), dtype, array.shape, None, HOST, not flags.writeable, array)


def _of_interface(array: Any, interface: dict[str, Any], device: int) -> Memory:
    if interface.get("mask") is not None:
        raise TypeError("an array with a mask cannot be saved: fill it first")
    pointer, readonly = interface["data"]
    strides = interface.get("strides")
    return Memory(pointer, dtype_name(array, interface["typestr"]), tuple(interface["shape"]), tuple(strides) if strides else None, device,
                  bool(readonly), array)


def _of_buffer(buffer: Any) -> Memory:
    view = memoryview(buffer)
    size = view.itemsize
    kind = {"?": "b", "f": "f", "d": "f", "e": "f"}.get(view.format.lstrip("@=<"), "i" if view.format.lstrip("@=<").islower() else "u")
    if view.format.lstrip("@=<") == "c":
        kind = "u"
    if f"{kind}{size}" not in _BY_TYPESTR:
        raise TypeError(f"elements of format {view.format} have no name here: view them as unsigned whole numbers of their size")
    held = ffi.from_buffer(view)
    return Memory(int(ffi.cast("uintptr_t", held)), _BY_TYPESTR[f"{kind}{size}"], tuple(view.shape or ()), None, HOST, view.readonly, (buffer, held))


def _of_cuda(array: Any, interface: dict[str, Any]) -> Memory:
    """The interface does not say which GPU it is; CuPy and PyTorch do."""
    device = getattr(array, "device", None)
    ordinal = next((n for n in (getattr(device, "index", None), getattr(device, "id", None)) if type(n) is int), None)
    if ordinal is None:
        raise TypeError(f"a {type(array).__qualname__} does not say on which GPU it is: give a ckpt.Memory with the device")
    return _of_interface(array, interface, ordinal)


def _of_dlpack(array: Any) -> Memory:
    import numpy

    try:
        view = numpy.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise TypeError(f"DLPack does not give a {type(array).__qualname__} to the host: {e}") from e
    return _of_interface(view, view.__array_interface__, HOST)


def named_memory(what: str, array: Any) -> Memory:
    """:func:`memory_of`, whose error says what it is about."""
    try:
        return memory_of(array)
    except (TypeError, BufferError) as e:
        raise TypeError(f"{what}: {e}") from e


def memory_of(array: Any) -> Memory:
    """Where an array stands. It is a :class:`Memory`, or has ``__array_interface__`` (NumPy), ``__cuda_array_interface__`` (CuPy, PyTorch on a GPU),
    ``__dlpack__`` on the host, or the buffer protocol. Nothing is copied."""
    if isinstance(array, Memory):
        return array
    numpy = sys.modules.get("numpy")
    if numpy and type(array) is numpy.ndarray and (memory := _of_ndarray(array, _plain_types())):
        return memory
    interface = getattr(array, "__array_interface__", None)
    if interface:
        return _of_interface(array, interface, HOST)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface:
        return _of_cuda(array, interface)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    return _of_buffer(array)
