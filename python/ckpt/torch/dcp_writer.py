"""A writer for torch.distributed.checkpoint: ``dcp.save(state, checkpoint_id=500, storage_writer=writer)`` saves into the store of the daemon, and so
does ``dcp.async_save``, whose copy is the snapshot of the daemon."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from concurrent import futures
from typing import Any, NoReturn

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from ..errors import Error
from ..job import job_name
from ..session import DURABLE, STORAGE, Session, Snapshot
from ..tree import dumps
from .contents import TREE
from .documents import FORMAT
from .element import current_stream
from .layout import Layout, layout_of, layouts_of, piece_of, types_of


def step_of(checkpoint_id: Any) -> int:
    """The step that an id names: a number, or what ends in one, as "run/step-500"."""
    found = re.search(r"(\d+)/*$", os.fspath(checkpoint_id) if not isinstance(checkpoint_id, int) else str(checkpoint_id))
    if not found:
        raise ValueError(f"checkpoint_id {checkpoint_id!r} names no step: give a number, or a name that ends in one")
    return int(found[1])


class Writer(StorageWriter):
    """Saves what any planner gives, and waits until it is on storage. The first save meets the other ranks; each later one must have the same tensors
    in the same parts. Values that are no tensors are written as a document, never as a pickle.

    It is the stager of an asynchronous save, too: ``dcp.async_save(state, checkpoint_id=500, storage_writer=writer.at(500), no_dist=True)``, or
    :func:`ckpt.torch.dcp.async_save`. Nothing is copied then by PyTorch: ``staging_completion.result()`` is the fence. Each tensor is saved by the rank
    that holds it, and whole tensors by all together, without a planner. One Writer is used for one of the two."""

    _synchronize_after_execute = False

    def __init__(self, job: str | None = None, socket: str | None = None, *, document_bytes: int = 1 << 20, **session: Any) -> None:
        self.session = Session(job_name(job), socket, **session)
        self._most, self._step = document_bytes, 0
        self._parts: dict[str, Any] | None = None  # what is registered; None: nothing yet
        self._next: int | None = None  # the step of the next stage()
        self._begun: dict[int, Snapshot] = {}  # staged, and not waited for yet
        self._lock = threading.Lock()  # around _begun: a save ends on a thread of DCP
        self._fences = futures.ThreadPoolExecutor(1, "ckpt-fence")
        self._ends = futures.ThreadPoolExecutor(1, "ckpt-durable")

    def close(self) -> None:
        """Ends the session: this rank has finished. Waits for what was begun."""
        self._fences.shutdown()
        self._ends.shutdown()
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

    # ---- registration

    def _register(self, layouts: Mapping[str, Layout]) -> None:
        for layout in layouts.values():
            self.session.register(layout.name, *layout.pieces, shape=layout.shape, dtype=layout.dtype, replica=layout.replica)
        self.session.register_sized_blob(TREE, self._most, "rank")
        self._parts = _parts(layouts)
        self.session.join()

    def _rebind(self, layouts: Mapping[str, Layout]) -> None:
        now, was = _parts(layouts), self._parts or {}
        other = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        if other:
            raise Error(22, f"{other[0]} is not in the parts that the first save had: use another Writer and another job for another state")
        for layout in layouts.values():
            for i, piece in enumerate(layout.pieces):
                self.session.rebind(layout.name, piece.array, i)

    def _begin(self, layouts: Mapping[str, Layout], values: Mapping[str, Any], step: int, stream: int) -> Snapshot:
        if self._parts is None:
            self._register(layouts)
        else:
            self._rebind(layouts)
            self.session.wait_slot()
        self.session.set_blob(TREE, dumps({"format": FORMAT, "types": types_of(layouts.values()), "values": dict(values)}, "state"))
        return self.session.begin(step, STORAGE, stream)

    # ---- the stager

    def at(self, step: int) -> Writer:
        """Says which step the next asynchronous save is: DCP does not tell it to a stager. Returns the writer."""
        self._next = step
        return self

    @property
    def should_synchronize_after_execute(self) -> bool:
        return self._synchronize_after_execute

    def synchronize_staging(self) -> None:
        """Nothing to do: the future of :meth:`stage` says when the state may change."""

    def stage(self, state_dict: Mapping[str, Any]) -> futures.Future[dict[str, Any]]:
        """Begins the save of the step of :meth:`at`. The state may change when the future is done; what it gives DCP to write is empty."""
        step, self._next = self._next, None
        if step is None:
            raise ValueError("which step is this save? Call ckpt.torch.dcp.async_save, or give storage_writer=writer.at(step)")
        layouts, values = _split(state_dict, self.session.world)
        stream = current_stream()
        snapshot = self._begin(layouts, values, step, stream)
        with self._lock:
            self._begun[step] = snapshot
        return self._fences.submit(self._fence, snapshot, step, stream)

    def _fence(self, snapshot: Snapshot, step: int, stream: int) -> dict[str, Any]:
        try:
            snapshot.fence(stream)
        except BaseException:
            self._taken(step)
            raise
        return {}

    def durable(self, step: int) -> futures.Future[None]:
        """Done when what was staged for a step is on storage."""
        snapshot = self._taken(step)
        if snapshot is None:
            raise ValueError(f"step {step} was not staged")
        return self._ends.submit(snapshot.wait, DURABLE)

    def _taken(self, step: int) -> Snapshot | None:
        with self._lock:
            return self._begun.pop(step, None)

    # ---- the writer

    def _write(self, plan: SavePlan, planner: SavePlanner) -> Snapshot:
        layouts: dict[str, Layout] = {}
        values: dict[str, Any] = {}
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                lookup: Any = planner
                values[item.index.fqn] = lookup.lookup_object(item.index)
            else:
                _add(layouts, item, planner.resolve_data(item))
        stream = current_stream()
        snapshot = self._begin(layouts, values, self._step, stream)
        snapshot.fence(stream)
        return snapshot

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        snapshot = self._taken(self._step) or self._write(plan, planner)
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


def _parts(layouts: Mapping[str, Layout]) -> dict[str, Any]:
    return {x.name: (x.shape, x.dtype, x.replica, [(p.offset, p.array.shape, p.array.strides, p.array.device) for p in x.pieces])
            for x in layouts.values()}


def _split(state_dict: Mapping[str, Any], world: int) -> tuple[dict[str, Layout], dict[str, Any]]:
    """The tensors of a state_dict as this rank holds them, under the names that DCP gives them, and the rest."""
    layouts: dict[str, Layout] = {}
    values: dict[str, Any] = {}
    for name, value in flatten_state_dict(dict(state_dict))[0].items():
        if isinstance(value, torch.Tensor):
            layouts |= {layout.name: layout for layout in layouts_of(name, value, None, world)}
        else:
            values[name] = value
    return layouts, values


def _add(layouts: dict[str, Layout], item: WriteItem, data: Any) -> None:
    about = item.tensor_data
    if about is None or not hasattr(data, "untyped_storage"):
        raise Error(22, f"{item.index.fqn}: the planner says of no tensor where it stands")
    name = item.index.fqn
    layout = layouts.setdefault(name, layout_of(name, data, about.size, [], None))
    if data.numel():
        layout.pieces.append(piece_of(name, data, about.chunk.offsets))
