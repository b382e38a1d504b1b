"""Checkpoints of a training loop: what to save is said once, and a step then takes two calls."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ..errors import NoCheckpoint
from ..job import job_name
from ..policy import Policy
from ..progress import shown
from ..saves import Saves
from ..session import LATEST, LATEST_HEALTHY, Restored, Session
from .documents import Documents
from .element import current_stream
from .held import Held
from .layout import Place
from .sources import sources_of

_log = logging.getLogger("ckpt")


@dataclass(frozen=True)
class Resumed:
    """What a restore found. ``left``: parts of the state that stayed as they were, since the checkpoint does not have them for this world."""

    step: int
    source: str  #: "memory", "peer" or "storage"
    why: str  #: which newer or better sources were passed over, and why; or ""
    left: tuple[str, ...]
    details: Restored


def _world() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 0  # the environment says it


class Checkpointer(Saves):
    """Saves and restores a training state.

    ``state`` maps names to modules, optimizers, schedulers, loaders, dicts, and anything with state_dict. ``memory_every`` and ``storage_every`` count
    steps. With ``auto`` the daemon says when a save is due, and they count where its interval is not automatic. ``place`` says of tensors that are no
    DTensors which part of a whole they are (:class:`Flat`, :class:`Part`). A save that fails is logged, and raises only with ``strict_saves``. Without
    ``auto_fence`` the step of an optimizer does not wait for the copy: for loops whose step has the forward pass within it, and which call :meth:`fence`
    behind that. Options of the session, such as ``strict`` and ``slots``, go to :class:`ckpt.Session`."""

    def __init__(self, state: Mapping[str, Any], *, job: str | None = None, socket: str | None = None, memory_every: int = 0, storage_every: int = 0,
                 auto: bool = False, strict_saves: bool = False, rng: bool = True, auto_fence: bool = True, place: Place | None = None,
                 document_bytes: int = 1 << 20, timeout: float | None = None, **session: Any) -> None:
        self.sources, policy = sources_of(state), Policy(memory_every, storage_every, auto)
        self._place, self._rng, self._most = place, rng, document_bytes
        rank, world = _world()
        local = int(os.environ.get("LOCAL_WORLD_SIZE", 0)) if world else 0
        self.job = job_name(job)
        super().__init__(Session(self.job, socket, rank=rank, world=world, local_world=local, timeout=timeout, **session), policy, strict_saves)
        self._held: list[Held] | None = None
        self._documents: Documents | None = None
        self._changed = False  #: the state is not any more what the program began with
        optimizers = [s.optimizer for s in self.sources if hasattr(s, "optimizer")] if auto_fence else []
        self._hooks: list[Any] = []
        for optimizer in optimizers:
            self.fence_before(optimizer)

    # ---- restore

    def _register(self) -> None:
        for source in self.sources:
            source.entries()
            source.prepare()
        self._held = [Held(s, self.session, self._place, self.session.world) for s in self.sources]
        types = {name: kind for held in self._held for name, kind in held.types().items()}
        self._documents = Documents(self.session, self.sources, types, self._rng, self._most)

    def restore(self, step: int | str = "latest", timeout: float | None = None) -> Resumed | None:
        """Meets the other ranks, and fills the state with a checkpoint: a step, "latest" or "healthy". None: there is none, this is a fresh start.
        Where this process has trained already, and nothing had been saved, it raises :class:`ckpt.NoCheckpoint`: end the process, so that all ranks begin alike.

        All ranks call it, once the state is complete and before the first step; again after :class:`ckpt.StaleEpoch`. Raises :class:`ckpt.WorldChanged` where
        this process is another rank from now on (``session.rank`` of ``session.world``): make the state of that place within the same objects, and call it
        again."""
        which = {"latest": LATEST, "healthy": LATEST_HEALTHY}.get(str(step))
        if which is None:
            which = int(step)
        changed = self._changed
        if self._held is None:
            self._register()
        for held in self._held or ():
            held.aim()
        self._changed = changed  # optimizers may have stepped there, to make their state
        self._join(timeout)
        try:
            with shown(self.session):
                done = self.session.restore(which, current_stream(), timeout)
        except NoCheckpoint as e:
            if e.errno != errno.ENOENT:
                raise
            self._fresh()
            return None
        return self._restored(done)

    def _forget_state(self) -> None:
        self._held = self._documents = None

    def _fresh(self) -> None:
        """A rank that took the place of a lost one has the state that its program begins with, and the others would go on with another one."""
        if self._changed:
            raise NoCheckpoint(errno.ENOENT, "the job has no checkpoint, and the state of this process is not the one it began with: end the process, so that "
                               "all ranks begin with the same state")
        for source in self.sources:
            source.forget()
        self._first = 0
        _log.info("a fresh start: the job has no checkpoint")

    def _restored(self, done: Restored) -> Resumed:
        assert self._held is not None and self._documents is not None
        for held in self._held:
            held.restored()
        left = self._documents.put_back()
        self._first, self._changed = done.step, True
        found = Resumed(done.step, done.source, done.why, left, done)
        _log.info("goes on at step %d from %s%s%s", done.step, done.source, f": {done.why}" if done.why else "",
                  f"; left as it is: {', '.join(left)}" if left else "")
        return found

    # ---- saves

    def _put(self) -> None:
        if self._held is None or self._documents is None:
            raise RuntimeError("call restore() before the first save: there the ranks meet")
        for held in self._held:
            held.refresh()
        self._documents.put()

    def _stream(self) -> int:
        return current_stream()

    def begin(self, step: int) -> bool:
        """Saves the state as it is now, if the policy has a save for this step. Call it when the last step is complete; until :meth:`fence` returns, only
        read the state. Returns whether a save was begun. Raises :class:`ckpt.StaleEpoch`: leave the step, and restore."""
        return self._begin_if_due(step)

    def fence_before(self, optimizer: torch.optim.Optimizer) -> None:
        """Lets the step of an optimizer wait for the copy. For one that is not in the state by itself."""
        self._hooks.append(optimizer.register_step_pre_hook(self._before_step))

    def _before_step(self, *_: Any) -> None:
        self.fence()

    def fence(self) -> None:
        super().fence()
        self._changed = True

    @contextlib.contextmanager
    def update(self) -> Iterator[None]:
        """``with ck.update():`` what changes the state."""
        self.fence()
        yield

    def save(self, step: int, timeout: float | None = None) -> None:
        """Saves this step to storage, or to memory where there is no store, and waits for it. For the last one: it raises what it fails with."""
        self._save(step, timeout)

    # ---- the end

    def should_stop(self, agree: bool = True) -> bool:
        """Whether the operator has asked the job to end. With ``agree`` all ranks call it at the same step, and all get the same answer."""
        mine = self.session.should_stop
        if not agree or not dist.is_initialized() or dist.get_world_size() == 1:
            return mine
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        flag = torch.tensor(int(mine), device=device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag.item())

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        super().close()
