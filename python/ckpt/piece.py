"""Pieces of tensors: the part of a whole that an array holds, and how a call of the library takes it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._ckpt import ffi
from .memory import DTYPES, Memory


@dataclass(slots=True)
class Piece:
    """A piece of a tensor and where it goes in the whole: a box from ``offset`` on, or a flat range from element ``start`` on; neither: the whole."""

    array: Any
    offset: Sequence[int] | None = None
    start: int | None = None


def is_whole(p: Piece, m: Memory) -> bool:
    """Whether its address says all of it. Of most tensors it does."""
    return p.offset is None and p.start is None and m.strides is None


def check_place(name: str, p: Piece, m: Memory, shape: Sequence[int], dtype: str) -> None:
    """Raises TypeError where the memory is not what such a piece of such a tensor takes."""
    if m.readonly:
        raise TypeError(f"tensor {name}: the memory is read-only, and a restore writes to it")
    if p.start is not None:
        return
    if p.offset is None and m.strides is None:
        if (shape is not m.shape or dtype is not m.dtype) and m.bytes != math.prod(shape) * DTYPES[dtype]:
            raise TypeError(f"tensor {name} is {dtype} {tuple(shape)}: memory of {m.dtype} {m.shape} is not the whole of it")
        return
    offset = (0,) * len(shape) if p.offset is None else p.offset
    if not len(offset) == len(m.shape) == len(shape) or DTYPES[m.dtype] != DTYPES[dtype]:
        raise TypeError(f"tensor {name} is {dtype} {tuple(shape)}: {m.dtype} {m.shape} from {tuple(offset)} on is no part of it")


@functools.lru_cache(1024)
def extents_of(shape: tuple[int, ...]) -> Any:
    """As an array of C. Many tensors have few shapes."""
    return ffi.new("uint64_t[]", shape)


def box_of(m: Memory, offset: Sequence[int] | None) -> list[Any]:
    """Offset, extent and steps as arrays of C; without an offset from the first element on."""
    steps = ffi.NULL if m.strides is None else ffi.new("int64_t[]", m.strides)
    return [ffi.new("uint64_t[]", [0] * len(m.shape) if offset is None else list(offset)), ffi.new("uint64_t[]", m.shape), steps]


def table_of(placed: Sequence[Piece], places: Sequence[Memory], dtype: str) -> tuple[Any, list[Any]]:
    """Pieces as a table of C, and what it points to."""
    table, boxes = ffi.new("ckpt_piece[]", len(placed) or 1), []
    for at, p, m in zip(table, placed, places):
        at.data = ffi.cast("void *", m.pointer)
        if p.start is not None:
            at.start, at.count = p.start, m.bytes // DTYPES[dtype]
        elif not is_whole(p, m):
            boxes.append(box_of(m, p.offset))
            at.offset, at.extent, at.stride = boxes[-1]
    return table, boxes
