"""Reads checkpoints out of a store: no daemon, no session, no rank. Each byte is checked against its digest."""

from __future__ import annotations

import html
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._ckpt import ffi, lib
from .errors import Error, NoCheckpoint, error
from .memory import HOST, NAMES, named_memory
from .piece import box_of
from .session import _Handle, _string, _text

STATES = {lib.CKPT_READER_COMMITTED: "committed", lib.CKPT_READER_VERIFIED: "verified", lib.CKPT_READER_DAMAGED: "damaged",
          lib.CKPT_READER_UNREADABLE: "unreadable"}
_HEALTH = {0: None, lib.CKPT_HEALTHY: True, lib.CKPT_UNHEALTHY: False}


def _check(code: int, missing: type[Error] = Error) -> int:
    if code >= 0:
        return code
    raise error(code, _string(lib.ckpt_reader_error()), missing)


@dataclass(frozen=True)
class Checkpoint:
    """What a list says of a checkpoint. If its manifest cannot be read, what stands there is 0."""

    job: str
    name: str
    step: int
    epoch: int
    state: str  #: "committed", "verified", "damaged" or "unreadable"
    healthy: bool | None  #: what the training said; None: nothing
    pinned: bool
    committed: float  #: seconds since 1970
    world: int
    nodes: int
    bytes: int
    stored: int


def _checkpoint(c: Any) -> Checkpoint:
    return Checkpoint(_string(c.job), _string(c.name), c.step, c.epoch, STATES[c.state], _HEALTH[c.health], bool(c.pinned), c.committed_ns / 1e9,
                      c.world, c.nodes, c.bytes, c.stored)


