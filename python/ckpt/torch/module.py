"""Modules as a source: parameters, persistent buffers, and what get_extra_state gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from .source import Entry, Link, Source

#: What the name of a module gets in a state_dict, where that holds what get_extra_state gave.
EXTRA = "_extra_state"
_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod",
             "CheckpointWrapper": "_checkpoint_wrapped_module"}


def clean_modules(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Modules by their paths, without what wraps them: DDP, torch.compile, activation checkpointing."""
    yield prefix, module
    wrapper = next((_WRAPPERS[c.__name__] for c in type(module).__mro__ if c.__name__ in _WRAPPERS), None)
    for name, child in module._modules.items():
        if child is not None and (wrapper is None or name == wrapper):
            yield from clean_modules(child, prefix if name == wrapper else f"{prefix}{name}.")


def reshard(module: nn.Module) -> None:
    """FSDP2 keeps the root gathered after a forward pass without a backward pass: what is saved are the shards."""
    parts: Iterator[Any] = module.modules()
    for m in parts:
        if hasattr(m, "reshard") and hasattr(m, "unshard"):
            m.reshard()


class Module(Source):
    """A module. A parameter with several names is saved under the first."""

    def __init__(self, prefix: str, module: nn.Module) -> None:
        super().__init__(prefix)
        self.module = module
        self.names: dict[int, str] = {}  # of parameters, by identity: their paths
        self._extra: dict[str, nn.Module] = {}  # modules with get_extra_state
        for path, m in clean_modules(module):
            if type(m).__name__ == "FullyShardedDataParallel":
                raise TypeError(f"{prefix}.{path} is wrapped by FSDP1, which hides the parameters in flat ones: use fully_shard")
            if any(hasattr(p, "ds_id") for p in m._parameters.values()):
                raise TypeError(f"{prefix}.{path} has parameters that ZeRO-3 of DeepSpeed has cut: give its flat ranges as a mapping, with place=")

    def entries(self) -> list[Entry]:
        reshard(self.module)
        self.names, self._extra, found = {}, {}, []
        for path, m in clean_modules(self.module):
            for key, p in m._parameters.items():
                if p is None:
                    continue
                if id(p) in self.names:
                    self.aliases[f"{self.prefix}.{path}{key}"] = f"{self.prefix}.{self.names[id(p)]}"
                else:
                    self.names[id(p)] = f"{path}{key}"
                    found.append(Entry(f"{self.prefix}.{path}{key}", m._parameters, key))
            for key, b in m._buffers.items():
                if b is not None and key not in m._non_persistent_buffers_set:
                    found.append(Entry(f"{self.prefix}.{path}{key}", m._buffers, key, copied=True))
            if type(m).get_extra_state is not nn.Module.get_extra_state:
                self._extra[path] = m
        return found

    def links(self) -> list[Link]:
        return [(m._modules, key, child) for _, m in clean_modules(self.module) for key, child in m._modules.items()]

    def holders(self) -> list[Mapping[Any, Any]]:
        return [mapping for _, m in clean_modules(self.module) for mapping in (m._parameters, m._buffers, m._modules)]

    def tree(self) -> Any:
        return {path: m.get_extra_state() for path, m in self._extra.items()}

    def put_back(self, tree: Any) -> None:
        for path, m in self._extra.items():
            if path in tree:
                m.set_extra_state(tree[path])
