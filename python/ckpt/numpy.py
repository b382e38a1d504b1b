"""Checkpoints as arrays of NumPy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from .memory import HOST, Memory
from .reader import Reader, Tensor

_TYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4", "F32": "<f4", "C64": "<c8",
          "F64": "<f8", "I64": "<i8", "U64": "<u8"}
_ML_TYPES = {"BF16": "bfloat16", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
             "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}


def dtype(name: str) -> np.dtype[Any]:
    """NumPy's type. For BF16 and F8 that is one of ml_dtypes; where it is not installed, unsigned whole numbers of the same bits."""
    if name in _TYPES:
        return np.dtype(_TYPES[name])
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("<u2" if name == "BF16" else "u1")
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_TYPES[name]))
    return found


def _empty(t: Tensor) -> np.ndarray[Any, Any]:
    return np.empty(t.shape, dtype(t.dtype))


def _memory(t: Tensor, array: np.ndarray[Any, Any]) -> Memory:
    return Memory(array.ctypes.data, t.dtype, array.shape, None, HOST, False, array)


def read(reader: Reader, names: Iterable[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors of an open checkpoint, whole and checked, all in one read. ``names``: None means all but the blobs."""
    chosen = [reader[n] for n in names] if names is not None else [t for t in reader.values() if t.scope is None]
    arrays = {t.name: _empty(t) for t in chosen}
    reader.read_into({t.name: _memory(t, arrays[t.name]) for t in chosen})
    return arrays


def load(store: str | os.PathLike[str] | None = None, job: str | None = None, step: int | str = "latest",
         names: Iterable[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors of a checkpoint: ``ckpt.numpy.load("store", "gpt", step="healthy")``. The arguments are those of :class:`ckpt.Reader`."""
    with Reader(store, job, step) as reader:
        return read(reader, names)


def memmap(reader: Reader, name: str) -> np.ndarray[Any, Any]:
    """A tensor that was saved as one uncompressed piece, mapped read-only from its file. Nothing is copied, and nothing is checked."""
    t, piece = reader[name], reader.single_piece(name)
    return np.memmap(piece.path, dtype(t.dtype), "r", piece.at, t.shape)