def checkpoints(store: str | os.PathLike[str] | None = None, job: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a store (None: CKPT_REPO), by job, then by epoch and step: the newest of a job is its last."""
    out = ffi.new("ckpt_reader_list **")
    _check(lib.ckpt_reader_list_make(_text(None if store is None else os.fspath(store)), _text(job), out))
    try:
        return [_checkpoint(lib.ckpt_reader_list_at(out[0], i)) for i in range(lib.ckpt_reader_list_count(out[0]))]
    finally:
        lib.ckpt_reader_list_free(out[0])


@dataclass(frozen=True)
class Tensor:
    """A tensor or blob of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    pieces: int
    group: str
    scope: str | None  #: of a blob: "job" or "rank"; None: a tensor
    rank: int | None  #: of a blob of a rank
    sized: bool  #: a blob of changing size: :meth:`Reader.blob` reads what is in it


def _tensor(t: Any) -> Tensor:
    scope = {lib.CKPT_SCOPE_JOB: "job", lib.CKPT_SCOPE_RANK: "rank"}.get(t.scope)
    return Tensor(_string(t.name), NAMES[t.dtype - 1], tuple(t.shape[0:t.ndim]), t.bytes, t.npieces, _string(t.group), scope,
                  None if t.rank < 0 else t.rank, bool(t.sized))


@dataclass(frozen=True)
class Place:
    """Where the packed bytes of a piece stand."""

    path: str
    at: int
    bytes: int


class Reader(_Handle, Mapping[str, Tensor]):
    """One checkpoint, a mapping of names to tensors and blobs. Several threads may read at once.

    ``step`` is a number, "latest", "healthy", "1000.e0003", a directory's name or a tag; ``store`` and ``job`` come from CKPT_REPO and CKPT_JOB."""

    def __init__(self, store: str | os.PathLike[str] | None = None, job: str | None = None, step: int | str = "latest", *, threads: int = 0,
                 memory: int = 0) -> None:
        kept = [_text(None if store is None else os.fspath(store)), _text(job), _text(str(step))]
        options = ffi.new("ckpt_reader_options *", {"size": ffi.sizeof("ckpt_reader_options"), "store": kept[0], "job": kept[1], "which": kept[2],
                                                    "threads": threads, "memory": memory})
        out = ffi.new("ckpt_reader **")
        _check(lib.ckpt_reader_open(options, out), NoCheckpoint)
        self._handle = ffi.gc(out[0], lib.ckpt_reader_close)
        self._closing = threading.Lock()  # cffi frees twice if two threads release at once without a GIL
        self.info = _checkpoint(lib.ckpt_reader_info(self._handle))
        self.path = _string(lib.ckpt_reader_path(self._handle))
        count = lib.ckpt_reader_count(self._handle)
        self._tensors = {t.name: t for t in (_tensor(lib.ckpt_reader_tensor_at(self._handle, i)) for i in range(count))}

    def close(self) -> None:
        """Gives back what it holds. No thread may be reading."""
        with self._closing:
            ffi.release(self._handle)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def read_into(self, destinations: Mapping[str, Any] | Sequence[tuple[str, Any, Sequence[int] | None]]) -> None:
        """Fills arrays of the host, each with a box of a tensor: {name: array of the whole}, or (name, array, offset) for a box of the array's shape.

        All in one call is much faster than one by one: each saved piece is read once. After an error the arrays are undefined."""
        wanted = [(n, a, None) for n, a in destinations.items()] if isinstance(destinations, Mapping) else list(destinations)
        boxes = ffi.new("ckpt_reader_box[]", len(wanted) or 1)
        kept = []
        for box, (name, array, offset) in zip(boxes, wanted):
            m = named_memory(f"tensor {name}", array)
            if m.device != HOST or m.readonly:
                raise TypeError(f"tensor {name}: its destination must be writable memory of the host")
            if name in self and (m.dtype != self[name].dtype or len(m.shape) != len(self[name].shape)):
                raise TypeError(f"tensor {name} is {self[name].dtype} {self[name].shape}: an array of {m.dtype} {m.shape} cannot hold it")
            box.size, box.data = ffi.sizeof("ckpt_reader_box"), ffi.cast("void *", m.pointer)
            fields = [_text(name), *box_of(m, offset)]
            box.name, box.offset, box.extent, box.stride = fields
            kept.append((fields, m))
            if offset is None and name in self and m.shape != self[name].shape:
                raise TypeError(f"tensor {name} has shape {self[name].shape}, and its destination {m.shape}: say from which offset on")
        _check(lib.ckpt_reader_read(self._handle, boxes, len(wanted)))

    def blob(self, name: str, rank: int | None = None) -> bytes:
        """What is in a blob; ``rank``: that of this rank."""
        text = _text(name if rank is None else f"{name}@{rank:05}")
        size = _check(lib.ckpt_reader_blob(self._handle, text, ffi.NULL, 0))
        room = ffi.new("char[]", size + 1)
        return bytes(ffi.buffer(room, _check(lib.ckpt_reader_blob(self._handle, text, room, size))))

    def single_piece(self, name: str) -> Place:
        """Where a tensor stands that was saved as one uncompressed piece, to map it. ValueError: it was not."""
        t, piece = self[name], ffi.new("ckpt_reader_piece *", {"size": ffi.sizeof("ckpt_reader_piece")})
        if t.pieces == 1:
            _check(lib.ckpt_reader_piece_at(self._handle, lib.ckpt_reader_find(self._handle, _text(name)), 0, piece))
        if t.pieces != 1 or piece.compressed:
            raise ValueError(f"tensor {name} was saved in {t.pieces} pieces{', compressed' if piece.compressed else ''}: it cannot be mapped, read it")
        return Place(os.path.join(self.path, _string(piece.file)), piece.at, piece.bytes)

    def __repr__(self) -> str:
        return f"<ckpt.Reader {self.info.job}/{self.info.name}: {len(self)} tensors and blobs, {self.info.bytes} bytes>"

    def _repr_html_(self) -> str:
        """A table, for notebooks; of long lists the first."""
        shown = list(self.values())[:200]
        rows = "".join(f"<tr><td>{html.escape(t.name)}</td><td>{t.dtype}</td><td>{list(t.shape)}</td><td>{t.bytes}</td><td>{t.pieces}</td></tr>"
                       for t in shown)
        more = f"<p>and {len(self) - len(shown)} more</p>" if len(self) > len(shown) else ""
        return (f"<p>{html.escape(repr(self))}</p><table><tr><th>name</th><th>dtype</th><th>shape</th><th>bytes</th><th>pieces</th></tr>"
                f"{rows}</table>{more}")
