"""What others wrote as a checkpoint of a :class:`ckpt.torch.Checkpointer`: safetensors files, and ``ckpt import``."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import codecs, megatron, universal
from .foreign import Foreign, Keys, open_foreign
from .incoming import Incoming, import_all
from .mapping import INLINE
from .module import EXTRA
from .optimizer import is_number

REST = "rest"  # the part of what stands alone at the outermost level
codecs.register()


def nested(values: Mapping[Keys, Any]) -> Any:
    """A tree out of its leaves; numbers are indices of lists."""
    if () in values:
        return values[()]
    below: dict[str | int, dict[Keys, Any]] = {}
    for at, value in values.items():
        below.setdefault(at[0], {})[at[1:]] = value
    if all(type(key) is int for key in below):
        return [nested(below[key]) for key in sorted(below, key=int)]
    return {key: nested(inner) for key, inner in below.items()}


def _group_names(groups: list[dict[str, Any]], known: Collection[str]) -> dict[str, Any]:
    """As a document of an optimizer says it. ``known``: parameters with state. Nothing, if the source only numbers its parameters."""
    names = [g.get("param_names", g.get("params", ())) for g in groups]
    if not names or not all(type(name) is str for group in names for name in group):
        return {}
    return {"bare": [name for group in names for name in group if name not in known], "first": len(names[0]), "others": [list(g) for g in names[1:]]}


def _extra_states(values: Mapping[Keys, Any]) -> dict[str, Any] | None:
    """What get_extra_state of modules gave, as a document of a module has it: by their paths. None: there is something else, too."""
    found: dict[Keys, Any] = {}
    for at, value in values.items():
        end = next((i + 1 for i, key in enumerate(at) if str(key).endswith(EXTRA)), 0)
        if not end:
            return None
        found[(".".join(map(str, at[:end])).removesuffix(EXTRA), *at[end:])] = value
    return dict(nested(found)) if found else {}


class _Parts:
    """A foreign checkpoint by the names that a Checkpointer gives to its parts."""

    def __init__(self, source: Foreign, only: Sequence[str], rename: Mapping[str, str], part: str) -> None:
        self._bare = all(len(at) == 1 for at in source.tensors)
        self._only, self._rename, self._part = only, rename, part
        missing = [name for name in {*only, *rename} if not any(str(at[0]) == name for at in (*source.tensors, *source.values))]
        if missing:
            raise ValueError(f"there is no {missing[0]} in it, but {', '.join(sorted({str(at[0]) for at in (*source.tensors, *source.values)})[:20])}")
        self.tensors = {new: at for at in source.tensors if (new := self._place(at, True))}
        self.values = {new: value for at, value in source.values.items() if (new := self._place(at, False))}
        self.extra: dict[Keys, torch.Tensor] = {}  # numbers that are saved as tensors
        self.modules: list[str] = []  # parts whose values are all of get_extra_state
        self._optimizers = {at[0] for at in self.values if len(at) > 1 and at[1] == "param_groups"}

    def _place(self, at: Keys, tensor: bool) -> Keys | None:
        if self._only and at[0] not in self._only:
            return None
        if self._bare and tensor:
            return (self._part, *at)
        first = self._rename.get(str(at[0]), at[0])
        return (first, *at[1:]) if len(at) > 1 else (REST, first)

    def of(self, part: str) -> dict[Keys, Any]:
        return {at[1:]: value for at, value in self.values.items() if at[0] == part}

    def names(self) -> list[str]:
        return sorted({str(at[0]) for at in (*self.tensors, *self.values)})

    # ---- optimizers

    def _names_of(self, part: str, groups: list[dict[str, Any]]) -> dict[str, str]:
        """The names of parameters by their numbers, for state that is kept by number."""
        names: dict[str, str] = {}
        for group in groups:
            if len(group.get("param_names", ())) != len(group.get("params", ())):
                raise ValueError(f"{part} numbers its parameters, and does not say their names: load it into the optimizer with load_state_dict and "
                                 f"save with a Checkpointer, or leave it out (--only)")
            names |= {str(number): name for number, name in zip(group["params"], group["param_names"])}
        return names

    def settle_optimizer(self, part: str) -> Any:
        """The document of an optimizer. Its state gets the names of parameters."""
        groups = nested({at[1:]: v for at, v in self.of(part).items() if at[0] == "param_groups"})
        state = {at for at in (*self.tensors, *self.values) if at[0] == part and at[1] == "state" and len(at) > 2}
        numbered = all(str(at[2]).isdigit() for at in state)
        names = self._names_of(part, groups) if state and numbered else {}
        for at in sorted(state, key=str):
            new = (*at[:2], names.get(str(at[2]), at[2]), *at[3:])
            if at in self.tensors:
                self.tensors[new] = self.tensors.pop(at)
            elif is_number(value := self.values.pop(at)):
                self.extra[new] = torch.tensor(value, dtype=torch.float64 if type(value) is float else torch.int64)
        known = {str(at[2]) for at in (*self.tensors, *self.extra) if at[0] == part and at[1] == "state" and len(at) > 2}
        return {"groups": [{k: v for k, v in g.items() if k not in ("params", "param_names")} for g in groups], "absent": [], "rest": {},
                **_group_names(groups, known)}

    # ---- documents

    def tree(self, part: str, small: Mapping[Keys, torch.Tensor]) -> Any:
        """What of a part is no tensor. Small tensors stand here, too, where the part is no module: who has a state_dict takes them from here."""
        if part in self._optimizers:
            return self.settle_optimizer(part)
        values = self.of(part)
        extra = _extra_states(values)
        if extra is not None:
            self.modules += [part] if extra else []
            return extra
        return nested({**values, **{at[1:]: t for at, t in small.items() if at[0] == part}})


def _small(source: Foreign, parts: _Parts) -> dict[Keys, torch.Tensor]:
    def size(at: Keys) -> int:
        dtype, shape = source.tensors[at]
        return int(math.prod(shape) * dtype.itemsize)

    mixed = {at[0] for at in parts.values}
    wanted = {new: at for new, at in parts.tensors.items() if new[0] in mixed and new[1:2] != ("state",) and size(at) <= INLINE}
    read = source.read(list(wanted.values()))
    return {new: read[at] for new, at in wanted.items()}


def _parts(source: Foreign, only: Sequence[str], rename: Mapping[str, str], part: str) -> Incoming:
    """For a Checkpointer whose parts have the names of the outermost keys."""
    parts = _Parts(source, only, rename, part)
    trees = {name: parts.tree(name, _small(source, parts)) for name in parts.names()}
    incoming = Incoming(source, f"parts: {', '.join(parts.names())}", {".".join(map(str, new)): at for new, at in parts.tensors.items()},
                        {".".join(map(str, at)): t for at, t in parts.extra.items()})
    incoming.document(trees, parts.modules)
    return incoming


def _refuse_names(kind: str, only: Sequence[str], rename: Mapping[str, str]) -> None:
    if only or rename:
        raise ValueError(f"--only and --rename are for parts of a state_dict: a checkpoint of {kind} comes in whole")


def bring_in(program: str, path: Path, repo: Path, job: str, step: int, only: Sequence[str], rename: Mapping[str, str], part: str) -> str:
    """Makes a checkpoint of a store of what others wrote. Returns a sentence that says so."""
    if megatron.is_one(path):
        _refuse_names("Megatron-Core", only, rename)
        incoming = megatron.incoming(path)
    elif universal.is_one(path):
        _refuse_names("DeepSpeed", only, rename)
        incoming = universal.incoming(path)
    else:
        incoming = _parts(open_foreign(path), only, rename, part)
    return import_all(program, incoming, repo, job, step)
