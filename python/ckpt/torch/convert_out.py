"""A checkpoint of a :class:`ckpt.torch.Checkpointer` as a file of torch.save, or as a directory of torch.distributed.checkpoint."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..reader import Reader
from .contents import Contents, Saved
from .element import memory, plain
from .foreign import alone


def _read(reader: Reader, wanted: Collection[Saved]) -> dict[Saved, torch.Tensor]:
    found = {saved: torch.empty(saved.shape, dtype=saved.dtype) for saved in wanted}
    reader.read_into({saved.name: memory(plain(t)) for saved, t in found.items()})
    return found


def state_of(reader: Reader, only: Sequence[str], rename: Mapping[str, str]) -> dict[str, Any]:
    """The state of a checkpoint, by parts."""
    contents = Contents(reader)
    places = {name: name.partition(".")[::2] for name in contents.tensors}
    parts = sorted({*contents.parts, *(part for part, _ in places.values())})
    missing = [part for part in {*only, *rename} if part not in parts]
    if missing:
        raise ValueError(f"there is no {missing[0]} in it, but {', '.join(parts[:20])}")
    chosen: dict[str, dict[str, Saved]] = {part: {} for part in parts if not only or part in only}
    for name, (part, rest) in places.items():
        if part in chosen:
            chosen[part][rest] = contents.tensors[name]
    tensors = _read(reader, {saved for inside in chosen.values() for saved in inside.values()})
    return {rename.get(part, part): contents.part(part, {name: tensors[saved] for name, saved in inside.items()}) for part, inside in chosen.items()}


def write_out(repo: Path, job: str, step: str, to: Path, only: Sequence[str], rename: Mapping[str, str]) -> str:
    """Writes the checkpoint, which appears complete or not at all. Returns a sentence that says so."""
    if to.exists():
        raise FileExistsError(f"{to} is there already")
    with Reader(repo, job, step) as reader:
        state, name = state_of(reader, only, rename), reader.info.name
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=to.resolve().parent) as folder:
        made = Path(folder) / to.name
        if to.suffix in (".pt", ".pth", ".bin"):
            torch.save(state, made)
            with open(made, "rb") as f:
                os.fsync(f.fileno())
        else:
            alone("save", state, checkpoint_id=str(made))
        made.rename(to)
    return f"wrote {job}/{name} to {to}: {', '.join(state)}"
