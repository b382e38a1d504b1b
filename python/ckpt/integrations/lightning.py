"""Checkpoints of the Trainer of Lightning::

    trainer = Trainer(callbacks=[CkptCallback(job="tuning", memory_every=1, storage_every=100)], enable_checkpointing=False)
    trainer.fit(model, loader)

``fit`` goes on from the newest checkpoint: state, loops, position in the data, random numbers. It is written for lightning 2.6, whose fit loop it asks for
its progress and its loaders."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

from lightning.fabric.utilities.data import _set_sampler_epoch
from lightning.pytorch import Callback
from lightning.pytorch.loops.fetchers import _PrefetchDataFetcher

from ..torch import Checkpointer, PerRank, generators
from .resumption import RandomNumbers

_OWN_POSITION = "You're resuming from a checkpoint that ended before the epoch ended"


class _Loops:
    """What the loops have counted, at the start of a batch: that this one was drawn does not count."""

    def __init__(self, trainer: Any) -> None:
        self.loop = trainer.fit_loop

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = copy.deepcopy(self.loop.state_dict())
        state["state_dict"].pop("combined_loader", None)
        batches, epochs = state["epoch_loop.batch_progress"], state["epoch_progress"]
        for counts in (batches["total"], batches["current"]):
            counts.update(dict.fromkeys(counts, counts["completed"]))
        if epochs["current"]["completed"] == epochs["current"]["ready"]:  # between two epochs
            batches["current"] = dict.fromkeys(batches["current"], 0)
        batches["is_last_batch"] = False
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loop.load_state_dict(state)


class _Data:
    """Where this rank is in its data: the random numbers that the epoch began with, and what loaders with a state_dict say."""

    def __init__(self, trainer: Any) -> None:
        self.loop = trainer.fit_loop
        self.random: dict[str, Any] | None = None
        self.loaders: list[Any] = []

    def look(self) -> None:
        """Called when a batch is complete, and the next one is not drawn."""
        self.loaders = self.loop._combined_loader._state_dicts()

    def state_dict(self) -> dict[str, Any]:
        return {"random": self.random, "loaders": self.loaders}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.random, self.loaders = state["random"], state["loaders"]
        self.loop._combined_loader_states_to_load = self.loaders

    def pass_over(self, batches: int) -> None:
        """Draws the batches of this epoch that were used. Loaders with a state_dict have been told already."""
        if self.loaders:
            return
        fetcher = self.loop._data_fetcher
        if not isinstance(fetcher, _PrefetchDataFetcher):
            raise TypeError("training_step takes dataloader_iter: batches that were used cannot be passed over. Give the loader a state_dict")
        if self.random is not None:
            generators.put_back(self.random)
        epoch = self.loop.epoch_progress.current.processed
        for loader in self.loop._combined_loader.flattened:
            _set_sampler_epoch(loader, epoch)
        if epoch:
            iter(fetcher)  # as the loop did behind the start of that epoch
        for _ in range(batches):
            next(fetcher)
        fetcher.fetched -= batches  # the loop adds them
        warnings.filterwarnings("ignore", _OWN_POSITION)


class _Callbacks:
    """What the other callbacks keep, such as EarlyStopping."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        return {c.state_key: state for c in self.trainer.callbacks if (state := c.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for callback in self.trainer.callbacks:
            if callback.state_key in state:
                callback.load_state_dict(state[callback.state_key])


class CkptCallback(Callback):
    """Saves while a trainer fits, and restores before. ``options`` are those of :class:`ckpt.torch.Checkpointer`: ``job``, ``memory_every``,
    ``storage_every`` and more. With ``loss`` the daemon is told the loss of each step, and a GPU is waited for.

    A step is one of ``trainer.global_step``; of batches whose gradients are summed the first one saves. The part ``model`` is the LightningModule. After a
    loss ``fit`` raises :class:`ckpt.StaleEpoch`, or an error of a collective: let the process end, its launcher starts it again."""

    def __init__(self, *, loss: bool = False, **options: Any) -> None:
        self.options, self.loss = options, loss
        self.checkpointer: Checkpointer | None = None
        self.found_step: int | None = None  #: the step that the training went on from; None: it began
        self._random, self._step = RandomNumbers(), -1
        self._losses: list[Any] = []  # of the batches of this step

    def _state(self, trainer: Any) -> dict[str, Any]:
        if "DeepSpeed" in type(trainer.strategy).__name__:
            raise TypeError("the strategy is DeepSpeed, which keeps parameters and optimizer state in flat ranges: that is not supported here")
        state = {"model": trainer.lightning_module}
        state |= {f"optim{i or ''}": o for i, o in enumerate(trainer.strategy.optimizers)}
        state |= {f"schedule{i or ''}": c.scheduler for i, c in enumerate(trainer.strategy.lr_scheduler_configs)}
        if trainer.precision_plugin.state_dict():
            state["precision"] = trainer.precision_plugin
        return state | {"loops": _Loops(trainer), "data": PerRank(self._data), "callbacks": _Callbacks(trainer)}

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._data = _Data(trainer)
        self.checkpointer = Checkpointer(self._state(trainer), auto_fence=False, **self.options)
        found = self.checkpointer.restore()
        self._random.restored(found)
        self.found_step, self._step, self._losses = found.step if found else None, -1, []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.found_step is not None:
            self._data.pass_over(trainer.fit_loop.epoch_loop.batch_progress.current.completed)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._data.random = generators.get()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.checkpointer is not None
        self._random.put_back()
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            self.checkpointer.begin(self._step)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        assert self.checkpointer is not None
        self.checkpointer.fence()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert self.checkpointer is not None
        self._data.look()
        if self.loss and isinstance(outputs, Mapping) and outputs.get("loss") is not None:
            self._losses.append(outputs["loss"])  # of summed gradients Lightning gives each batch its share
        if self._losses and trainer.global_step != self._step:
            self.checkpointer.session.beat(self._step, "optimizer", float(sum(self._losses)))
            self._losses = []
        if self.checkpointer.should_stop():
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        checkpointer, self.checkpointer = self.checkpointer, None
        assert checkpointer is not None
        if trainer.global_step != self.found_step:
            checkpointer.save(trainer.global_step)
        checkpointer.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """A training that fails has not finished: its rank is a lost one."""
        checkpointer, self.checkpointer = self.checkpointer, None
        if checkpointer is not None:
            checkpointer.session.abandon()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Ends the session of a fit that had nothing to do: it went on from its last step."""
        checkpointer, self.checkpointer = self.checkpointer, None
        if checkpointer is not None:
            checkpointer.close()
