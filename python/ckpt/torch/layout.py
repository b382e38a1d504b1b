"""Which part of which tensor a rank holds: whole tensors, DTensors on any mesh, flat ranges, and tensors made of tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from ..region import Box, Cut, boxes_of
from ..session import Piece
from .element import memory, plain

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


@dataclass
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


def _boxed(boxes: list[Box], view: torch.Tensor, tail: int) -> list[Piece]:
    """``tail``: dimensions of the memory behind those of the boxes, each whole."""
    pieces = []
    for box in boxes:
        part = view[tuple(slice(a, a + n) for a, n in zip(box.local, box.extent))]
        pieces.append(Piece(memory(part), box.offset + (0,) * tail))
    return pieces


def _of_dtensor(name: str, t: DTensor) -> Iterator[Layout]:
    mesh, inner = t.device_mesh, local_of(t)
    coordinate = mesh.get_coordinate()
    for suffix, part in _inner(name, inner):
        view = plain(part)
        tail = view.ndim - inner.ndim
        if part.shape != inner.shape:
            raise TypeError(f"{name}{suffix} has shape {tuple(part.shape)} within a shard of shape {tuple(inner.shape)}: where it stands in the whole is "
                            f"not known. Say it with place=")
        shape = tuple(t.shape) + tuple(view.shape[inner.ndim:])
        dtype = memory(view).dtype
        if coordinate is None:
            yield Layout(name + suffix, dtype, shape, [], None, part)
            continue
        cuts, same = _cuts(name, t, coordinate)
        boxes = [b for b in boxes_of(t.shape, cuts) if all(b.extent) or not t.numel()]
        yield Layout(name + suffix, dtype, shape, _boxed(boxes, view, tail), replica_name(same), part)


def _inner(name: str, t: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor that is made of others, as quantised ones are, by the names of its parts; else the tensor itself."""
    if type(t) in (torch.Tensor, torch.nn.Parameter) or not hasattr(t, "__tensor_flatten__"):
        yield "", t
        return
    for attribute in t.__tensor_flatten__()[0]:
        for suffix, part in _inner(name, getattr(t, attribute)):
            yield f".{attribute}{suffix}", part


def layouts_of(name: str, t: torch.Tensor, place: Place | None, world: int) -> list[Layout]:
    """How a tensor is registered: one layout, or one for each tensor that it is made of."""
    if isinstance(t, DTensor):
        return list(_of_dtensor(name, t))
    found = []
    for suffix, part in _inner(name, t.detach()):
        view, said = plain(part), place(name + suffix, part) if place else None
        m = memory(view)
        if isinstance(said, Flat):
            if not view.is_contiguous():
                raise TypeError(f"{name}{suffix} is a flat range with gaps in memory: register what is contiguous")
            pieces = [Piece(m, start=said.start)] if part.numel() else []
            found.append(Layout(name + suffix, m.dtype, tuple(said.shape), pieces, said.replica, part))
        elif isinstance(said, Part):
            pieces = [Piece(m, said.offset)] if part.numel() else []
            found.append(Layout(name + suffix, m.dtype, tuple(said.shape), pieces, said.replica, part))
        else:
            found.append(Layout(name + suffix, m.dtype, m.shape, [Piece(m)], EVERYWHERE if world > 1 else None, part))
    return found
