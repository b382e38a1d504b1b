"""The checkpoint manager of torchtitan. In a configuration of the trainer::

    checkpoint=CheckpointManager.Config(enable=True, job="gpt", memory_interval=10, interval=500)

The trainer then saves to memory and to storage, and goes on from the newest. It is written for torchtitan 0.3."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from torchtitan.components.checkpointer import BaseCheckpointManager

from ..torch import Checkpointer, PerRank

try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:  # then no loader of this trainer is one
    StatefulDataLoader = None

#: Options of torchtitan that say what is not done here, and what does it.
_ELSEWHERE = {
    "initial_load_path": "bring that checkpoint into the store with python -m ckpt.convert",
    "initial_load_in_hf": "bring that checkpoint into the store with python -m ckpt.convert",
    "last_save_in_hf": "take the model out of the store with ckpt export --format hf",
    "create_seed_checkpoint": "any world restores what any other has saved",
    "exclude_from_loading": "a state is restored as a whole",
}


class _Counted:
    """Something that has a state and nothing else: what can be iterated would be taken for a loader."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def state_dict(self) -> Any:
        return dict(self.thing.state_dict())

    def load_state_dict(self, state: Any) -> None:
        self.thing.load_state_dict(state)


class _Loader(_Counted):
    """The position of a loader. That of torchtitan pickles the one of torchdata: this asks torchdata."""

    def state_dict(self) -> Any:
        stateful = StatefulDataLoader is not None and isinstance(self.thing, StatefulDataLoader)
        return dict(StatefulDataLoader.state_dict(self.thing) if stateful else self.thing.state_dict())

    def load_state_dict(self, state: Any) -> None:
        if StatefulDataLoader is not None and isinstance(self.thing, StatefulDataLoader):
            StatefulDataLoader.load_state_dict(self.thing, state)
        else:
            self.thing.load_state_dict(state)


def _numbered(name: str, things: Any) -> dict[str, Any]:
    return {f"{name}{i or ''}": thing for i, thing in enumerate(things)}


class CheckpointManager(BaseCheckpointManager):
    """Saves and restores the model, optimizers, schedules, the position in the data, and what the trainer has counted. ``interval`` counts the steps from a
    save to storage to the next; the last step is saved, too. The folder is not used: ckptd knows its store, and keeps what its configuration says."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseCheckpointManager.Config):
        job: str | None = None
        """The name of the job. If None, CKPT_JOB, or what the launcher says."""

        memory_interval: int = 0
        """Steps from a save to memory to the next, or zero for none."""

        strict_saves: bool = False
        """Whether a save that fails ends the training. Else it is logged."""

        socket: str | None = None
        """The socket of the daemon. If None, CKPT_SOCKET, or the usual place."""

    def __init__(self, config: Config, *, dataloader: Any, model_parts: list[Any], optimizers: Any, lr_schedulers: Any, states: dict[str, Any],
                 sd_adapter: Any = None, base_folder: str = "") -> None:
        self.enable = config.enable
        if not self.enable:
            return
        self.enable = False  # until there is something to close
        for option, way in _ELSEWHERE.items():
            if getattr(config, option):
                raise ValueError(f"checkpoint.{option} is set, and this manager does not do that: {way}")
        self.save_future = None  # what is on its way to storage is waited for by nobody
        self.load_only, self._first_too = config.load_only, config.enable_first_step_checkpoint
        state = _numbered("model", model_parts) | _numbered("optimizer", optimizers.optimizers) | {"lr_scheduler": _Counted(lr_schedulers)}
        state |= {name: _Counted(thing) for name, thing in states.items()}
        if dataloader is not None:
            state["dataloader"] = PerRank(_Loader(dataloader))
        self.checkpointer = Checkpointer(state, job=config.job, socket=config.socket, memory_every=config.memory_interval, storage_every=config.interval,
                                         strict_saves=config.strict_saves, auto_fence=False)
        self.enable = True

    def _load(self, step: int = -1) -> bool:
        """All ranks call it before the first step."""
        return self.checkpointer.restore("latest" if step == -1 else step) is not None

    def _save(self, curr_step: int, last_step: bool = False) -> bool:
        """Begins a save, if this step has one. Returns at once, but for the last step: that is on storage then."""
        if self.load_only:
            return False
        if last_step or (curr_step == 1 and self._first_too):
            self.checkpointer.save(curr_step)
            return True
        return self.checkpointer.begin(curr_step)

    def _maybe_wait_for_staging(self) -> None:
        self.checkpointer.fence()

    def _wait_for_saving(self) -> None:
        """Nothing to do: the daemon writes."""

    def _close(self) -> None:
        """Ends the session: this rank has finished. The trainer calls it after a failure, too, and a rank that failed is a lost one."""
        self.enable = False
        if sys.exc_info()[0] is None:
            self.checkpointer.close()
        else:
            self.checkpointer.session.abandon()
