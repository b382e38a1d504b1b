"""Which kind of source each part of a training state is."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import torch

from .mapping import Mapped, Stateful
from .module import Module
from .optimizer import Optimizer
from .source import Source


class PerRank:
    """Marks a part of the state whose document is that of each rank, such as the position of a loader that reads a share of the data."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing


def _is_loader(thing: Any) -> bool:
    return hasattr(thing, "__iter__") and hasattr(thing, "state_dict")


def sources_of(state: Mapping[str, Any]) -> list[Source]:
    """A source for each part, in the order given. Loaders, which can be iterated and have a state_dict, are per rank."""
    plain = {name: part.thing if isinstance(part, PerRank) else part for name, part in state.items()}
    modules = {name: Module(name, part) for name, part in plain.items() if isinstance(part, torch.nn.Module)}
    found: list[Source] = []
    source: Source
    for name, part in plain.items():
        if not name or "." in name:
            raise ValueError(f"{name!r} is no name of a part of the state: it is the first component of the names of its tensors")
        if isinstance(part, Source):
            source = part
        elif name in modules:
            source = modules[name]
        elif isinstance(part, torch.optim.Optimizer):
            source = Optimizer(name, part, list(modules.values()))
        elif hasattr(part, "state_dict") and hasattr(part, "load_state_dict"):
            source = Stateful(name, part)
        elif isinstance(part, MutableMapping):
            source = Mapped(name, part)
        else:
            raise TypeError(f"{name} is a {type(part).__qualname__}: a module, an optimizer, a dict, or something with state_dict and load_state_dict "
                            "is wanted")
        source.per_rank = isinstance(state[name], PerRank) or (isinstance(source, Stateful) and _is_loader(part))
        found.append(source)
    # Names of parameters come from modules.
    return sorted(found, key=lambda s: not isinstance(s, Module))
