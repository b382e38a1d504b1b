"""Checkpoints that others wrote: files of ``torch.save``, and directories of torch.distributed.checkpoint. Reading one runs no code of its author."""

from __future__ import annotations

import errno
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
import torch.distributed.checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, StorageMeta, TensorStorageMetadata

from ..errors import Damaged

_KNOWN: dict[str, set[str]] = {
    "torch.distributed.checkpoint.metadata": {"BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta",
                                              "TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch": {"Size", "device"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath"},
}
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)


def _brief(e: Exception) -> str:
    return str(e).partition("\n")[0][:300]


def refused(path: Path, e: Exception) -> Damaged:
    wanted = re.search(r"GLOBAL (\S{1,120})", str(e))
    return Damaged(errno.EBADMSG, f"{path} cannot be read without running what it holds: {f'it wants {wanted[1]}' if wanted else _brief(e)}")


def alone(call: str, *arguments: Any, **options: Any) -> None:
    """A call of DCP in one process, without the warning that it is one."""
    dcp: Any = torch.distributed.checkpoint
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        try:
            getattr(dcp, call)(*arguments, **options, no_dist=True)
        except CheckpointException as e:  # around what a part of it has raised
            raise next(iter(e.failures.values()))[0] from e


#: What a pickle may name: names by their modules.
Known = dict[str, set[str]]


class _Unpickler(pickle.Unpickler):
    """Knows what the metadata of DCP is made of, and nothing else. What is ``inert`` is a class of ours in place of another one."""

    def __init__(self, file: Any, known: Known, inert: Mapping[tuple[str, str], type]) -> None:
        super().__init__(file)
        self._known, self._inert = known, inert

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._inert:
            return self._inert[module, name]
        if name in self._known.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(torch.__dict__.get(name), _CONSTANTS):
            return torch.__dict__[name]
        raise pickle.UnpicklingError(f"it wants {module[:60]}.{name[:60]}")


class _Reader(FileSystemReader):
    def __init__(self, path: str, known: Known, inert: Mapping[tuple[str, str], type]) -> None:
        super().__init__(path)
        self._allowed = known, inert

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = Path(self.path) / ".metadata"
        try:
            with open(path, "rb") as f:
                metadata = _Unpickler(f, *self._allowed).load()
        except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, TypeError, ValueError, KeyError, ImportError) as e:
            raise refused(path, e) from e
        if not isinstance(metadata, Metadata) or not isinstance(metadata.storage_data, dict):
            raise Damaged(errno.EBADMSG, f"{path} is no metadata of torch.distributed.checkpoint")
        for where in metadata.storage_data.values():
            if Path(str(where.relative_path)).name != str(where.relative_path):
                raise Damaged(errno.EBADMSG, f"{path} names a file elsewhere: {str(where.relative_path)[:200]}")
        metadata.storage_meta = getattr(metadata, "storage_meta", None) or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Planner(DefaultLoadPlanner):
    """Tensors into what is given, and what is no tensor by the unpickler of PyTorch that runs no code."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def load_bytes(self, read_item: Any, value: BinaryIO) -> None:
        fqn = read_item.dest_index.fqn
        try:
            self.state_dict[fqn] = torch.load(value, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as e:
            raise refused(Path(fqn), e) from e


#: Keys from the outermost mapping on; a number is an index of a list.
Keys = tuple[str | int, ...]


class Foreign:
    """A checkpoint that is read part by part. ``tensors``: types and shapes, ``values``: what is no tensor."""

    def __init__(self) -> None:
        self.tensors: dict[Keys, tuple[torch.dtype, tuple[int, ...]]] = {}
        self.values: dict[Keys, Any] = {}

    def read(self, paths: Sequence[Keys]) -> dict[Keys, torch.Tensor]:
        """Tensors in memory of the host."""
        raise NotImplementedError


class File(Foreign):
    """What ``torch.save`` wrote. Tensors stay in the file until they are read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except pickle.UnpicklingError as e:
            raise refused(path, e) from e
        except (RuntimeError, EOFError, ValueError, KeyError, OSError) as e:
            if isinstance(e, OSError) and e.filename:
                raise
            raise Damaged(errno.EBADMSG, f"{path} is no file of torch.save: {_brief(e)}") from e
        if not isinstance(state, dict):
            raise Damaged(errno.EBADMSG, f"{path} holds a {type(state).__name__}: a dict is wanted")
        self._all = dict(_walk(state, ()))
        for at, value in self._all.items():
            if isinstance(value, torch.Tensor):
                self.tensors[at] = value.dtype, tuple(value.shape)
            else:
                self.values[at] = value

    def read(self, paths: Sequence[Keys]) -> dict[Keys, torch.Tensor]:
        return {at: self._all[at].detach().contiguous() for at in paths}


def _walk(value: Any, at: Keys) -> Iterator[tuple[Keys, Any]]:
    if isinstance(value, dict) and (value or not at):
        for key, inner in value.items():
            yield from _walk(inner, (*at, str(key)))
    else:
        yield at, value


class Directory(Foreign):
    """What torch.distributed.checkpoint wrote, by any world."""

    known: Known = _KNOWN
    inert: Mapping[tuple[str, str], type] = {}

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        metadata = self._reader().read_metadata()
        keys = metadata.planner_data or {}
        self._names: dict[Keys, str] = {tuple(keys.get(fqn, (fqn,))): fqn for fqn in metadata.state_dict_metadata}
        others = {}
        for at, fqn in self._names.items():
            about = metadata.state_dict_metadata[fqn]
            if isinstance(about, TensorStorageMetadata):
                self.tensors[at] = about.properties.dtype, tuple(about.size)
            elif isinstance(about, BytesStorageMetadata):
                others[fqn] = at
        state: dict[str, Any] = dict.fromkeys(others)
        self._load(state)
        self.values = {at: state[fqn] for fqn, at in others.items()}

    def _reader(self) -> _Reader:
        return _Reader(str(self._path), self.known, self.inert)

    def _load(self, state: dict[str, Any]) -> None:
        if state:
            alone("load", state, storage_reader=self._reader(), planner=_Planner())

    def read(self, paths: Sequence[Keys]) -> dict[Keys, torch.Tensor]:
        state = {self._names[at]: torch.empty(self.tensors[at][1], dtype=self.tensors[at][0]) for at in paths}
        self._load(state)
        return {at: state[self._names[at]] for at in paths}


def open_foreign(path: Path) -> Foreign:
    """A file of torch.save, or a directory of torch.distributed.checkpoint."""
    if not path.is_dir():
        return File(path)
    if not (path / ".metadata").exists():
        raise FileNotFoundError(f"{path} has no .metadata: it is no complete checkpoint of torch.distributed.checkpoint")
    return Directory(path)
