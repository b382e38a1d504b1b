"""Which part of which tensor a rank holds: whole tensors, DTensors on any mesh, flat ranges, and tensors made of tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from ..region import Box, Cut, boxes_of
from ..piece import Piece
from .element import NAMES, memory, name_of, plain, stored_as

#: The replica group of a tensor that is whole on each rank that has it.
EVERYWHERE = "all"


@dataclass(frozen=True)
class Flat:
    """Said by ``place``: the tensor is a flat range of a whole of this shape, from element ``start`` on. ``replica``: who holds the same."""

    shape: tuple[int, ...]
    start: int
    replica: str | None = None


@dataclass(frozen=True)
class Part:
    """Said by ``place``: the tensor is a box of a whole of this shape, from ``offset`` on. ``replica``: who holds the same."""

    shape: tuple[int, ...]
    offset: tuple[int, ...]
    replica: str | None = None


Place = Callable[[str, torch.Tensor], Flat | Part | None]


@dataclass(slots=True)
class Layout:
    """How one tensor is registered. ``arrays``: the local tensors of its pieces, ``local`` the tensor whose address is watched."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: list[Piece]
    replica: str | None
    local: torch.Tensor


def local_of(t: torch.Tensor) -> torch.Tensor:
    """The tensor whose memory is on this rank."""
    t = t.detach()
    if isinstance(t, DTensor):
        t = t.to_local()
    return t


def _names(mesh: DeviceMesh) -> tuple[str, ...]:
    return mesh.mesh_dim_names or tuple(f"mesh{i}" for i in range(mesh.ndim))


def _elsewhere(mesh: DeviceMesh) -> list[str]:
    """The dimensions of a larger mesh that this one is a part of: along these, ranks hold the same."""
    whole = mesh._get_root_mesh()
    if whole.size() == mesh.size():
        return []
    return [n for i, n in enumerate(_names(whole)) if n not in _names(mesh) and whole.size(i) > 1] or ["mesh"]


def _cuts(name: str, t: DTensor, coordinate: Any) -> tuple[dict[int, list[Cut]], list[str]]:
    cuts: dict[int, list[Cut]] = {}
    same, names = _elsewhere(t.device_mesh), _names(t.device_mesh)
    placements: Sequence[Any] = t.placements
    for i, placement in enumerate(placements):
        count = t.device_mesh.size(i)
        if placement.is_partial():
            raise TypeError(f"{name} is a DTensor with partial sums on mesh dimension {names[i]}: redistribute it before it is saved")
        if placement.is_replicate():
            same += [names[i]] if count > 1 else []
            continue
        split = int(getattr(placement, "split_factor", 1))
        cuts.setdefault(placement.dim, []).append(Cut(count, coordinate[i], split))
    return cuts, same


def replica_name(dims: list[str]) -> str | None:
    """The replica group of mesh dimensions; None: nobody else holds the same."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(dims)).lstrip(".-")[:47] or None


def piece_of(name: str, part: torch.Tensor, offset: Sequence[int] | None = None, start: int | None = None) -> Piece:
    """A part of a tensor as it is saved. ``offset`` and ``start`` count elements of its own type, of which one may be saved as several."""
    _, tail = stored_as(part.dtype)
    place = None if offset is None else (*offset, *(0 for _ in tail))
    try:
        return Piece(memory(plain(part)), place, None if start is None else start * math.prod(tail))
    except TypeError as e:
        raise TypeError(f"{name} is {e}") from e


def layout_of(name: str, part: torch.Tensor, shape: Sequence[int], pieces: list[Piece], replica: str | None) -> Layout:
    """``shape`` is that of the whole, in elements of the type of ``part``."""
    dtype, tail = stored_as(part.dtype)
    return Layout(name, NAMES[name_of(dtype)], (*shape, *tail), pieces, replica, part)


def types_of(layouts: Iterable[Layout]) -> dict[str, str]:
    """The types of those tensors that are saved as others, for a document."""
    return {x.name: name_of(x.local.dtype) for x in layouts if stored_as(x.local.dtype)[0] is not x.local.dtype}


def _boxed(name: str, boxes: list[Box], part: torch.Tensor) -> list[Piece]:
    return [piece_of(name, part[tuple(slice(a, a + n) for a, n in zip(box.local, box.extent))], box.offset) for box in boxes]


def _of_dtensor(name: str, t: DTensor) -> Iterator[Layout]:
    mesh, inner = t.device_mesh, local_of(t)
    coordinate = mesh.get_coordinate()
    for suffix, part in _inner(name, inner):
        if part.shape != inner.shape:
            raise TypeError(f"{name}{suffix} has shape {tuple(part.shape)} within a shard of shape {tuple(inner.shape)}: where it stands in the whole is "
                            f"not known. Say it with place=")
        if coordinate is None:
            yield layout_of(name + suffix, part, t.shape, [], None)
            continue
        cuts, same = _cuts(name, t, coordinate)
        boxes = [b for b in boxes_of(t.shape, cuts) if all(b.extent) or not t.numel()]
        yield layout_of(name + suffix, part, t.shape, _boxed(name + suffix, boxes, part), replica_name(same))


def is_made(t: torch.Tensor) -> bool:
    """Whether it is made of other tensors, as quantised ones are, and has no memory of its own."""
    return type(t) not in (torch.Tensor, torch.nn.Parameter) and hasattr(t, "__tensor_flatten__")


def parts_of(t: torch.Tensor) -> list[torch.Tensor]:
    """The tensors with memory that it is made of."""
    return [part for _, part in _inner("", t)]


def _inner(name: str, t: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor that is made of others by the names of its parts; else the tensor itself."""
    if not is_made(t):
        yield "", t
        return
    for attribute in t.__tensor_flatten__()[0]:
        for suffix, part in _inner(name, getattr(t, attribute)):
            yield f".{attribute}{suffix}", part


def layouts_of(name: str, t: torch.Tensor, place: Place | None, world: int) -> list[Layout]:
    """How a tensor is registered: one layout, or one for each tensor that it is made of."""
    if isinstance(t, DTensor):
        return list(_of_dtensor(name, t))
    return [_placed(name + suffix, part, place, world) for suffix, part in _inner(name, t)]


def _placed(name: str, part: torch.Tensor, place: Place | None, world: int) -> Layout:
    said = place(name, part) if place else None
    if said is None:
        return layout_of(name, part, part.shape, [piece_of(name, part)], EVERYWHERE if world > 1 else None)
    if isinstance(said, Flat):
        if not part.is_contiguous():
            raise TypeError(f"{name} is a flat range with gaps in memory: register what is contiguous")
        piece = piece_of(name, part, start=said.start)
    else:
        piece = piece_of(name, part, said.offset)
    return layout_of(name, part, said.shape, [piece] if part.numel() else [], said.replica)
