"""What a training program registers: a job, a world, tensors cut over its ranks, blobs. And what of it fits a checkpoint of another one."""

import dataclasses
import math

DTYPES = {"U8": 2, "F16": 8, "BF16": 9, "I32": 10, "F32": 12, "F64": 14, "I64": 15}
SIZES = {"U8": 1, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "F64": 8, "I64": 8}
JOB_BLOB, RANK_BLOB = 1, 2
CUTS = ("rows", "columns", "strided", "flat", "blocks", "first", "last", "replicated")


def split(n, parts):
    """Begin and length of each part; some may be empty."""
    at = [n * i // parts for i in range(parts + 1)]
    return [(begin, end - begin) for begin, end in zip(at, at[1:])]


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    shape: tuple
    cut: str
    group: str = "-"

    @property
    def volume(self):
        return math.prod(self.shape)

    def box(self, axis, begin, count):
        if not count:
            return []
        offset, extent = [0] * len(self.shape), list(self.shape)
        offset[axis], extent[axis] = begin, count
        return [",".join(map(str, offset)) + "+" + ",".join(map(str, extent))]

    def pieces(self, rank, world):
        cut = self.cut if self.shape or self.cut in ("last", "replicated") else "first"
        if cut in ("replicated", "first", "last"):
            holder = {"first": 0, "last": world - 1, "replicated": rank}[cut]
            return ["whole"] if rank == holder else []
        if cut == "rows":
            return self.box(0, *split(self.shape[0], world)[rank])
        if cut in ("columns", "strided"):
            last = len(self.shape) - 1
            return ["~" * (cut == "strided") + box for box in self.box(last, *split(self.shape[last], world)[rank])]
        if cut == "flat":
            return [f"{begin}:{count}" for begin, count in [split(self.volume, world)[rank]] if count]
        assert cut == "blocks"  # two ranges of each rank
        ranges = split(self.volume, 2 * world)
        return [f"{begin}:{count}" for begin, count in (ranges[rank], ranges[world + rank]) if count]

    def line(self, rank, world):
        shape = "x".join(map(str, self.shape)) or "-"
        replica = "all" if self.cut == "replicated" else "-"
        return " ".join(["tensor", self.name, str(DTYPES[self.dtype]), self.group, replica, shape, *self.pieces(rank, world)])


@dataclasses.dataclass(frozen=True)
class Blob:
    name: str
    scope: int
    size: int
    most: int = 0  # of changing size: at most so many bytes are in it, and there is room for size

    def line(self, _rank, _world):
        return f"sized {self.name} {self.scope} {self.size} {self.most}" if self.most else f"blob {self.name} {self.scope} {self.size}"


@dataclasses.dataclass(frozen=True)
class Program:
    job: str
    world: int
    entries: tuple
    variables: tuple = ()  # pairs: of the environment of its ranks
    says_local: bool = False  # CKPT_LOCAL_WORLD is set
    where: str = ""  # the node of each rank, a letter each; "": all on one, which has no cluster

    def lines(self, rank):
        return [entry.line(rank, self.world) for entry in self.entries]

    def environment(self, rank):
        here = self.where.count(self.where[rank]) if self.where else self.world
        local = {"CKPT_LOCAL_WORLD": str(here)} if self.says_local or self.where else {}
        return {"CKPT_JOB": self.job, "CKPT_RANK": str(rank), "CKPT_WORLD": str(self.world), **local, **dict(self.variables)}

    def but(self, **changes):
        return dataclasses.replace(self, **changes)

    def tensors(self):
        return [entry for entry in self.entries if isinstance(entry, Tensor)]

    def blobs(self):
        return [entry for entry in self.entries if isinstance(entry, Blob)]

    def with_entry(self, old, *new):
        """new takes the place of old."""
        return self.but(entries=tuple(e for entry in self.entries for e in (new if entry == old else (entry,))))

    def __str__(self):
        entries = " ".join(f"{e.name}:{e.dtype}{list(e.shape)}/{e.cut}/{e.group}" if isinstance(e, Tensor) else
                           f"{e.name}:{'?jr'[e.scope]}{e.size}{f'<{e.most}' if e.most else ''}" for e in self.entries)
        return f"{self.job} of {self.where or self.world} {dict(self.variables) or ''} {entries}"


def sides(entry):
    """What a sentence says of an entry, as words that must be in it."""
    if isinstance(entry, Blob):
        return [] if entry.most else [str(entry.size)]
    return [entry.dtype, ",".join(map(str, entry.shape))]


def contradiction(saved, wanted):
    """None: all that `wanted` registers is in what `saved` has saved. Else lists of words, of which the sentence of a refusal has one whole list."""
    there = {entry.name: entry for entry in saved.entries}
    found = []
    for entry in wanted.entries:
        other = there.get(entry.name)
        if other is None or isinstance(other, Blob) != isinstance(entry, Blob) or \
                (isinstance(entry, Blob) and (other.scope, bool(other.most)) != (entry.scope, bool(entry.most))):
            found.append([entry.name])
        elif sides(other) != sides(entry):
            found.append([entry.name, *sides(entry), *sides(other)])
    return found or None
