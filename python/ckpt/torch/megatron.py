"""Distributed checkpoints of Megatron-Core in its format torch_dist: directories of torch.distributed.checkpoint with the keys of sharded tensors and objects,
``metadata.json``, which says so, and ``common.pt``, which has the rest. It is written for megatron-core 0.16, and does not need it.

In a store they are what :class:`ckpt.integrations.megatron.SaveStrategy` makes of the same state: tensors under their keys, and objects in documents of ranks.
``common.pt`` is neither read nor stored: LoadStrategy wants it in its directory."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from ..errors import Damaged
from ..reader import Reader
from ..tree import TreeError, codec, dumps, loads
from .element import DTYPES, memory, plain
from .foreign import Directory, alone
from .incoming import Incoming

BACKEND, OBJECTS, COMMON = "torch_dist", "megatron.objects", "common.pt"
_CONFIG = "metadata.json"
_ABOUT = {"sharded_backend": BACKEND, "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}

codec(io.BytesIO, "bytes of a file", lambda b: b.getvalue(), io.BytesIO)  # the extra state of Transformer Engine


class _Inert:
    """In place of what Megatron-Core leaves in the metadata for itself: nothing of it is used."""


class _Files(Directory):
    """``.metadata`` also has the plans of the save, for the next one to compare."""

    known = Directory.known | {
        "torch.distributed.checkpoint.planner": {"BytesIOWriteData", "SavePlan", "TensorWriteData", "WriteItem", "WriteItemType"},
    }
    inert = {("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata"): _Inert,
             ("megatron.core.dist_checkpointing.strategies.torch", "MCoreSavePlan"): _Inert,
             ("megatron.core.dist_checkpointing.strategies.filesystem_async", "_StoragePrefix"): _Inert,
             ("torch.distributed.checkpoint.filesystem", "_StoragePrefix"): _Inert}

    def objects(self) -> dict[str, Any]:
        """By their unique keys. Each is saved as a list of what one rank had under the key."""
        found = {}
        for (key,), value in self.values.items():
            if not isinstance(value, list) or len(value) != 1:
                raise Damaged(errno.EBADMSG, f"{key} is no object of Megatron-Core: a list of one is wanted")
            found[str(key)] = value[0]
        return found


@contextmanager
def _plain_objects() -> Iterator[None]:
    """Objects may hold bytes of a file, and random numbers of NumPy; beyond that what PyTorch itself reads without running code."""
    known: list[Any] = [(io.BytesIO, "_io.BytesIO")]
    try:
        import numpy

        rebuild = numpy.empty(0).__reduce__()[0]
        known += [(rebuild, f"{package}.multiarray._reconstruct") for package in ("numpy.core", "numpy._core")]
        known += [numpy.ndarray, numpy.dtype, *{type(numpy.dtype(k)) for k in ("u1", "u4", "i8", "f4", "f8", "u8", "i4")}]
    except ImportError:
        pass
    with torch.serialization.safe_globals(known):
        yield


def is_one(path: Path) -> bool:
    """Whether a directory is such a checkpoint. Raises :class:`Damaged` where it is one of Megatron-Core in another format."""
    try:
        text = (path / _CONFIG).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        said = json.loads(text)["sharded_backend"]
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise Damaged(errno.EBADMSG, f"{path / _CONFIG} is no description of a checkpoint of Megatron-Core") from e
    if said != BACKEND:
        raise Damaged(errno.EBADMSG, f"{path} is a checkpoint of Megatron-Core in the format {str(said)[:40]}: only {BACKEND} is read")
    return True


def incoming(path: Path) -> Incoming:
    with _plain_objects():
        source = _Files(path)
    objects = source.objects()
    blobs = {f"{OBJECTS}@00000": dumps(objects, OBJECTS)}
    about = f"{len(source.tensors)} tensors and {len(objects)} objects of Megatron-Core; {COMMON} stays in {path}"
    return Incoming(source, about, {str(at[0]): at for at in source.tensors}, blobs=blobs)


# ---- out of a store


def objects_of(reader: Reader) -> dict[str, Any]:
    """Those of all ranks, by their unique keys."""
    found: dict[str, Any] = {}
    for rank in range(reader.info.world):
        document = loads(reader.blob(OBJECTS, rank), OBJECTS)
        if not isinstance(document, dict):
            raise TreeError(f"{OBJECTS} of rank {rank} is no document of objects")
        found |= document
    return found


def is_saved(reader: Reader) -> bool:
    return f"{OBJECTS}@00000" in reader


def write(reader: Reader, folder: Path, common: Path) -> str:
    """Writes a directory of torch_dist, with a copy of ``common``. Returns what is in it."""
    if not is_saved(reader):
        raise ValueError("this is no checkpoint of Megatron-Core: it has no objects of it")
    tensors = {t.name: torch.empty(t.shape, dtype=DTYPES[t.dtype]) for t in reader.values() if t.scope is None}
    reader.read_into({name: memory(plain(t)) for name, t in tensors.items()})
    objects = {key: [value] for key, value in objects_of(reader).items()}
    folder.mkdir()
    alone("save", {**tensors, **objects}, storage_writer=FileSystemWriter(str(folder)), planner=DefaultSavePlanner(flatten_state_dict=False))
    shutil.copyfile(common, folder / COMMON)
    (folder / _CONFIG).write_text(json.dumps(_ABOUT))
    for name in (COMMON, _CONFIG):
        with open(folder / name, "rb") as f:
            os.fsync(f.fileno())
    return f"{len(tensors)} tensors and {len(objects)} objects"
