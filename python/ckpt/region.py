"""Which part of a tensor stands where: what a mesh of ranks cuts, as boxes. Pure arithmetic, with no tensor in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

#: Indices start to start + length - 1 of one dimension.
Run = tuple[int, int]


@dataclass(frozen=True)
class Cut:
    """One dimension cut by one dimension of the mesh: ``count`` ranks, of which this one is ``index``.

    With ``split`` above 1 the dimension is first cut into as many parts, and each of them for all ranks: a rank then holds a piece of each part."""

    count: int
    index: int
    split: int = 1


@dataclass(frozen=True)
class Box:
    """A box of the whole tensor, and where it begins in the local array. All have an entry for each dimension."""

    offset: tuple[int, ...]
    extent: tuple[int, ...]
    local: tuple[int, ...]


def chunk(length: int, count: int, index: int) -> Run:
    """Part ``index`` of ``count``, as torch.chunk cuts: all have the size of the first, the last ones are shorter or empty."""
    size = -(-length // count)
    first = min(size * index, length)
    return first, min(size, length - first)


def _select(runs: Sequence[Run], first: int, length: int) -> list[Run]:
    """Those of the positions that runs take one after another."""
    chosen, at = [], 0
    for start, size in runs:
        low, high = max(first, at), min(first + length, at + size)
        if low < high:
            chosen.append((start + low - at, high - low))
        at += size
    return chosen


def _merged(runs: Sequence[Run]) -> list[Run]:
    out: list[Run] = []
    for start, length in runs:
        if out and sum(out[-1]) == start:
            out[-1] = (out[-1][0], out[-1][1] + length)
        else:
            out.append((start, length))
    return out


def runs_of(size: int, cuts: Sequence[Cut]) -> list[Run]:
    """The indices of a dimension that stay here, in their order in the local array. Each cut is of what the cut before it left."""
    runs: list[Run] = [(0, size)] if size else []
    for cut in cuts:
        held, left = sum(length for _, length in runs), []
        for part in range(cut.split):
            first, length = chunk(held, cut.split, part)
            begin, extent = chunk(length, cut.count, cut.index)
            left += _select(runs, first + begin, extent)
        runs = left
    return _merged(runs)


def boxes_of(shape: Sequence[int], cuts: Mapping[int, Sequence[Cut]]) -> list[Box]:
    """What is here of a tensor: a box for each combination of runs of its dimensions; none if nothing is."""
    sides = []
    for dim, size in enumerate(shape):
        side, at = [], 0
        for start, length in runs_of(size, cuts.get(dim, ())):
            side.append((start, length, at))
            at += length
        sides.append(side)
    return [Box(tuple(s for s, _, _ in c), tuple(n for _, n, _ in c), tuple(a for _, _, a in c)) for c in product(*sides)]
