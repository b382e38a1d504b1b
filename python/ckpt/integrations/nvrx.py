"""A manager of local checkpoints for NVIDIA's resiliency extension (nvidia-resiliency-ext)::

    with CheckpointManager(job="gpt", store="store") as manager:
        if manager.find_latest() >= 0:
            state, _ = manager.load()
        manager.save(BasicTensorAwareStateDict(state_dict), iteration)

It has the calls of ``LocalCheckpointManager``. The daemon writes, keeps copies on other nodes and brings them back, so there is no strategy of replication.
Nothing is pickled, and each byte that is loaded is checked. It is written for nvidia-resiliency-ext 0.4."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from nvidia_resiliency_ext.checkpointing.async_ckpt.core import AsyncRequest
from nvidia_resiliency_ext.checkpointing.local.basic_state_dict import BasicTensorAwareStateDict
from nvidia_resiliency_ext.checkpointing.local.ckpt_managers.base_manager import BaseCheckpointManager, CheckpointingException
from nvidia_resiliency_ext.checkpointing.local.replication.group_utils import GroupWrapper

from ..errors import Error
from ..job import job_name
from ..reader import Reader, checkpoints
from ..session import DURABLE, STORAGE, Session, Snapshot
from ..torch.element import current_stream, memory, plain
from ..tree import TreeError, dumps, loads
from .nvrx_states import give, take

DOCUMENT = "nvrx.state"


def _name(rank: int, path: str) -> str:
    return f"rank-{rank:05}.{path}"


class CheckpointManager(BaseCheckpointManager):
    """Saves the state of each rank as its own, so the world that loads has as many ranks as the one that saved. All ranks make each call.

    ``kind`` is the class of the states: their tree of mappings, lists and tensors is ``state_dict``. Other options go to :class:`ckpt.Session`. One session
    lasts as long as the tensors have the same paths, types, shapes and devices. Close the manager at the end; a rank that does not is taken for lost. What
    is kept, and how long, the daemon decides (``keep``)."""

    def __init__(self, job: str | None = None, store: str | os.PathLike[str] | None = None, *, kind: type[Any] = BasicTensorAwareStateDict,
                 **session: Any) -> None:
        super().__init__("", None)
        self.job, self.store, self.kind, self.options = job_name(job), store, kind, session
        self._session: Session | None = None
        self._layout: dict[str, Any] = {}
        self._room = 0  # of the document
        self._begun: Snapshot | None = None

    # ---- the session

    def _attach(self, tensors: Mapping[str, torch.Tensor], room: int) -> Session:
        """A session in which these tensors stand, and a document of so many bytes has room."""
        places = {path: memory(plain(t)) for path, t in tensors.items() if t.numel()}
        layout = {path: (m.dtype, m.shape, m.strides, m.device) for path, m in places.items()}
        session = self._session
        if self._all(session is not None and layout == self._layout and room <= self._room) and session is not None:
            for path, m in places.items():
                session.rebind(_name(self.rank, path), m)
            return session
        self.close()
        self._all(True)  # nobody enters the next epoch before all have left this one
        local = int(os.environ.get("LOCAL_WORLD_SIZE", 0))
        session = self._session = Session(self.job, rank=self.rank, world=dist.get_world_size(), local_world=local, **self.options)
        self._layout, self._room = layout, 2 * room + 4096
        for path, m in places.items():
            session.register(_name(self.rank, path), m)
        session.register_sized_blob(DOCUMENT, self._room, "rank")
        session.join()
        return session

    @staticmethod
    def _all(mine: bool) -> bool:
        """Whether all ranks say so, once all have said it."""
        return all(GroupWrapper().all_gather_object(mine))

    def _drop(self) -> None:
        """After an error, which whoever called is told of."""
        session, self._session, self._begun = self._session, None, None
        if session is not None:
            with contextlib.suppress(Error):
                session.close()

    def close(self) -> None:
        """Ends the session, and waits for the save that was begun."""
        self._end()
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._session is not None:
            self._session.abandon()

    # ---- saves

    def save(self, state_dict: Any, iteration: int, is_async: bool = False) -> AsyncRequest | None:
        """Returns once the checkpoint is on storage; with ``is_async`` at once, when the state may change, and the last function of the request waits."""
        self._save(state_dict, self._ckpt_id(iteration))
        if is_async:
            return AsyncRequest(None, (), [self._end])
        self._end()
        return None

    def _save(self, state_dict: Any, ckpt_id: Any) -> None:
        self._end()  # one after the other
        if not isinstance(state_dict, self.kind):
            raise TreeError(f"state is a {type(state_dict).__module__}.{type(state_dict).__qualname__}: a {self.kind.__qualname__} is saved. That of "
                            "Megatron-Core goes through ckpt.integrations.megatron")
        if state_dict.is_hollow:
            raise CheckpointingException("the tensors of the state were taken out of it")
        self.latest_iteration = -1
        tensors: dict[str, torch.Tensor] = {}
        document = dumps(take(state_dict.state_dict, "", tensors), "state")
        try:
            session, stream = self._attach(tensors, len(document)), current_stream()
            session.set_blob(DOCUMENT, document)
            self._begun = session.begin(ckpt_id[0], STORAGE, stream)
            self._begun.fence(stream)
        except Error as error:
            self._drop()
            raise CheckpointingException(f"iteration {ckpt_id[0]} cannot be saved: {error}") from error

    def _end(self) -> None:
        """Waits for the save that was begun."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            begun.wait(DURABLE)
        except Error as error:
            self._drop()
            raise CheckpointingException(f"the save of iteration {begun.step} has failed: {error}") from error

    # ---- loads

    def _my_ckpt_ids(self) -> Iterable[Any]:
        """Of worlds like this one. What comes after the newest belongs to a past that was given up."""
        try:
            found = [c for c in checkpoints(self.store, self.job) if c.state in ("committed", "verified")]
        except Error as error:
            if error.errno != errno.ENOENT:
                raise CheckpointingException(f"the store cannot be read: {error}") from error
            found = []
        return [(c.step, self.rank, self.session_id) for c in found if c.world == dist.get_world_size() and c.step <= found[-1].step]

    def _load(self, ckpt_id: Any) -> Any:
        """What there is comes from the store, and the tensors from the nearest copy that is whole: of this node's memory, another's, or the store."""
        step, rank, _ = ckpt_id
        tensors: dict[str, torch.Tensor] = {}
        try:
            with Reader(self.store, self.job, step) as reader:
                document = reader.blob(DOCUMENT, rank)
            tree = give(loads(document, f"the state of rank {rank}"), tensors)
            self._attach(tensors, len(document)).restore(step)
        except (Error, TreeError) as error:
            self._drop()
            raise CheckpointingException(f"iteration {step} cannot be loaded: {error}") from error
        state = object.__new__(self.kind)  # its __init__ refuses tensors of the host
        state.state_dict, state._is_hollow = tree, False
        return state

    def _cleanup(self, iteration: int) -> None:
        """The daemon removes what its configuration does not keep."""

    def _cleanup_failed_save(self, iteration: int) -> None:
        """What is not committed is no checkpoint, and the daemon removes it."""
