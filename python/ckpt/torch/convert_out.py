"""A checkpoint as a file of torch.save, as a directory of torch.distributed.checkpoint, or in the formats of Megatron-Core and DeepSpeed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..reader import Reader
from . import megatron, universal
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


def _write_torch(reader: Reader, made: Path, only: Sequence[str], rename: Mapping[str, str]) -> str:
    state = state_of(reader, only, rename)
    if made.suffix in (".pt", ".pth", ".bin"):
        torch.save(state, made)
        with open(made, "rb") as f:
            os.fsync(f.fileno())
    else:
        alone("save", state, checkpoint_id=str(made))
    return ", ".join(state)


def _write_megatron(reader: Reader, made: Path, common: Path | None) -> str:
    if not common:
        raise ValueError("a checkpoint of Megatron-Core needs the common.pt of its step: name that file with --common")
    return megatron.write(reader, made, common)


def write_out(repo: Path, job: str, step: str, to: Path, only: Sequence[str], rename: Mapping[str, str], kind: str = "", common: Path | None = None) -> str:
    """Writes the checkpoint, which appears complete or not at all. ``kind``: "torch", "megatron" or "deepspeed"; else what it is. Returns a sentence that says
    so. What is of a framework goes out whole."""
    if to.exists():
        raise FileExistsError(f"{to} is there already")
    with Reader(repo, job, step) as reader, tempfile.TemporaryDirectory(prefix=".convert-", dir=to.resolve().parent) as folder:
        made, kind = Path(folder) / to.name, kind or ("megatron" if megatron.is_saved(reader) else "torch")
        if kind == "torch":
            about = _write_torch(reader, made, only, rename)
        elif only or rename:
            raise ValueError(f"--only and --rename are for parts of a state_dict: a checkpoint of {kind} goes out whole")
        else:
            about = _write_megatron(reader, made, common) if kind == "megatron" else universal.write(reader, made)
        name = reader.info.name
        made.rename(to)
    return f"wrote {job}/{name} to {to}: {about}"
