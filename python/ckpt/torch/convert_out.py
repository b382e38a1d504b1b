"""A checkpoint of a :class:`ckpt.torch.Checkpointer` as a file of torch.save, or as a directory of torch.distributed.checkpoint."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..reader import Reader
from ..tree import loads
from . import codecs
from .documents import JOB
from .element import DTYPES, memory
from .foreign import alone

codecs.register()


def _optimizer(tensors: Mapping[str, torch.Tensor], tree: Mapping[str, Any]) -> dict[str, Any]:
    """As get_optimizer_state_dict gives it: by names of parameters. Which parameter is in which group is known where there is one group."""
    state: dict[str, dict[str, Any]] = {}
    for name, t in tensors.items():
        parameter, _, key = name.removeprefix("state.").rpartition(".")
        state.setdefault(parameter, {})[key] = t
    groups = [dict(g) for g in tree["groups"]]
    if len(groups) == 1:
        groups[0]["params"] = list(state)
    return {"state": state, "param_groups": groups}


def _part(tensors: Mapping[str, torch.Tensor], tree: Any) -> Any:
    if isinstance(tree, dict) and set(tree) == {"groups", "absent", "rest"}:
        return _optimizer(tensors, tree)
    if not tensors:
        return tree
    return {**tensors, **(tree if isinstance(tree, dict) else {})}


def _read(reader: Reader, names: Sequence[str]) -> dict[str, torch.Tensor]:
    found = {name: torch.empty(reader[name].shape, dtype=DTYPES[reader[name].dtype]) for name in names}
    reader.read_into({name: memory(t) for name, t in found.items()})
    return found


def state_of(reader: Reader, only: Sequence[str], rename: Mapping[str, str]) -> dict[str, Any]:
    """The state of a checkpoint, by parts."""
    document = loads(reader.blob(JOB), JOB) if JOB in reader else {}
    trees = document.get("parts") if isinstance(document, dict) else None
    trees = trees if isinstance(trees, dict) else {}
    aliases = document.get("aliases") if isinstance(document, dict) else None
    names = [t.name for t in reader.values() if t.scope is None]
    parts = sorted({*trees, *(name.partition(".")[0] for name in names)})
    missing = [part for part in {*only, *rename} if part not in parts]
    if missing:
        raise ValueError(f"there is no {missing[0]} in it, but {', '.join(parts[:20])}")
    parts = [part for part in parts if not only or part in only]
    tensors = _read(reader, [name for name in names if name.partition(".")[0] in parts])
    tensors |= {alias: tensors[name] for alias, name in (aliases if isinstance(aliases, dict) else {}).items() if name in tensors}
    return {rename.get(part, part): _part({name.partition(".")[2]: t for name, t in tensors.items() if name.partition(".")[0] == part}, trees.get(part))
            for part in parts}


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
