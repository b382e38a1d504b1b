"""What a source of state is: something that has tensors where they stand, and a rest that is a document."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch

#: Who holds what: a mapping, a key, and what must stand there for the addresses to be those that are registered.
Link = tuple[MutableMapping[Any, Any], Any, Any]


@dataclass(slots=True)
class Entry:
    """A tensor, or a number that is saved as one, and the mapping that holds it."""

    name: str
    holder: MutableMapping[Any, Any]
    key: Any
    copied: bool = False  #: a forward pass may change it: what is saved is a copy made at the begin

    @property
    def value(self) -> Any:
        return self.holder[self.key]


class Source:
    """A part of the training state. ``per_rank``: its document is that of each rank, not of the job."""

    per_rank = False

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.aliases: dict[str, str] = {}  #: other names of entries
        self.registered: set[str] = set()  #: names of entries that are saved where they stand

    def entries(self) -> list[Entry]:
        """Tensors by their names, looked up anew."""
        return []

    def links(self) -> list[Link]:
        """What must stay as it is for :meth:`entries` to stay the same, beside the entries themselves."""
        return []

    def watched(self) -> list[Any]:
        """What :meth:`links` cannot say: objects that must be the same ones, too."""
        return []

    def holders(self) -> list[Mapping[Any, Any]]:
        """Where something could come that :meth:`entries` would give, too: mappings whose keys must stay, beside those of entries."""
        return []

    def absent(self) -> set[str]:
        """Those of :attr:`registered` that are not there now, and of which the document says so: a restore leaves them away."""
        return set()

    def volatile(self) -> bool:
        """Whether :meth:`entries` are others at each call."""
        return False

    def tree(self) -> Any:
        """What is no tensor of :meth:`entries`; a copy, or what nobody changes before it is written."""
        return None

    def put_back(self, tree: Any) -> None:
        """Gives back what :meth:`tree` gave, after the tensors have been restored."""

    def prepare(self) -> None:
        """Makes what will only be made later, so that it can be restored."""

    def complete(self) -> None:
        """Makes what is registered and has gone since, so that it can be restored."""

    def forget(self) -> None:
        """Takes back what :meth:`prepare` and :meth:`complete` made, where nothing was restored."""


def put(holder: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    """Sets a value. A tensor keeps its memory: others may hold it."""
    now = holder.get(key)
    if isinstance(now, torch.Tensor) and isinstance(value, torch.Tensor) and now.shape == value.shape:
        with torch.no_grad():
            now.copy_(value)
    else:
        holder[key] = value


def merge(into: MutableMapping[Any, Any], tree: Mapping[Any, Any]) -> None:
    """Puts a document into a mapping; mappings within it are kept."""
    for key, value in tree.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            put(into, key, value)


def keys_of(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    """The keys of a mapping; under each what is in the mapping there, else None."""
    return {key: keys_of(value) if isinstance(value, dict) else None for key, value in mapping.items()}


def drop_later(into: MutableMapping[Any, Any], tree: Mapping[Any, Any], first: Mapping[Any, Any]) -> None:
    """Takes away what has come since ``first``, the keys at the registration, and is in no document: it is of a later step than what is restored.
    What was there at the registration stays, as what a newer program has beside the state of an older one."""
    for key in list(into):
        said, known = tree.get(key), first.get(key)
        if key not in tree and key not in first:
            del into[key]
        elif isinstance(into[key], dict) and (isinstance(said, dict) or isinstance(known, dict)):
            drop_later(into[key], said if isinstance(said, dict) else {}, known if isinstance(known, dict) else {})
