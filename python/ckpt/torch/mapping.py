"""Mappings as a source, and whatever has state_dict: tensors where they stand, the rest as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import torch

from .source import Entry, Link, Source, drop_later, keys_of, merge

#: Tensors of a state_dict up to this size are written into the document; larger ones are saved where they stand.
INLINE = 64 << 10


def split(mapping: MutableMapping[Any, Any], path: str, inline: int) -> tuple[dict[Any, Any], list[Entry]]:
    """The document of a mapping, and its tensors of more than ``inline`` bytes."""
    tree, entries = {}, []
    for key, value in mapping.items():
        if isinstance(value, torch.Tensor) and (value.nbytes > inline or not inline):
            entries.append(Entry(f"{path}.{key}", mapping, key))
        elif isinstance(value, dict):
            tree[key], inner = split(value, f"{path}.{key}", inline)
            entries += inner
        else:
            tree[key] = value
    return tree, entries


def mappings_in(mapping: MutableMapping[Any, Any]) -> Iterator[Link]:
    """The mappings in a mapping, and who holds them."""
    for key, value in mapping.items():
        if isinstance(value, dict):
            yield mapping, key, value
            yield from mappings_in(value)


class Mapped(Source):
    """A mapping of tensors, or of mappings of them, that stays where it is."""

    def __init__(self, prefix: str, mapping: MutableMapping[Any, Any]) -> None:
        super().__init__(prefix)
        self.mapping = mapping
        self._mappings: list[MutableMapping[Any, Any]] = []
        self._rest: list[tuple[tuple[Any, ...], MutableMapping[Any, Any], Any]] = []  # what is no tensor: path, who holds it, key
        self._first: dict[Any, Any] | None = None

    def _walk(self, mapping: MutableMapping[Any, Any], path: tuple[Any, ...]) -> None:
        self._mappings.append(mapping)
        for key, value in mapping.items():
            if isinstance(value, dict):
                self._walk(value, (*path, key))
            if not (value if isinstance(value, dict) else isinstance(value, torch.Tensor)):
                self._rest.append((path, mapping, key))

    def entries(self) -> list[Entry]:
        self._mappings, self._rest = [], []
        self._walk(self.mapping, ())
        self._first = keys_of(self.mapping) if self._first is None else self._first
        return split(self.mapping, self.prefix, 0)[1]

    def links(self) -> list[Link]:
        return list(mappings_in(self.mapping))

    def holders(self) -> list[Mapping[Any, Any]]:
        return [*self._mappings]

    def tree(self) -> Any:
        """Of many tensors only the few values that are none are looked at. Which keys there are was looked at before."""
        tree: dict[Any, Any] = {}
        for path, mapping, key in self._rest:
            node = tree
            for part in path:
                node = node.setdefault(part, {})
            node[key] = mapping[key]
        return tree

    def put_back(self, tree: Any) -> None:
        drop_later(self.mapping, tree, self._first or {})
        merge(self.mapping, tree)


class Stateful(Source):
    """Anything with state_dict and load_state_dict: it is asked anew before each save."""

    def __init__(self, prefix: str, thing: Any) -> None:
        super().__init__(prefix)
        self.thing = thing
        self._state: dict[str, Any] = {}
        self._first: dict[Any, Any] | None = None

    def entries(self) -> list[Entry]:
        state = self.thing.state_dict()
        if not isinstance(state, dict):
            raise TypeError(f"{self.prefix}: state_dict() of {type(self.thing).__qualname__} gives a {type(state).__name__}: a dict is wanted")
        self._state = state
        self._first = keys_of(state) if self._first is None else self._first
        return split(state, self.prefix, INLINE)[1]

    def volatile(self) -> bool:
        return True

    def tree(self) -> Any:
        return split(self._state, self.prefix, INLINE)[0]

    def put_back(self, tree: Any) -> None:
        state = self._state
        drop_later(state, tree, self._first or {})
        merge(state, tree)
        self.thing.load_state_dict(state)
