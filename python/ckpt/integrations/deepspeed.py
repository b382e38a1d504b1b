"""Checkpoints of an engine of DeepSpeed with ZeRO 1 or 2::

    engine, *_ = deepspeed.initialize(…)
    with checkpointer(engine, job="gpt", memory_every=10, storage_every=500) as ck:
        found = ck.restore()

The fp32 parameters and the state of the optimizer, which ZeRO keeps as parts of flat tensors, are saved as ranges of each parameter. So any number of ranks
restores them. It is written for deepspeed 0.19."""

from __future__ import annotations

from typing import Any

import torch
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer

from ..torch import Checkpointer, Flat
from ..torch.optimizer import is_number
from ..torch.source import Entry, Source, put

_COUNTED = ("global_steps", "global_samples", "micro_steps", "skipped_steps")


class Zero(Source):
    """The optimizer of an engine: its parts of each parameter, the settings of each group of parameters, and what the engine has counted."""

    def __init__(self, engine: Any) -> None:
        super().__init__("optim")
        self.engine, self.zero, self.optimizer_of = engine, engine.optimizer, engine.optimizer.optimizer
        self.places: dict[str, Flat] = {}  #: which range of which whole each entry is
        self._names = {id(p): name for name, p in engine.module.named_parameters()}
        self._made = False

    def _flats(self) -> list[Any]:
        """The flat tensor of this rank in each group of parameters."""
        return list(self.zero.single_partition_of_fp32_groups)

    def entries(self) -> list[Entry]:
        found = []
        for flat, parameters in zip(self._flats(), self.zero.bit16_groups):
            flats = {"fp32": flat} | {k: v for k, v in self.optimizer_of.state.get(flat, {}).items() if _is_like(v, flat)}
            for p in parameters:
                if p._hp_mapping is not None:
                    found += self._ranges(p, flats)
        return found

    def _ranges(self, p: Any, flats: dict[str, Any]) -> list[Entry]:
        name, here, there = f"{self.prefix}.{self._names[id(p)]}", p._hp_mapping.hp_fragment_address, p._hp_mapping.lp_fragment_address
        holder: dict[Any, Any] = {key: flat.detach().narrow(0, here.start, here.numel) for key, flat in flats.items()}
        self.places |= {f"{name}.{key}": Flat(tuple(p.shape), there.start) for key in holder}
        return [Entry(f"{name}.{key}", holder, key) for key in holder]

    def absent(self) -> set[str]:
        """Before the first step it is all but the parameters: what is saved then are the zeros of :meth:`prepare`, with which that step begins."""
        return set() if self.optimizer_of.state else {name for name in self.registered if not name.endswith(".fp32")}

    def volatile(self) -> bool:
        """The first step makes the state of the optimizer anew, where nothing was restored."""
        return True

    def tree(self) -> Any:
        scaler = {k: v for k, v in vars(self.zero.loss_scaler).items() if is_number(v)}
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer_of.param_groups]
        states = [{k: v for k, v in self.optimizer_of.state.get(flat, {}).items() if not _is_like(v, flat)} for flat in self._flats()]
        return {"counted": {name: getattr(self.engine, name) for name in _COUNTED}, "scaler": scaler, "groups": groups, "states": states}

    def put_back(self, tree: Any) -> None:
        groups = self.optimizer_of.param_groups
        if len(groups) != len(tree["groups"]):
            raise ValueError(f"the optimizer has {len(groups)} groups of parameters, and the checkpoint {len(tree['groups'])}")
        for group, flat, saved, state in zip(groups, self._flats(), tree["groups"], tree["states"]):
            for key, value in saved.items():
                put(group, key, value)
            for key, value in state.items():
                put(self.optimizer_of.state[flat], key, value)
        for holder, values in ((self.zero.loss_scaler, tree["scaler"]), (self.engine, tree["counted"])):
            for name, value in values.items():
                setattr(holder, name, value)

    def prepare(self) -> None:
        """Lets an optimizer without state make it, by a step with gradients and a learning rate of zero."""
        if self.optimizer_of.state:
            return
        rates = [(g, g["lr"]) for g in self.optimizer_of.param_groups]
        for group, _ in rates:
            group["lr"] = 0.0
        for flat in self._flats():
            flat.grad = torch.zeros_like(flat)
        try:
            self.optimizer_of.step()
            self._made = True
        finally:
            for group, rate in rates:
                group["lr"] = rate
            for flat in self._flats():
                flat.grad = None

    def forget(self) -> None:
        if self._made:
            self.optimizer_of.state.clear()


def _is_like(value: Any, flat: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == flat.shape


def _refuse(engine: Any) -> None:
    if not isinstance(engine.optimizer, DeepSpeedZeroOptimizer):
        raise TypeError(f"the engine's optimizer is a {type(engine.optimizer).__name__}: ZeRO 1 and 2 are saved here. Of ZeRO 3 give the flat ranges as a "
                        "mapping to ckpt.torch.Checkpointer, with place=")
    if engine.mp_world_size > 1 or engine.has_moe_layers or hasattr(engine, "pipe_buffers"):
        raise TypeError("the engine cuts the model itself, by tensor parallelism, pipeline stages or experts: only data parallelism is saved here")


def checkpointer(engine: Any, **options: Any) -> Checkpointer:
    """A Checkpointer of an engine. Call it behind ``deepspeed.initialize``. The parts are ``model``, ``optim`` and ``schedule``.

    ``options`` are those of :class:`ckpt.torch.Checkpointer`. In the loop call ``begin(engine.global_steps)`` before the batch is drawn; ``engine.step()``
    waits for the copy by itself. ``engine.save_checkpoint`` and ``load_checkpoint`` stay as they are."""
    _refuse(engine)
    zero = Zero(engine)
    state = {"model": engine.module, "optim": zero}
    if engine.lr_scheduler is not None:
        state["schedule"] = engine.lr_scheduler
    ck = Checkpointer(state, place=lambda name, t: zero.places.get(name), **options)
    ck.fence_before(zero.optimizer_of)
    return ck
