"""Checkpoints of a loop of JAX::

    with Checkpointer(job="gpt", memory_every=10, storage_every=500) as ck:
        found = ck.restore(state)
        if found:
            state = found.state
        for step in range(found.step if found else 0, last):
            ck.begin(step, state)
            state = train_step(state, batch)

``state`` is any tree of arrays. An array of JAX does not change, so no fence is needed: what a save reads is held until the next begin, and JAX copies what
is given away meanwhile. It is written for jax 0.10."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from ..errors import Error, NoCheckpoint
from ..job import job_name
from ..policy import Policy
from ..progress import shown
from ..saves import Saves
from ..session import LATEST, LATEST_HEALTHY, Restored, Session
from ..tree import TreeError, dumps, loads
from .jax_arrays import Tensor, is_array

JOB, RANK = "ckpt.tree", "ckpt.tree.rank"
FORMAT = 1


@dataclass(frozen=True)
class Resumed:
    """What a restore found. ``local``: what this rank gave to its :meth:`Checkpointer.begin`; None where the world is another than that of the save."""

    step: int
    source: str  #: "memory", "peer" or "storage"
    why: str  #: which newer or better sources were passed over, and why; or ""
    state: Any
    local: Any
    details: Restored


def _leaves(state: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        yield jax.tree_util.keystr(path, simple=True, separator=".") or "state", leaf


def _values(state: Any) -> dict[str, Any]:
    return {name: leaf for name, leaf in _leaves(state) if not is_array(leaf)}


def _group(name: str) -> str | None:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name.split(".")[0]).lstrip("-")[:47] or None


class Checkpointer(Saves):
    """Saves and restores a tree of arrays. ``memory_every`` and ``storage_every`` count steps; with ``auto`` the daemon says what is due. A save that fails
    is logged, and raises only with ``strict_saves``. Other options go to :class:`ckpt.Session`. If there are several processes, make it when they have
    met."""

    def __init__(self, *, job: str | None = None, socket: str | None = None, memory_every: int = 0, storage_every: int = 0, auto: bool = False,
                 strict_saves: bool = False, document_bytes: int = 1 << 20, timeout: float | None = None, **session: Any) -> None:
        policy, self.job, self._most = Policy(memory_every, storage_every, auto), job_name(job), document_bytes
        place = {"rank": jax.process_index(), "world": jax.process_count()} if jax.process_count() > 1 else {}
        super().__init__(Session(self.job, socket, timeout=timeout, **place, **session), policy, strict_saves)
        self._tensors: dict[str, Tensor] | None = None
        self._at: dict[tuple[str, int], int] = {}  # the addresses that are registered
        self._held: list[Any] = []  # what a save reads: JAX neither frees that memory nor gives it to another array
        self._now: tuple[Any, Any] = (None, None)

    # ---- restore

    def restore(self, state: Any, step: int | str = "latest", timeout: float | None = None) -> Resumed | None:
        """Meets the other ranks, and makes a state like this one of a checkpoint: a step, "latest" or "healthy". None: there is none, this is a fresh
        start. What is no array in ``state`` is taken from the checkpoint if it is there. Arrays may also be jax.ShapeDtypeStruct with a sharding.

        All ranks call it before the first step."""
        which = {"latest": LATEST, "healthy": LATEST_HEALTHY}.get(str(step))
        fresh = self._register(state)
        self._join(timeout)
        try:
            with shown(self.session):
                done = self.session.restore(int(step) if which is None else which, timeout=timeout)
        except NoCheckpoint as e:
            if e.errno != 2:
                raise
            self._first = 0
            return None
        self._first = done.step
        return self._restored(state, fresh, done)

    def _register(self, state: Any) -> dict[str, list[Any]]:
        """Registers memory that a restore may write to, or gives what is registered such memory."""
        dumps(_values(state), "state")  # what has no place there is refused now
        if self._tensors is not None:
            self._arrays(state)
            fresh = {name: t.fresh() for name, t in self._tensors.items()}
            self._bind(fresh)
            return fresh
        tensors = {name: Tensor(name, leaf) for name, leaf in _leaves(state) if is_array(leaf)}
        fresh = {name: t.fresh() for name, t in tensors.items()}
        for name, t in tensors.items():
            self.session.register(name, *t.pieces(fresh[name]), shape=t.shape, dtype=t.element, group=_group(name), replica=t.replica)
        self.session.register_sized_blob(JOB, self._most, "job")
        self.session.register_sized_blob(RANK, self._most, "rank")
        self._tensors = tensors
        return fresh

    def _forget_state(self) -> None:
        self._tensors, self._at = None, {}

    def _arrays(self, state: Any) -> dict[str, Any]:
        leaves = {name: leaf for name, leaf in _leaves(state) if is_array(leaf)}
        registered = self._tensors or {}
        if leaves.keys() != registered.keys():
            other = sorted(leaves.keys() ^ registered.keys())[0]
            raise Error(22, f"{other} is in one of this state and that of the first restore(), and not in the other")
        return leaves

    def _restored(self, state: Any, fresh: dict[str, list[Any]], done: Restored) -> Resumed:
        assert self._tensors is not None
        job, own = self._read(JOB), self.session.get_blob(RANK)
        local = self._read(RANK) if own and job["world"] == self.session.world else {}
        leaves = [self._tensors[name].whole(fresh[name]) if is_array(leaf) else job["values"].get(name, leaf) for name, leaf in _leaves(state)]
        made = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(state), leaves)
        return Resumed(done.step, done.source, done.why, made, local.get("local"), done)

    def _read(self, name: str) -> dict[str, Any]:
        document = loads(self.session.get_blob(name), name)
        if not isinstance(document, dict) or document.get("format") != FORMAT or not isinstance(document.get("values"), dict):
            raise TreeError(f"{name} is no document of a state of JAX of format {FORMAT}")
        return document

    # ---- saves

    def begin(self, step: int, state: Any, local: Any = None) -> bool:
        """Saves this state, if the policy has a save for this step, as soon as it is computed. Returns whether a save was begun. ``local``: numbers, texts,
        lists and mappings of this rank alone, such as the position of its loader. Raises :class:`ckpt.StaleEpoch`: let the process end."""
        self.fence()
        self._now = state, local
        try:
            return self._begin_if_due(step)
        finally:
            self._now = None, None

    def _put(self) -> None:
        state, local = self._now
        if self._tensors is None:
            raise RuntimeError("call restore() before the first save: there the ranks meet")
        leaves = self._arrays(state)
        jax.block_until_ready(state)
        parts = {name: t.parts(leaves[name]) for name, t in self._tensors.items()}
        self._bind(parts)
        self._held = [part.__dlpack__() for of in parts.values() for part in of]
        about = {"format": FORMAT, "world": self.session.world}
        self.session.set_blob(JOB, dumps({**about, "values": _values(state)}, "state"))
        self.session.set_blob(RANK, dumps({**about, "values": {}, "local": local}, "local"))

    def _bind(self, parts: dict[str, list[Any]]) -> None:
        assert self._tensors is not None
        for name, t in self._tensors.items():
            for i, part in enumerate(parts[name]):
                m = t.memory(part)
                if self._at.get((name, i)) != m.pointer:
                    self.session.rebind(name, m, i)
                    self._at[name, i] = m.pointer

    def fence(self) -> None:
        """Waits until the last save needs its arrays no more. The next begin does so by itself."""
        super().fence()
        self._held = []

    def save(self, step: int, state: Any, local: Any = None, timeout: float | None = None) -> None:
        """Saves this step to storage, or to memory where there is no store, and waits for it. For the last one: it raises what it fails with."""
        self._now = state, local
        try:
            self._save(step, timeout)
        finally:
            self._now = None, None

    def should_stop(self) -> bool:
        """Whether the operator has asked the job to end. All ranks call it at the same step, and all get the same answer."""
        mine = self.session.should_stop
        if jax.process_count() == 1:
            return mine
        return bool(np.max(multihost_utils.process_allgather(np.int32(mine))))
