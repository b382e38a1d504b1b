"""Optimizers as a source: state by the names of parameters, and the settings of each group of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import torch

from .module import Module
from .source import Entry, Link, Source, put

#: Names of parameters that a document has beside the state. They are for those who take a checkpoint out of the store: no save may fail for them.
NAMES_BYTES = 256 << 10


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def is_tree(tree: Any) -> bool:
    """Whether it is the document of an :class:`Optimizer`."""
    return isinstance(tree, dict) and {"groups", "absent", "rest"} <= set(tree)


def wants_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step is not possible without one, as with LBFGS: then nobody but the training can make its state."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


class GroupNames:
    """The names of the parameters of each group, out of documents. ``saved``: those that have tensors in the checkpoint."""

    def __init__(self, tree: Mapping[str, Any], saved: Sequence[str]) -> None:
        self._all = dict.fromkeys(saved)
        self._others: list[dict[str, None]] = [{} for _ in tree["groups"][1:]]
        self._known = "others" in tree or not self._others
        self._first = tree.get("first")
        self._take(tree)

    def _take(self, tree: Mapping[str, Any]) -> None:
        self._all.update(dict.fromkeys([*tree["absent"], *tree.get("bare", ()), *tree["rest"]]))
        for known, names in zip(self._others, tree.get("others", ())):
            known.update(dict.fromkeys(names))

    def add(self, tree: Any) -> None:
        """The document of another rank. It may have other parameters, as a stage of a pipeline has."""
        if is_tree(tree) and len(tree["groups"]) == len(self._others) + 1:
            self._known = self._known and "others" in tree
            self._take(tree)

    @property
    def complete(self) -> bool:
        """Whether the first document knew all parameters."""
        return not self._known or not self._others or len(self.groups()[0] or ()) == self._first

    def groups(self) -> list[list[str] | None]:
        """None: not known."""
        if not self._known:
            return [None for _ in (0, *self._others)]
        elsewhere = {name for names in self._others for name in names}
        return [[name for name in self._all if name not in elsewhere], *map(list, self._others)]


def _alike(groups: Sequence[Sequence[torch.Tensor]], kept: Sequence[Sequence[torch.Tensor]]) -> bool:
    """The same parameters, in the same order."""
    return list(map(len, groups)) == list(map(len, kept)) and all(all(map(is_, a, b)) for a, b in zip(groups, kept))


class Optimizer(Source):
    """An optimizer of parameters of modules that are sources, too."""

    def __init__(self, prefix: str, optimizer: torch.optim.Optimizer, modules: Sequence[Module]) -> None:
        super().__init__(prefix)
        self.optimizer, self.modules = optimizer, modules
        self._made = False
        self._in_document = wants_closure(optimizer)  # all of its state: what is registered must not hang on whether there was a step
        self._known: dict[tuple[str, str], Any] = {}  # state that was there, by parameter and key
        self._completed: list[tuple[torch.Tensor, str]] = []
        self._absent: list[str] = []
        self._bare: list[str] = []  # parameters whose state has no tensor
        self._others: list[tuple[str, torch.Tensor]] | None = None  # parameters with state for the document; None: not looked yet
        self._first: set[tuple[str, Any]] | None = None  # all state at the registration, by parameter and key
        self._first_settings: list[set[Any]] = []
        self._grouped: tuple[list[list[torch.Tensor]], dict[str, Any]] = [], {}  # the parameters of each group, and their names

    def _name(self, p: torch.Tensor) -> str:
        for m in self.modules:
            if id(p) in m.names:
                return m.names[id(p)]
        raise TypeError(f"{self.prefix} holds a parameter of shape {tuple(p.shape)} that is in none of the modules: give its module, too")

    def _parameters(self) -> list[tuple[str, torch.Tensor]]:
        return [(self._name(p), p) for group in self.optimizer.param_groups for p in group["params"]]

    def _path(self, name: str, key: str) -> str:
        return f"{self.prefix}.state.{name}.{key}"

    def entries(self) -> list[Entry]:
        found: list[Entry] = []
        self._absent, self._bare, self._others, self._grouped = [], [], None, ([], {})
        for name, p in self._parameters():
            state = self.optimizer.state.get(p, {})
            self._absent += [] if state else [name]
            saved = {} if self._in_document else {k: v for k, v in state.items() if isinstance(v, torch.Tensor) or is_number(v)}
            self._bare += [name] if state and not saved else []
            self._known |= {(name, key): value for key, value in saved.items()}
            found += [Entry(self._path(name, key), state, key) for key in saved]
        if self._first is None:
            self._first = {(name, key) for name, p in self._parameters() for key in self.optimizer.state.get(p, {})}
            self._first_settings = [set(group) for group in self.optimizer.param_groups]
        return found

    def links(self) -> list[Link]:
        return [(self.optimizer.__dict__, "state", self.optimizer.state)]

    def watched(self) -> list[Any]:
        return [*self.optimizer.state.values(), *(p for g in self.optimizer.param_groups for p in g["params"])]

    def absent(self) -> set[str]:
        """All of a parameter that has no state."""
        absent = {self._path(name, "") for name in self._absent}
        return {name for name in self.registered if name[:name.rindex(".") + 1] in absent}

    def _other(self, name: str, p: torch.Tensor) -> dict[Any, Any]:
        return {k: v for k, v in self.optimizer.state.get(p, {}).items() if v is not None and self._path(name, k) not in self.registered}

    def tree(self) -> Any:
        if self._others is None:
            self._others = [(name, p) for name, p in self._parameters() if self._other(name, p)]
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups]
        rest = {name: self._other(name, p) for name, p in self._others}
        groups_now = [g["params"] for g in self.optimizer.param_groups]
        if not _alike(groups_now, self._grouped[0]):
            self._grouped = [[*params] for params in groups_now], self._group_names()
        return {"groups": groups, "absent": self._absent, "rest": rest, **self._grouped[1]}

    def _group_names(self) -> dict[str, Any]:
        """Which parameters are in which group; in the first one are those that are in no other."""
        groups = [g["params"] for g in self.optimizer.param_groups]
        others = [[self._name(p) for p in group] for group in groups[1:]]
        if sum(len(name) for names in (self._bare, *others) for name in names) > NAMES_BYTES:
            return {}
        return {"first": sum(map(len, groups[:1])), "others": others, "bare": self._bare}

    def put_back(self, tree: Any) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(tree["groups"]):
            raise ValueError(f"{self.prefix} has {len(groups)} groups of parameters, and the checkpoint {len(tree['groups'])}")
        self._drop_later(tree)
        for group, saved in zip(groups, tree["groups"]):
            for key, value in saved.items():
                put(group, key, value)
        absent = set(tree["absent"])
        for name, p in self._parameters():
            if name in absent:
                self.optimizer.state.pop(p, None)
            for key, value in tree["rest"].get(name, {}).items():
                self.optimizer.state[p][key] = value.to(p.device) if isinstance(value, torch.Tensor) else value
        if "bare" in tree and not any(self.optimizer.state.values()):
            self._check_had_none(tree)

    def _drop_later(self, tree: Any) -> None:
        """Settings and state that have come since the registration, and that the checkpoint does not have."""
        for group, saved, first in zip(self.optimizer.param_groups, tree["groups"], self._first_settings):
            for key in group.keys() - saved.keys() - first:
                del group[key]
        for name, p in self._parameters():
            for key in self._other(name, p).keys() - tree["rest"].get(name, {}).keys():
                if (name, key) not in (self._first or ()):
                    del self.optimizer.state[p][key]

    def _check_had_none(self, tree: Any) -> None:
        """A restore fills what is registered: of an optimizer that had made no state, what was saved would be lost without a word."""
        saved = tree["first"] + sum(map(len, tree["others"])) - len(tree["absent"]) - len(tree["bare"])
        if saved > 0 and any(p.requires_grad for _, p in self._parameters()):
            raise ValueError(f"the checkpoint has state of {saved} parameters, and the optimizer had none when it was registered: make it before restore()")

    def prepare(self) -> None:
        """Lets an optimizer without state make it, by a step with gradients and a learning rate of zero."""
        if self.optimizer.state or self._in_document:
            return
        parameters = [p for g in self.optimizer.param_groups for p in g["params"] if p.requires_grad or p.grad is not None]
        gradients = [p.grad for p in parameters]
        rates: list[tuple[dict[str, Any], Any]] = [(g, g["lr"]) for g in self.optimizer.param_groups if "lr" in g]
        for p in parameters:
            p.grad = torch.zeros_like(p)
        for group, rate in rates:
            group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
        try:
            self.optimizer.step()
            self._made = True
        except TypeError:
            pass  # its state comes with the first step
        finally:
            for group, rate in rates:
                group["lr"] = rate
            for p, gradient in zip(parameters, gradients):
                p.grad = gradient

    def complete(self) -> None:
        """What load_state_dict has taken away gets its former memory again."""
        parameters, self._completed = dict(self._parameters()), []
        for (name, key), value in self._known.items():
            p = parameters.get(name)
            if p is None or self._path(name, key) not in self.registered:
                continue
            state = self.optimizer.state.setdefault(p, {})
            if key not in state:
                state[key] = value
                self._completed.append((p, key))

    def forget(self) -> None:
        """The first step then makes the state as if nothing had been."""
        if self._made:
            self.optimizer.state.clear()
        for p, key in self._completed:
            self.optimizer.state.get(p, {}).pop(key, None)
