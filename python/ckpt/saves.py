"""The saves of a training loop, whatever its state is made of: which steps are saved, what becomes of each, and what a failure does."""

from __future__ import annotations

import errno
import logging
import threading
from typing import Self

from .errors import Busy, Error, StaleEpoch, Superseded, Timeout, WorldChanged
from .policy import Policy
from .session import DURABLE, MEMORY, STORAGE, Session, Snapshot
from .tree import TreeError

_log = logging.getLogger("ckpt")


class _Unfenced(Busy):
    """The loop has not said that the state of an earlier save may change."""

    def __init__(self, step: int) -> None:
        super().__init__(errno.EBUSY, f"the save of step {step} has had no fence yet: call fence() before the state changes, or no save is completed")


class Saves:
    """What the loops of frameworks share. A subclass says in :meth:`_put` what is saved."""

    def __init__(self, session: Session, policy: Policy, strict_saves: bool) -> None:
        self.session, self.policy, self.strict_saves = session, policy, strict_saves
        self._snapshot: Snapshot | None = None
        self._pending: list[Snapshot] = []
        self._fencing = threading.Lock()
        self._said: set[str] = set()
        self._first = -1

    def _put(self) -> None:
        """Puts the state as it is now where a begin looks for it."""
        raise NotImplementedError

    def _stream(self) -> int:
        """The stream that changes the state."""
        return 0

    # ---- saves

    def _begin_if_due(self, step: int) -> bool:
        self.session.beat(step, "forward")
        self._look_at_pending()
        target = self._target(step)
        return target is not None and self._begin(step, target)

    def _target(self, step: int) -> int | None:
        """It is asked at each step, also where nothing is saved: what the ranks ask for says how long a step takes."""
        if not self.policy.auto:
            return self.policy.target(step, self.session.has_storage, self._first)
        try:
            target = self.session.due(step)
        except (StaleEpoch, WorldChanged):
            raise
        except Error as e:
            if e.errno == errno.EOPNOTSUPP and self.policy.by_step:
                return self.policy.target(step, self.session.has_storage, self._first)
            if e.errno == errno.EOPNOTSUPP:
                raise
            self._failed(step, e)
            return None
        return target if step > self._first else None

    def _begin(self, step: int, target: int) -> bool:
        try:
            if self._snapshot is not None:
                raise _Unfenced(self._snapshot.step)
            self._put()
            self._snapshot = self.session.begin(step, target, self._stream())
        except (StaleEpoch, WorldChanged):
            raise
        except (Error, TreeError, TypeError) as e:
            self._failed(step, e)
            return False
        self._pending.append(self._snapshot)
        return True

    def fence(self) -> None:
        """Waits until the state may change. Call it just before it changes; before the step of an optimizer of PyTorch it is called by itself. If several
        threads call it, as where optimizers step within a backward pass on several devices, all of them wait."""
        with self._fencing:
            if self._snapshot is not None:
                self._fence(self._snapshot)

    def _fence(self, snapshot: Snapshot) -> None:
        """What is no answer, as a timeout or an interrupt, leaves it to the next call."""
        try:
            snapshot.fence(self._stream())
        except Timeout:
            raise
        except Error as e:
            self._snapshot = None
            if isinstance(e, (StaleEpoch, WorldChanged)):
                raise
            self._failed(snapshot.step, e)
        self._snapshot = None

    def _save(self, step: int, timeout: float | None) -> None:
        self.fence()  # what becomes of an earlier save is no reason to leave out this one
        strict, self.strict_saves = self.strict_saves, True
        try:
            self.session.wait_slot(timeout)
            target = STORAGE if self.session.has_storage else MEMORY
            self._begin(step, target)
            snapshot = self._snapshot
            self.fence()
            if snapshot is not None and target == STORAGE:
                snapshot.wait(DURABLE, timeout)
        finally:
            self.strict_saves = strict

    def _look_at_pending(self) -> None:
        for snapshot in list(self._pending):
            try:
                if snapshot.poll() < DURABLE and len(self._pending) < 8:
                    continue
                self._pending.remove(snapshot)
            except Error as e:
                self._pending.remove(snapshot)  # first: it is raised once, and the next begin goes on
                if not isinstance(e, (Superseded, StaleEpoch, WorldChanged)):
                    self._failed(snapshot.step, e)

    def _join(self, timeout: float | None) -> None:
        """Meets the other ranks. Nothing that was begun is looked at any more; in another world nothing is registered, either."""
        self._forget_saves()
        try:
            self.session.join(timeout=timeout)
        except WorldChanged:
            self._forget_state()
            raise

    def _forget_saves(self) -> None:
        self._snapshot, self._pending = None, []

    def _forget_state(self) -> None:
        """The next restore registers the state of another place."""
        raise NotImplementedError

    def _failed(self, step: int, e: Exception) -> None:
        """Said once for each cause: training goes on."""
        if self.strict_saves:
            raise e
        cause = f"{type(e).__name__} {getattr(e, 'errno', '')}"
        level = logging.DEBUG if cause in self._said else logging.INFO if type(e) is Busy else logging.WARNING
        self._said.add(cause)
        _log.log(level, "step %d is not saved: %s", step, getattr(e, "strerror", None) or e)

    # ---- marks and the end

    def mark(self, step: int, healthy: bool, reason: str | None = None) -> None:
        """Says whether training should go on from the checkpoint of a step. All ranks call it."""
        try:
            self.session.mark(step, healthy, reason)
        except Error as e:
            self._failed(step, e)

    def mark_healthy(self, step: int, reason: str | None = None) -> None:
        self.mark(step, True, reason)

    def close(self) -> None:
        """Ends the session: this rank has finished. Waits until saves to storage are durable, and raises the first failure."""
        self._forget_saves()
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """A rank that fails has not finished: its session ends with the process, and the daemon sees a lost rank."""
        if kind is None:
            self.close()
        else:
            self.session.abandon()
