"""Checkpoints of the Trainer of Transformers::

    attach(trainer, job="tuning", memory_every=1, storage_every=100)
    trainer.train()

``train`` goes on from the newest checkpoint: state, step, position in the data, random numbers. Without ``attach`` nothing changes. This uses methods of
Trainer that begin with an underscore: it was written for transformers 5.23."""

from __future__ import annotations

from typing import Any

import transformers

from ..torch import Checkpointer
from .resumption import RandomNumbers

_COUNTED = ("global_step", "epoch", "total_flos", "num_input_tokens_seen", "best_metric", "best_global_step", "best_model_checkpoint")


class _Progress:
    """What a trainer has counted, and what its callbacks keep. Its list of log lines is not saved: it has no bound."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def _keepers(self) -> dict[str, Any]:
        kind: Any = transformers.trainer_callback.ExportableState
        return {type(c).__name__: c for c in self.trainer.callback_handler.callbacks if isinstance(c, kind)}

    def state_dict(self) -> dict[str, Any]:
        counted = {name: getattr(self.trainer.state, name) for name in _COUNTED}
        return {"counted": counted, "callbacks": {name: c.state()["attributes"] for name, c in self._keepers().items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in _COUNTED:
            setattr(self.trainer.state, name, state["counted"][name])
        for name, callback in self._keepers().items():
            for key, value in state["callbacks"].get(name, {}).items():
                setattr(callback, key, value)


class Callback(transformers.TrainerCallback):
    """Saves while a trainer trains. :func:`attach` makes it."""

    def __init__(self, trainer: Any, loss: bool, options: dict[str, Any]) -> None:
        self.trainer, self.loss, self.options = trainer, loss, options
        self.checkpointer: Checkpointer | None = None
        self.found_step: int | None = None  #: the step that the training went on from; None: it began
        self._random = RandomNumbers()
        self._losses: list[Any] = []  # of the batches of this step
        names = ("_inner_training_loop", "_prepare_for_training", "_run_epoch", "_load_rng_state", *(["training_step"] if loss else []))
        self._stock = {name: getattr(trainer, name) for name in names}
        for name in self._stock:
            setattr(trainer, name, getattr(self, name))

    # ---- in place of methods of the trainer

    def _inner_training_loop(self, *args: Any, **kwargs: Any) -> Any:
        """A training that fails has not finished: its rank is a lost one."""
        try:
            return self._stock["_inner_training_loop"](*args, **kwargs)
        except BaseException:
            checkpointer, self.checkpointer = self.checkpointer, None
            if checkpointer is not None:
                checkpointer.session.abandon()
            raise

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        """Restores, as soon as there is a model, an optimizer and a schedule."""
        prepared = self._stock["_prepare_for_training"](*args, **kwargs)
        if self.checkpointer is not None:
            self.checkpointer.close()
        self.checkpointer = Checkpointer(self._state(), **self.options)
        found = self.checkpointer.restore()
        self._random.restored(found)
        self.found_step = found.step if found else None
        return prepared

    def _state(self) -> dict[str, Any]:
        trainer = self.trainer
        if trainer.is_deepspeed_enabled:
            raise TypeError("the trainer trains with DeepSpeed, which keeps parameters and optimizer state in flat ranges: that is not supported here")
        state = {"model": trainer.model, "optim": getattr(trainer.optimizer, "optimizer", trainer.optimizer),
                 "schedule": getattr(trainer.lr_scheduler, "scheduler", trainer.lr_scheduler), "trainer": _Progress(trainer)}
        return state | ({"scaler": trainer.accelerator.scaler} if trainer.accelerator.scaler is not None else {})

    def _run_epoch(self, **said: Any) -> Any:
        """Passes over epochs that are complete, and lets the trainer pass over the batches that were used of the next one."""
        if self.found_step is None:
            return self._stock["_run_epoch"](**said)
        epoch, steps = divmod(self.found_step, said["num_update_steps_per_epoch"])
        if said["epoch"] < epoch or self.trainer.state.global_step >= self.trainer.state.max_steps:
            return None
        skipped = 0 if self.trainer.args.ignore_data_skip or said["epoch"] > epoch else steps * self.trainer.args.gradient_accumulation_steps
        said |= {"resume_from_checkpoint": "" if skipped else None, "epochs_trained": epoch, "steps_trained_in_current_epoch": skipped}
        return self._stock["_run_epoch"](**said)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint:
            self._stock["_load_rng_state"](checkpoint)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = self._stock["training_step"](*args, **kwargs)
        self._losses.append(loss.detach())  # of summed gradients the trainer gives each batch its share
        return loss

    # ---- events

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self.checkpointer is not None
        self._random.put_back()
        self.checkpointer.begin(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self.checkpointer is not None
        self.checkpointer.fence()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self.checkpointer is not None
        if self._losses:
            self.checkpointer.session.beat(state.global_step - 1, "optimizer", float(sum(self._losses)))
            self._losses = []
        if self.checkpointer.should_stop():
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        checkpointer, self.checkpointer = self.checkpointer, None
        assert checkpointer is not None
        if state.global_step != self.found_step:
            checkpointer.save(state.global_step)
        checkpointer.close()


def attach(trainer: Any, *, loss: bool = False, **options: Any) -> Callback:
    """Lets a Trainer save and go on. ``options`` are those of :class:`ckpt.torch.Checkpointer`: ``job``, ``memory_every``, ``storage_every`` and more.
    With ``loss`` the daemon is told the loss of each step, and a GPU is waited for.

    Call it once for a trainer, before ``train``. The model and its parts have the names of the part ``model`` of the checkpoint. After a loss ``train``
    raises :class:`ckpt.StaleEpoch`, or an error of a collective: let the process end, its launcher starts it again."""
    callback = Callback(trainer, loss, options)
    trainer.add_callback(callback)
    return callback
