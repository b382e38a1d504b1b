"""Universal checkpoints of DeepSpeed: ``zero/NAME/KEY.pt`` has the whole fp32 parameter and each state of the optimizer, and ``mp_rank_00_model_states.pt`` what
the model computes with. They are written as deepspeed 0.19 does, which is not needed.

In a store they are what :func:`ckpt.integrations.deepspeed.checkpointer` makes of the same engine. Only data parallelism is in both."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import Damaged
from ..reader import Reader
from .contents import Contents, Saved
from .element import memory, plain
from .foreign import Foreign, Keys, refused
from .incoming import Incoming

FORMAT, VERSION = 0.4, "0.19.8"  # the universal format, and the version of DeepSpeed whose it is
_MODEL, _SETTINGS = "mp_rank_00_model_states.pt", "zero/optimizer_state.pt"
_COUNTED = ("global_steps", "global_samples", "skipped_steps")


class _Scaler:
    """In place of a loss scaler of DeepSpeed: its numbers."""


class _Stage(int):
    """In place of DeepSpeed's name for a stage of ZeRO."""


_INERT: list[Any] = [(_Scaler, f"deepspeed.runtime.fp16.loss_scaler.{name}") for name in ("LossScaler", "DynamicLossScaler")]
_INERT += [(_Stage, "deepspeed.runtime.zero.config.ZeroStageEnum")]


