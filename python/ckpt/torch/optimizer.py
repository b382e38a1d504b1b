"""Optimizers as a source: state by the names of parameters, and the settings of each group of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .module import Module
from .source import Entry, Link, Source, put


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


class Optimizer(Source):
    """An optimizer of parameters of modules that are sources, too."""

    def __init__(self, prefix: str, optimizer: torch.optim.Optimizer, modules: Sequence[Module]) -> None:
        super().__init__(prefix)
        self.optimizer, self.modules = optimizer, modules
        self._made = False

    def _parameters(self) -> list[tuple[str, torch.Tensor]]:
        names = {p: name for m in self.modules for p, name in m.names.items()}
        found = []
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                if id(p) not in names:
                    raise TypeError(f"{self.prefix} holds a parameter of shape {tuple(p.shape)} that is in none of the modules: give its module, too")
                found.append((names[id(p)], p))
        return found

    def entries(self) -> list[Entry]:
        found = []
        for name, p in self._parameters():
            state = self.optimizer.state.get(p, {})
            found += [Entry(f"{self.prefix}.state.{name}.{key}", state, key) for key, value in state.items()
                      if isinstance(value, torch.Tensor) or is_number(value)]
        return found

    def links(self) -> list[Link]:
        state = self.optimizer.state
        return [(self.optimizer.__dict__, "state", state)] + [(state, p, state.get(p)) for _, p in self._parameters()]

    def tree(self) -> Any:
        state, absent, rest = self.optimizer.state, [], {}
        for name, p in self._parameters():
            if p not in state:
                absent.append(name)
                continue
            path = f"{self.prefix}.state.{name}"
            other = {k: v for k, v in state[p].items() if v is not None and f"{path}.{k}" not in self.registered}
            if other:
                rest[name] = other
        return {"groups": [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups], "absent": absent, "rest": rest}

    def put_back(self, tree: Any) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(tree["groups"]):
            raise ValueError(f"{self.prefix} has {len(groups)} groups of parameters, and the checkpoint {len(tree['groups'])}")
        for group, saved in zip(groups, tree["groups"]):
            for key, value in saved.items():
                put(group, key, value)
        absent = set(tree["absent"])
        for name, p in self._parameters():
            if name in absent:
                self.optimizer.state.pop(p, None)
            for key, value in tree["rest"].get(name, {}).items():
                self.optimizer.state[p][key] = value.to(p.device) if isinstance(value, torch.Tensor) else value

    def prepare(self) -> None:
        """Lets an optimizer without state make it, by a step with gradients and a learning rate of zero."""
        everything = [p for g in self.optimizer.param_groups for p in g["params"]]
        if self.optimizer.state or any(p.grad is not None for p in everything):
            return
        parameters = [p for p in everything if p.requires_grad]
        rates: list[tuple[dict[str, Any], Any]] = [(g, g["lr"]) for g in self.optimizer.param_groups if "lr" in g]
        for p in parameters:
            p.grad = torch.zeros_like(p)
        for group, rate in rates:
            group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
        try:
            self.optimizer.step()
            self._made = True
        except TypeError:
            pass  # it needs a closure: its state comes with the first step
        finally:
            for group, rate in rates:
                group["lr"] = rate
            for p in parameters:
                p.grad = None

    def forget(self) -> None:
        """The first step then makes the state as if nothing had been."""
        if self._made:
            self.optimizer.state.clear()
