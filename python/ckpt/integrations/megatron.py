"""Strategies for the distributed checkpoints of Megatron-Core::

    dist_checkpointing.save(sharded_state_dict, directory, SaveStrategy("gpt"))
    state = dist_checkpointing.load(sharded_state_dict, directory, LoadStrategy("gpt"))

What is sharded goes into the store of the daemon, and any layout reads it from there, each byte checked. The directory, whose name ends in the step, has what
Megatron-Core itself writes: ``common.pt`` and its metadata. It is written for megatron-core 0.16."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.dist_checkpointing.dict_utils import dict_list_map_outplace, nested_values
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor, is_main_replica
from megatron.core.dist_checkpointing.strategies.async_utils import AsyncRequest
from megatron.core.dist_checkpointing.strategies.base import AsyncSaveShardedStrategy, LoadShardedStrategy

from ..errors import Error
from ..job import job_name
from ..reader import Reader
from ..piece import Piece
from ..session import DURABLE, STORAGE, Session, Snapshot
from ..torch.dcp_writer import step_of
from ..torch.element import DTYPES, current_stream, memory, plain
from ..torch.megatron import BACKEND as CONVERTED
from ..torch.megatron import OBJECTS, objects_of
from ..tree import dumps

BACKEND, VERSION = "ckpt", 1


def _view(t: ShardedTensor) -> Any:
    """The local tensor with the dimensions of the whole; for types that are saved as others there may be more behind."""
    view = plain(t.data)
    for _ in range(t.prepend_axis_num):
        view = view.unsqueeze(0)
    return view


def _register(session: Session, tensors: list[ShardedTensor]) -> None:
    parts: dict[str, list[ShardedTensor]] = {}
    for t in tensors:
        parts.setdefault(t.key, []).append(t)
    for key, pieces in parts.items():
        views = [_view(t) for t in pieces]
        tail = tuple(views[0].shape[len(pieces[0].global_shape):])
        placed = [Piece(memory(v), (*t.global_offset, *(0 for _ in tail))) for t, v in zip(pieces, views) if v.numel() or not _count(t.global_shape)]
        session.register(key, *placed, shape=(*pieces[0].global_shape, *tail), dtype=memory(views[0]).dtype)


def _count(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


class SaveStrategy(AsyncSaveShardedStrategy):
    """Saves each tensor once, by the rank whose replica is the main one. All ranks save. Of an asynchronous save the state may change as soon as
    ``dist_checkpointing.save`` has returned, and its last function waits until all is on storage.

    A save opens a session of its own, since the layout may change from one to the next. Use one strategy for all saves of a job, so that a save can wait
    for the one before. Other options go to :class:`ckpt.Session`."""

    can_handle_sharded_objects = True

    def __init__(self, job: str | None = None, **session: Any) -> None:
        super().__init__(BACKEND, VERSION)
        self.job, self.options = job_name(job), session
        self._begun: tuple[Session, Snapshot] | None = None

    def async_save(self, sharded_state_dict: Any, checkpoint_dir: str | os.PathLike[str]) -> AsyncRequest:
        self._end()
        self._begun = self._begin(sharded_state_dict, step_of(checkpoint_dir))
        return AsyncRequest(None, (), [self._end])

    def _end(self) -> None:
        """Waits for the save that was begun. The next save does so, too: a rank has one session."""
        begun, self._begun = self._begun, None
        if begun is not None:
            session, snapshot = begun
            try:
                snapshot.wait(DURABLE)
            finally:
                session.close()

    def _begin(self, state: Any, step: int) -> tuple[Session, Snapshot]:
        mine = [v for v in nested_values(state) if is_main_replica(v.replica_id)]
        document = dumps({v.unique_key: v.data for v in mine if isinstance(v, ShardedObject)}, OBJECTS)
        local = int(os.environ.get("LOCAL_WORLD_SIZE", 0))
        session = Session(self.job, rank=dist.get_rank(), world=dist.get_world_size(), local_world=local, **self.options)
        try:
            _register(session, [v for v in mine if isinstance(v, ShardedTensor)])
            session.register_sized_blob(OBJECTS, len(document), "rank")
            session.join()
            session.set_blob(OBJECTS, document)
            stream = current_stream()
            snapshot = session.begin(step, STORAGE, stream)
            snapshot.fence(stream)
            return session, snapshot
        except BaseException:
            session.close()
            raise


class LoadStrategy(LoadShardedStrategy):
    """Fills the tensors of a sharded state_dict, whatever layout saved them. ``store`` and ``job``: as of :class:`ckpt.Reader`."""

    can_handle_sharded_objects = True

    def __init__(self, job: str | None = None, store: str | os.PathLike[str] | None = None) -> None:
        self.job, self.store = job_name(job), store

    def check_backend_compatibility(self, loaded_backend: str) -> None:
        """The directory may be that of which ``python -m ckpt.convert`` has made the checkpoint."""
        if loaded_backend not in (BACKEND, CONVERTED):
            raise ValueError(f"the checkpoint was saved by {loaded_backend}: load it without this strategy")

    def check_version_compatibility(self, loaded_version: int) -> None:
        if loaded_version != VERSION:
            raise ValueError(f"the checkpoint is of version {loaded_version}: this reads {VERSION}")

    def _open(self, checkpoint_dir: str | os.PathLike[str]) -> Reader:
        return Reader(self.store, self.job, step_of(checkpoint_dir))

    def load(self, sharded_state_dict: Any, checkpoint_dir: str | os.PathLike[str]) -> Any:
        """The same mapping, with tensors and objects in it."""
        with self._open(checkpoint_dir) as reader:
            objects, boxes, copies = objects_of(reader), [], []
            for t in nested_values(sharded_state_dict):
                if isinstance(t, ShardedTensor):
                    view, offset = _saved(t, reader)
                    host = view if view.device.type == "cpu" else torch.empty_like(view, device="cpu")
                    boxes.append((t.key, memory(host), offset))
                    copies += [(view, host)] if host is not view else []
                elif t.unique_key not in objects:
                    raise KeyError(f"{t.unique_key} is not in the checkpoint")
            reader.read_into(boxes)
        for view, host in copies:
            view.copy_(host)
        return dict_list_map_outplace(lambda v: v.data if isinstance(v, ShardedTensor) else objects[v.unique_key], sharded_state_dict)

    def load_tensors_metadata(self, checkpoint_dir: str | os.PathLike[str]) -> Any:
        with self._open(checkpoint_dir) as reader:
            empty = {t.name: torch.empty(t.shape, dtype=DTYPES[t.dtype], device="meta") for t in reader.values() if t.scope is None}
        return {key: ShardedTensor.from_rank_offsets(key, t).without_data() for key, t in empty.items()}

    def load_sharded_metadata(self, checkpoint_dir: str | os.PathLike[str]) -> Any:
        with self._open(checkpoint_dir) as reader:
            objects = objects_of(reader)
        return self.load_tensors_metadata(checkpoint_dir) | {key: ShardedObject.empty_from_unique_key(key) for key in objects}


def _saved(t: ShardedTensor, reader: Reader) -> tuple[Any, list[int]]:
    """What of a local tensor the checkpoint has, and where that begins there."""
    if t.key not in reader:
        raise KeyError(f"{t.key} is not in the checkpoint")
    view, shape = _view(t), reader[t.key].shape
    tail = view.ndim - len(t.global_shape)
    if not t.allow_shape_mismatch and tuple(shape[:len(shape) - tail]) != tuple(t.global_shape):
        raise Error(22, f"{t.key} has shape {tuple(t.global_shape)} here, and {tuple(shape)} in the checkpoint")
    offset = [*t.global_offset, *(0 for _ in range(tail))]
    return view[tuple(slice(0, max(0, min(n, whole - at))) for n, whole, at in zip(view.shape, shape, offset))], offset