def _load(path: Path) -> Any:
    """Runs nothing of what the file holds. Tensors stay in the file until they are read."""
    try:
        with torch.serialization.safe_globals(_INERT):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as e:
        raise refused(path, e) from e
    except (RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise Damaged(errno.EBADMSG, f"{path} is no file of torch.save: {str(e)[:200]}") from e


def _mapping(path: Path) -> dict[str, Any]:
    found = _load(path)
    if not isinstance(found, dict):
        raise Damaged(errno.EBADMSG, f"{path} holds a {type(found).__name__}: a dict is wanted")
    return found


def _whole(path: Path) -> torch.Tensor:
    found = _mapping(path).get("param")
    if not isinstance(found, torch.Tensor):
        raise Damaged(errno.EBADMSG, f"{path} has no tensor under param")
    return found


def is_one(path: Path) -> bool:
    return (path / _SETTINGS).exists()


class Universal(Foreign):
    """``steps``: how many steps each parameter has made, as DeepSpeed counts them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        if len(list(path.glob("mp_rank_*_model_states.pt"))) != 1:
            raise ValueError(f"{path} is of an engine that cuts the model itself: only data parallelism is read")
        self.model, self.settings = _mapping(path / _MODEL), _mapping(path / _SETTINGS)
        module = self.model.get("module")
        if not isinstance(module, dict) or not all(isinstance(t, torch.Tensor) for t in module.values()):
            raise Damaged(errno.EBADMSG, f"{path / _MODEL} has no tensors under module")
        self._all: dict[Keys, torch.Tensor] = {("model", str(name)): t for name, t in module.items()}
        self.steps: dict[str, Any] = {}
        for folder in sorted(p for p in (path / "zero").iterdir() if p.is_dir()):
            self._parameter(folder)
        self.tensors = {at: (t.dtype, tuple(t.shape)) for at, t in self._all.items()}

    def _parameter(self, folder: Path) -> None:
        name = folder.name
        if ("model", name) not in self._all:
            raise Damaged(errno.EBADMSG, f"{folder} is of a parameter that the model does not have")
        for file in sorted(folder.glob("*.pt")):
            if file.stem == "step":
                self.steps[name] = _load(file)
                continue
            t = self._all["optim", name, file.stem] = _whole(file)
            if t.shape != self._all["model", name].shape:
                raise ValueError(f"{file} has shape {tuple(t.shape)}, and the parameter {tuple(self._all['model', name].shape)}: only data parallelism "
                                 "is read")

    def read(self, paths: list[Keys]) -> dict[Keys, torch.Tensor]:  # type: ignore[override]
        return {at: self._all[at].detach().contiguous() for at in paths}


def _groups(source: Universal) -> list[list[str]]:
    """The names of the parameters of each group."""
    shapes = source.model.get("param_shapes")
    if not isinstance(shapes, list) or not all(isinstance(group, dict) for group in shapes):
        raise Damaged(errno.EBADMSG, f"{_MODEL} does not say which parameters are in which group")
    return [[str(name) for name in group] for group in shapes]


def _document(source: Universal) -> dict[str, Any]:
    """What :class:`ckpt.integrations.deepspeed.Zero` says of an engine."""
    groups = source.settings.get("param_groups")
    names = _groups(source)
    if not isinstance(groups, list) or len(groups) != len(names) or not all(isinstance(g, dict) for g in groups):
        raise Damaged(errno.EBADMSG, f"{_SETTINGS} has no settings of {len(names)} groups of parameters")
    counted = {key: source.model.get(key, 0) for key in _COUNTED}
    config = source.model.get("ds_config")
    every = config.get("gradient_accumulation_steps", 1) if isinstance(config, dict) else 1
    if not all(type(n) is int for n in (*counted.values(), every)):
        raise Damaged(errno.EBADMSG, f"{_MODEL} does not say how many steps were made")
    scaler = source.settings.get("loss_scaler")
    return {"counted": counted | {"micro_steps": counted["global_steps"] * every},
            "scaler": {k: v for k, v in vars(scaler).items() if type(v) in (int, float)} if isinstance(scaler, _Scaler) else {},
            "groups": [{k: v for k, v in g.items() if k != "params"} for g in groups],
            "states": [next(({"step": source.steps[n]} for n in group if n in source.steps), {}) for group in names]}


def incoming(path: Path) -> Incoming:
    source = Universal(path)
    parts = {"model": {}, "optim": _document(source)}
    if isinstance(schedule := source.model.get("lr_scheduler"), dict):
        parts["schedule"] = schedule
    made = Incoming(source, f"parts: {', '.join(parts)}", {".".join(map(str, at)): at for at in source.tensors})
    made.document(parts, ["model"])
    return made


# ---- out of a store


def _step(tree: Mapping[str, Any]) -> Any:
    """The checkpoint does not say which parameter is in which group."""
    steps = [state.get("step") for state in tree["states"]]
    if any(s is None or s != steps[0] for s in steps):
        raise ValueError("the groups of parameters have made different numbers of steps: which parameter is in which group is not in the checkpoint")
    return steps[0]


def _read(reader: Reader, wanted: Mapping[str, Saved]) -> dict[str, torch.Tensor]:
    found = {name: torch.empty(saved.shape, dtype=saved.dtype) for name, saved in wanted.items()}
    reader.read_into({wanted[name].name: memory(plain(t)) for name, t in found.items()})
    return found


def _is_file_name(name: str) -> bool:
    """Whoever made the store has chosen it."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _save(value: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)
    with open(path, "rb") as f:
        os.fsync(f.fileno())


def write(reader: Reader, folder: Path) -> str:
    """Writes a universal checkpoint, one parameter after the other. Returns what is in it."""
    contents = Contents(reader)
    tree = contents.parts.get("optim")
    if not isinstance(tree, dict) or not {"counted", "groups", "states"} <= tree.keys():
        raise ValueError("this is no checkpoint of an engine of DeepSpeed: its part optim has other settings")
    states = [name.removeprefix("optim.").rpartition(".") for name in contents.tensors if name.startswith("optim.")]
    odd = [part for name, _, key in states for part in (name, key) if not _is_file_name(part)]
    if odd:
        raise ValueError(f"'{odd[0][:200]}' is no name of a parameter or of its state: it would be a path")
    names = sorted({name for name, _, _ in states})
    step = _step(tree)
    for name in names:
        prefix = f"optim.{name}."
        for key, t in _read(reader, {n: s for n, s in contents.tensors.items() if n.rpartition(".")[0] == prefix[:-1]}).items():
            _save({"param": t, "cat_dim": 0}, folder / "zero" / name / f"{key.removeprefix(prefix)}.pt")
        _save(step, folder / "zero" / name / "step.pt")
    module = {n.removeprefix("model."): t for n, t in _read(reader, {n: s for n, s in contents.tensors.items() if n.startswith("model.")}).items()}
    groups = [{**g, "params": [i]} for i, g in enumerate(tree["groups"])]
    _save({"param_groups": groups, "ds_version": VERSION}, folder / _SETTINGS)
    _save({"module": module, "lr_scheduler": contents.parts.get("schedule"), **{k: tree["counted"][k] for k in _COUNTED}, "dp_world_size": 1, "mp_world_size": 1,
           "ds_version": VERSION, "universal_checkpoint_info": {"universal_checkpoint_version": FORMAT}}, folder / _MODEL)
    return f"{len(names)} parameters of DeepSpeed"
