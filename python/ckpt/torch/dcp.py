"""torch.distributed.checkpoint with ckpt below it: ``save``, ``async_save`` and ``load``, and the reader of stock ``dcp.load``."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed.checkpoint
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, StorageMeta, TensorProperties,
                                                   TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from .. import reader
from .contents import Contents
from .dcp_writer import Writer, step_of
from .element import memory, plain

_stock: Any = torch.distributed.checkpoint


def _about(dtype: torch.dtype, shape: Sequence[int]) -> TensorStorageMetadata:
    return TensorStorageMetadata(TensorProperties(dtype=dtype), torch.Size(shape), [ChunkStorageMetadata(torch.Size([0] * len(shape)), torch.Size(shape))])


class Reader(StorageReader):
    """Reads one checkpoint, whatever the world that saved it and the planner that asks. Each byte is checked, and nothing is unpickled.

    ``step``: a number, "latest", "healthy", "1000.e0003", or a tag. A state_dict ``{"model": …}`` has the names of a Checkpointer of ``{"model": …}``."""

    def __init__(self, store: str | os.PathLike[str] | None = None, job: str | None = None, step: int | str = "latest") -> None:
        self._where = store, job
        self._open(step)

    def _open(self, step: int | str) -> None:
        self._reader = reader.Reader(*self._where, step)
        contents = Contents(self._reader)
        self._tensors, self._values = contents.tensors, contents.values()

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """``checkpoint_id`` of dcp.load names another step of the same job."""
        if checkpoint_id is not None:
            self._reader.close()
            self._open(os.fspath(checkpoint_id))

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        found: dict[str, Any] = {name: _about(v.dtype, v.shape) if isinstance(v, torch.Tensor) else BytesStorageMetadata() for name, v in self._values.items()}
        found |= {name: _about(t.dtype, t.shape) for name, t in self._tensors.items()}
        return Metadata(state_dict_metadata=found, storage_meta=StorageMeta(checkpoint_id=self._reader.path))

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fills all tensors of the plan in one read. What is on a device goes through memory of the host."""
        boxes, commits = [], []
        for item in plan.items:
            name = item.storage_index.fqn
            if name not in self._tensors:
                self._give(name, item, planner)
                continue
            target = planner.resolve_tensor(item)
            view = plain(target)
            host = view if view.device.type == "cpu" else torch.empty_like(view, device="cpu")
            boxes.append((self._tensors[name].name, memory(host), list(item.storage_offsets) + [0] * (view.ndim - len(item.storage_offsets))))
            commits.append((item, target, view, host))
        self._reader.read_into(boxes)
        for item, target, view, host in commits:
            if host is not view:
                view.copy_(host)
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _give(self, name: str, item: ReadItem, planner: LoadPlanner) -> None:
        """What stands in a document. A planner takes values pickled: those bytes are made here, of what the document says."""
        value = self._values[name]
        if item.type == LoadItemType.BYTE_IO:
            stream = io.BytesIO()
            torch.save(value, stream)
            stream.seek(0)
            planner.load_bytes(item, stream)
            return
        target = planner.resolve_tensor(item)
        target.copy_(value[tuple(slice(a, a + n) for a, n in zip(item.storage_offsets, item.lengths))])
        planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True


def save(state_dict: Mapping[str, Any], writer: Writer, checkpoint_id: int | str | os.PathLike[str], **options: Any) -> None:
    """Saves, and waits until it is on storage: stock ``dcp.save`` with this writer. ``options`` go to it, such as ``planner``."""
    _stock.save(dict(state_dict), checkpoint_id=checkpoint_id, storage_writer=writer, **options)


def async_save(state_dict: Mapping[str, Any], writer: Writer, checkpoint_id: int | str | os.PathLike[str]) -> AsyncSaveResponse:
    """Begins a save, and returns. The state may change when ``staging_completion`` is done, and is on storage when ``upload_completion`` is.

    Stock ``dcp.async_save`` with this writer does the same; this needs no process group of the host, and plans nothing."""
    step = step_of(checkpoint_id)
    state = {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}
    fence: Any = writer.at(step).stage(state)
    return AsyncSaveResponse(staging_completion=fence, upload_completion=writer.durable(step))


def load(state_dict: dict[str, Any], reader: Reader, checkpoint_id: int | str | os.PathLike[str] | None = None, **options: Any) -> None:
    """Fills the tensors of a state_dict: stock ``dcp.load`` with this reader. ``checkpoint_id`` names another step than that of the reader."""
    _stock.load(state_dict, checkpoint_id=None if checkpoint_id is None else str(checkpoint_id), storage_reader=reader, **options)
