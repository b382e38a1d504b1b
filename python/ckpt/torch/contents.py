"""What a checkpoint holds in the terms of PyTorch: tensors by all their names and in their own types, and what is no tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

from ..reader import Reader, Tensor
from ..tree import TreeError, loads
from . import codecs
from .documents import FORMAT, JOB, RANK
from .element import DTYPES, stored_as
from .module import EXTRA
from .optimizer import GroupNames, is_tree

#: The document of a rank that saves by torch.distributed.checkpoint: values by their names, and the types of tensors that are saved as others.
TREE = "dcp.tree"
codecs.register()


@dataclass(frozen=True)
class Saved:
    """A tensor of a checkpoint. ``name``: under which it stands there. ``shape``: in elements of its own type."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


def _saved(t: Tensor, said: Any) -> Saved:
    if said is None:
        return Saved(t.name, DTYPES[t.dtype], t.shape)
    try:
        dtype = codecs.dtype_of(said)
        stored, tail = stored_as(dtype)
    except ValueError:
        raise TreeError(f"{t.name} has a type that nobody knows: {str(said)[:80]}") from None
    dims = len(t.shape) - len(tail)
    if stored is not DTYPES[t.dtype] or dims < 0 or t.shape[dims:] != tail:
        raise TreeError(f"{t.name} is {t.dtype} {t.shape}, and its document says that it is {str(said)[:80]}")
    return Saved(t.name, dtype, t.shape[:dims])


def _may_be_another(t: Tensor) -> bool:
    return t.scope is None and (t.dtype == "U8" or (t.dtype == "F64" and t.shape[-1:] == (2,)))


def _document(text: bytes, name: str) -> dict[str, Any]:
    found = loads(text, name)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise TreeError(f"{name} is no document of format {FORMAT}, which is what this version reads")
    return found


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


class Contents:
    """Documents are only read as far as they are asked for: each rank has one."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.job = _document(reader.blob(JOB), JOB) if JOB in reader else {}
        self.parts = _mapping(self.job, "parts")
        modules = self.job.get("modules")
        self._modules = modules if isinstance(modules, list) else []
        self.written = list(self._of_ranks(TREE))
        types = self._types()
        self.tensors = {t.name: _saved(t, types.get(t.name)) for t in reader.values() if t.scope is None}
        for alias, name in _mapping(self.job, "aliases").items():
            if name in self.tensors:
                self.tensors.setdefault(alias, self.tensors[name])

    def _of_ranks(self, name: str) -> Iterator[dict[str, Any]]:
        for rank in range(self.reader.info.world):
            if f"{name}@{rank:05}" in self.reader and (document := self.reader.blob(name, rank)):
                yield _document(document, name)

    def of_ranks(self) -> Iterator[dict[str, Any]]:
        """The documents of the ranks of a Checkpointer."""
        return self._of_ranks(RANK)

    def _types(self) -> dict[str, Any]:
        """Each rank knows the types of what it holds."""
        types: dict[str, Any] = dict(_mapping(self.job, "types"))
        if any(_may_be_another(t) and t.name not in types for t in self.reader.values()):
            for document in self.written or self.of_ranks():
                types |= _mapping(document, "types")
        return types

    def values(self) -> dict[str, Any]:
        """What is no tensor of the checkpoint, by the names that torch.distributed.checkpoint gives it. What several ranks have is that of the first."""
        if not self.written:
            flat: dict[str, Any] = flatten_state_dict({name: self.part(name, {}) for name in self.parts})[0]
            return flat
        found: dict[str, Any] = {}
        for document in self.written:
            found = {**_mapping(document, "values"), **found}
        return found

    def part(self, name: str, tensors: Mapping[str, Any]) -> Any:
        """A part of a Checkpointer as its state_dict. ``tensors``: those of it, by their names within the part."""
        tree = self.parts.get(name)
        if tree is not None and is_tree(tree):
            try:
                return self._optimizer(name, tree, tensors)
            except (KeyError, TypeError, ValueError, AttributeError) as e:
                raise TreeError(f"{name} is no document of an optimizer: {type(e).__name__}: {e}") from e
        if name in self._modules and isinstance(tree, dict):
            tree = {f"{path}{EXTRA}": extra for path, extra in tree.items()}
        if not tensors:
            return {} if tree is None else tree
        return {**tensors, **(tree if isinstance(tree, dict) else {})}

    def _optimizer(self, part: str, tree: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
        """As get_optimizer_state_dict gives it: by names of parameters. Of one that had no state the tensors are what its memory held before."""
        state: dict[str, dict[str, Any]] = {}
        absent = set(tree["absent"])
        for name, t in tensors.items():
            parameter, _, key = name.removeprefix("state.").rpartition(".")
            if parameter not in absent:
                state.setdefault(parameter, {})[key] = t
        for parameter, rest in tree["rest"].items():
            state.setdefault(parameter, {}).update(rest)
        return {"state": state, "param_groups": [dict(g) | names for g, names in zip(tree["groups"], self._names(part, tree))]}

    def _names(self, part: str, tree: Mapping[str, Any]) -> list[dict[str, Any]]:
        """``params`` of each group; of what an older version has saved it is not known where there are several."""
        saved = [name.removeprefix(f"{part}.state.").rpartition(".")[0] for name in self.tensors if name.startswith(f"{part}.state.")]
        names = GroupNames(tree, saved)
        if not names.complete:
            for document in self.of_ranks():
                names.add(_mapping(document, "parts").get(part))
        return [{} if group is None else {"params": group} for group in names.groups()]
