"""A writer for torch.distributed.checkpoint: ``dcp.save(state, checkpoint_id=500, storage_writer=writer)`` saves into the store of the daemon."""

from __future__ import annotations

import os
import re
from typing import Any, NoReturn

from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from ..errors import Error
from ..job import job_name
from ..session import DURABLE, STORAGE, Piece, Session
from ..tree import dumps
from .element import memory, plain

TREE = "dcp.tree"


def step_of(checkpoint_id: Any) -> int:
    """The step that an id names: a number, or what ends in one, as "run/step-500"."""
    found = re.search(r"(\d+)/*$", os.fspath(checkpoint_id) if not isinstance(checkpoint_id, int) else str(checkpoint_id))
    if not found:
        raise ValueError(f"checkpoint_id {checkpoint_id!r} names no step: give a number, or a name that ends in one")
    return int(found[1])


class Writer(StorageWriter):
    """Saves what any planner gives, and waits until it is on storage. The first save meets the other ranks; each later one must have the same tensors
    in the same parts. Values that are no tensors are written as a document, never as a pickle."""

    def __init__(self, job: str | None = None, socket: str | None = None, *, document_bytes: int = 1 << 20, **session: Any) -> None:
        self.session = Session(job_name(job), socket, **session)
        self._most, self._step = document_bytes, 0
        self._parts: dict[str, Any] | None = None  # what is registered; None: nothing yet

    def close(self) -> None:
        """Ends the session: this rank has finished."""
        self.session.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Writer cannot go to another process: the daemon is the process that writes. Use AsyncCheckpointerType.THREAD")

    def reset(self, checkpoint_id: Any = None) -> None:
        self._step = step_of(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def storage_meta(self) -> StorageMeta | None:
        return None

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def _register(self, tensors: dict[str, tuple[Any, list[Piece]]]) -> None:
        for name, (shape, pieces) in tensors.items():
            self.session.register(name, *pieces, shape=shape)
        self.session.register_sized_blob(TREE, self._most, "rank")
        self._parts = _parts(tensors)
        self.session.join()

    def _rebind(self, tensors: dict[str, tuple[Any, list[Piece]]]) -> None:
        now, was = _parts(tensors), self._parts or {}
        other = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        if other:
            raise Error(22, f"{other[0]} is not in the parts that the first save had: use another Writer and another job for another state")
        for name, (_, pieces) in tensors.items():
            for i, piece in enumerate(pieces):
                self.session.rebind(name, piece.array, i)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        tensors: dict[str, tuple[Any, list[Piece]]] = {}
        values: dict[str, Any] = {}
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                lookup: Any = planner
                values[item.index.fqn] = lookup.lookup_object(item.index)
            else:
                _add(tensors, item, planner.resolve_data(item))
        if self._parts is None:
            self._register(tensors)
        else:
            self._rebind(tensors)
        self.session.set_blob(TREE, dumps(values, "state"))
        snapshot = self.session.begin(self._step, STORAGE)
        snapshot.fence()
        snapshot.wait(DURABLE)
        done: Future[list[WriteResult]] = Future()
        done.set_result([WriteResult(item.index, 0, None) for item in plan.items])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        pass

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        try:
            return step_of(checkpoint_id) >= 0
        except ValueError:
            return False


def _parts(tensors: dict[str, tuple[Any, list[Piece]]]) -> dict[str, Any]:
    return {name: (shape, [(p.offset, p.array.shape, p.array.strides, p.array.dtype, p.array.device) for p in pieces])
            for name, (shape, pieces) in tensors.items()}


def _add(tensors: dict[str, tuple[Any, list[Piece]]], item: WriteItem, data: Any) -> None:
    about = item.tensor_data
    if about is None or not hasattr(data, "untyped_storage"):
        raise Error(22, f"{item.index.fqn}: the planner says of no tensor where it stands")
    view = plain(data)
    tail = tuple(view.shape[len(about.size):])
    shape, pieces = tensors.setdefault(item.index.fqn, (tuple(about.size) + tail, []))
    if view.numel():
        pieces.append(Piece(memory(view), (*about.chunk.offsets, *(0 for _ in tail))))
