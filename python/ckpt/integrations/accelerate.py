"""Checkpoints of what an Accelerator has prepared::

    with checkpointer(accelerator, job="tuning", memory_every=1, storage_every=100) as ck:
        found = ck.restore()

It is written for accelerate 1.15."""

from __future__ import annotations

from typing import Any

from ..torch import Checkpointer


def _numbered(name: str, parts: list[Any]) -> dict[str, Any]:
    """model, model1, model2 …"""
    return {f"{name}{i or ''}": part for i, part in enumerate(parts)}


def state_of(accelerator: Any) -> dict[str, Any]:
    """The parts of the state: ``model``, ``optim``, ``schedule``, the scaler, loaders that know their position, and what was given to
    ``register_for_checkpointing`` as ``object``. From the second one on they are numbered."""
    if str(accelerator.distributed_type).endswith("DEEPSPEED"):
        raise TypeError("the accelerator uses DeepSpeed, which keeps parameters and optimizer state in flat ranges: that is not supported here")
    state = _numbered("model", accelerator._models)
    state |= _numbered("optim", [getattr(o, "optimizer", o) for o in accelerator._optimizers])
    state |= _numbered("schedule", [getattr(s, "scheduler", s) for s in accelerator._schedulers])
    state |= _numbered("object", accelerator._custom_objects)
    if accelerator.scaler is not None:
        state["scaler"] = accelerator.scaler
    if accelerator.use_stateful_dataloader:
        state |= _numbered("data", accelerator._dataloaders)
    return state


def checkpointer(accelerator: Any, **options: Any) -> Checkpointer:
    """A Checkpointer of all that was prepared and registered. Call it after ``accelerator.prepare``.

    ``options`` are those of :class:`ckpt.torch.Checkpointer`. In the loop call ``begin(step)`` before the batch is drawn; the step of an optimizer waits for
    the copy by itself. Without stateful loaders, pass over the batches that were used with ``accelerator.skip_first_batches``."""
    if not accelerator._models:
        raise ValueError("the accelerator has no model yet: call accelerator.prepare before")
    return Checkpointer(state_of(accelerator), **options)
