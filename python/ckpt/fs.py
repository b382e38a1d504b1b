"""Checkpoints as files, for whatever reads through fsspec: ``ckpt://JOB/STEP/NAME``, read-only, each byte checked.

STEP is a number, "latest", "healthy", "1000.e0003", a directory's name or a tag. NAME is a tensor or blob; its file holds the elements in row-major order.
``checkpoint.safetensors`` holds all tensors. The store is the option ``store``, else CKPT_REPO."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from typing import Any, NoReturn

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from .errors import NoCheckpoint
from .memory import HOST, Memory
from .reader import Reader, Tensor, checkpoints

WHOLE = "checkpoint.safetensors"


def _elements(reader: Reader, tensor: Tensor) -> bytes:
    """What is in a tensor or blob."""
    if tensor.sized:
        return reader.blob(tensor.name)
    data = bytearray(tensor.bytes)
    if data:
        place = ctypes.addressof(ctypes.c_char.from_buffer(data))
        reader.read_into({tensor.name: Memory(place, tensor.dtype, tensor.shape, None, HOST, False, data)})
    return bytes(data)


def _header(tensors: list[Tensor]) -> bytes:
    """The header of a safetensors file in which the tensors stand behind each other."""
    entries, at = {}, 0
    for t in tensors:
        entries[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [at, at + t.bytes]}
        at += t.bytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _tensors(reader: Reader) -> list[Tensor]:
    return [t for t in reader.values() if t.scope is None]


class _File(AbstractBufferedFile):
    """A tensor, a blob, or all tensors. It keeps the checkpoint open that it was opened of, and the tensor that it read last."""

    def __init__(self, fs: Any, path: str, reader: Reader, name: str, size: int, **options: Any) -> None:
        self._reader, self._last = reader, ("", b"")
        self._parts: list[tuple[int, int, bytes | Tensor]] = []
        if name == WHOLE:
            tensors = _tensors(reader)
            head = _header(tensors)
            self._parts.append((0, len(head), head))
            for t in tensors:
                at = self._parts[-1][1]
                self._parts.append((at, at + t.bytes, t))
        else:
            self._parts.append((0, size, reader[name]))
        super().__init__(fs, path, size=size, **options)

    def _bytes(self, part: bytes | Tensor) -> bytes:
        if isinstance(part, bytes):
            return part
        name, data = self._last  # as one: a cache of fsspec may fetch on a thread of its own
        if name != part.name:
            data = _elements(self._reader, part)
            self._last = (part.name, data)
        return data

    def _fetch_range(self, start: int, end: int) -> bytes:
        found = [self._bytes(part)[max(start - first, 0):end - first] for first, last, part in self._parts if first < end and last > start]
        return b"".join(found)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._reader.close()


class CkptFileSystem(AbstractFileSystem):
    """The filesystem of ``ckpt://``. ``store``: a folder, or None for CKPT_REPO."""

    protocol = "ckpt"
    cachable = False

    def __init__(self, store: str | os.PathLike[str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.store = store

    def _split(self, path: str) -> tuple[str, str, str]:
        job, _, rest = self._strip_protocol(path).strip("/").partition("/")
        step, _, name = rest.partition("/")
        return job, step, name

    def _open_step(self, path: str, job: str, step: str) -> Reader:
        try:
            return Reader(self.store, job, step)
        except NoCheckpoint as e:
            raise FileNotFoundError(errno.ENOENT, e.strerror, path) from e

    @staticmethod
    def _size(reader: Reader, path: str, name: str) -> int:
        if name == WHOLE:
            tensors = _tensors(reader)
            return len(_header(tensors)) + sum(t.bytes for t in tensors)
        if name not in reader:
            raise FileNotFoundError(errno.ENOENT, f"the checkpoint has no tensor or blob {name}", path)
        return len(reader.blob(name)) if reader[name].sized else reader[name].bytes

    def _file(self, reader: Reader, path: str, name: str) -> dict[str, Any]:
        about: dict[str, Any] = {"name": path, "size": self._size(reader, path, name), "type": "file"}
        if name != WHOLE:
            about |= {"dtype": reader[name].dtype, "shape": reader[name].shape}
        return about

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Of a tensor also ``dtype`` and ``shape``."""
        path = self._strip_protocol(path).strip("/")
        job, step, name = self._split(path)
        if step:
            with self._open_step(path, job, step) as reader:
                if name:
                    return self._file(reader, path, name)
        elif job and not checkpoints(self.store, job):
            raise FileNotFoundError(errno.ENOENT, f"the store has no checkpoint of job {job}", path)
        return {"name": path, "size": 0, "type": "directory"}

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        path = self._strip_protocol(path).strip("/")
        job, step, name = self._split(path)
        if name:
            found = [self.info(path)]
        elif step:
            with self._open_step(path, job, step) as reader:
                found = [self._file(reader, f"{path}/{n}", n) for n in (WHOLE, *reader)]
        else:
            listed = checkpoints(self.store, job or None)
            if job and not listed:
                raise FileNotFoundError(errno.ENOENT, f"the store has no checkpoint of job {job}", path)
            names = [f"{c.job}/{c.name}" if job else c.job for c in listed]
            found = [{"name": n, "size": 0, "type": "directory"} for n in dict.fromkeys(names)]
        return found if detail else [f["name"] for f in found]

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, cache_options: Any = None, **options: Any) -> _File:
        if mode != "rb":
            self._refuse(path)
        job, step, name = self._split(path)
        if not name:
            raise IsADirectoryError(errno.EISDIR, "this is a directory: ckpt://JOB/STEP/NAME is a file", path)
        reader = self._open_step(path, job, step)
        try:
            return _File(self, path, reader, name, self._size(reader, path, name), mode=mode, block_size=block_size or "default", cache_options=cache_options)
        except BaseException:
            reader.close()
            raise

    # ---- what would write

    @staticmethod
    def _refuse(path: str, *_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EROFS, "ckpt:// is only read: save with a Checkpointer, or with storage_writer=ckpt.torch.dcp_writer.Writer()", path)

    mkdir = makedirs = rmdir = rm_file = _rm = cp_file = touch = _refuse
