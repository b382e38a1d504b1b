"""What is registered of a source: the addresses, how they are checked before each save, and how they are given anew."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

import torch

from ..errors import Error
from ..session import Session
from .layout import Layout, Place, layouts_of, types_of
from .optimizer import is_number
from .source import Entry, Source


_get: Any = dict.get
_pointer: Any = torch.Tensor.data_ptr
_local: Any = attrgetter("_local_tensor")


class Unsaveable(Error):
    """The state is no longer what was registered: the sentence names the tensor."""

    def __init__(self, sentence: str) -> None:
        super().__init__(22, sentence)


@dataclass
class _Held:
    """An entry as it was registered. ``buffer``: what is saved in its place, a copy."""

    entry: Entry
    layouts: list[Layout]
    buffer: torch.Tensor | None


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64 if type(value) is float else torch.int64)


class Held:
    """The registered state of one source."""

    def __init__(self, source: Source, session: Session, place: Place | None, world: int) -> None:
        self.source, self.session, self.place, self.world = source, session, place, world
        self._held: dict[str, _Held] = {}
        for entry in source.entries():
            self._register(entry)
        source.registered = set(self._held)
        self._watch()

    def types(self) -> dict[str, str]:
        """The types of what is saved as another type."""
        return types_of(layout for held in self._held.values() for layout in held.layouts)

    # ---- registration

    def _register(self, entry: Entry) -> None:
        value, buffer = entry.value, None
        if is_number(value):
            buffer = _number(value)
        elif entry.copied and not hasattr(value, "device_mesh"):
            buffer = torch.empty_like(value.detach(), memory_format=torch.contiguous_format)
        layouts = layouts_of(entry.name, value if buffer is None else buffer, self.place, self.world)
        for layout in layouts:
            self.session.register(layout.name, *layout.pieces, shape=layout.shape, dtype=layout.dtype, group=self.source.prefix,
                                  replica=layout.replica)
        self._held[entry.name] = _Held(entry, layouts, buffer)

    def _watch(self) -> None:
        """Notes who holds what, so that a look is enough to see that nothing has moved."""
        live = [h for h in self._held.values() if h.buffer is None and h.entry.key in h.entry.holder]
        links = [(h.entry.holder, h.entry.key, h.entry.value) for h in live] + self.source.links()
        self._holders, self._keys, self._expected = ([link[i] for link in links] for i in range(3))
        tensors = self._expected[:len(live)]
        self._cut = [t for t in tensors if hasattr(t, "_local_tensor")]  # of a DTensor the local tensor may be replaced
        self._locals = list(map(_local, self._cut))
        self._addressed = [t for t in tensors + self._locals if type(t) in (torch.Tensor, torch.nn.Parameter)]
        self._addresses = list(map(_pointer, self._addressed))
        self._watched = self.source.watched()
        self._sized = list({id(h.entry.holder): h.entry.holder for h in self._held.values()}.values())
        self._sizes = list(map(len, self._sized))
        self._copies = [(h.entry, h.buffer) for h in self._held.values() if h.buffer is not None]

    # ---- before a restore

    def aim(self) -> None:
        """A restore fills what the state holds now. What is asked for its state anew is given what was restored, wherever that stands."""
        if self.source.volatile():
            return
        self.source.complete()
        if not self._is_same():
            self._look_again()

    # ---- before a save

    def _is_same(self) -> bool:
        now = self.source.watched()
        return (all(map(is_, map(_get, self._holders, self._keys), self._expected)) and all(map(is_, map(_local, self._cut), self._locals))
                and len(now) == len(self._watched) and all(map(is_, now, self._watched)) and list(map(len, self._sized)) == self._sizes
                and list(map(_pointer, self._addressed)) == self._addresses)

    def refresh(self) -> None:
        """Looks whether all is where it was, and gives what has moved its new address. Raises :class:`Unsaveable`."""
        if self.source.volatile() or not self._is_same():
            self._look_again()
        with torch.no_grad():
            for entry, buffer in self._copies:
                if entry.key in entry.holder:
                    buffer.copy_(_number(entry.value) if is_number(entry.value) else entry.value)

    def _look_again(self) -> None:
        for entry in self.source.entries():
            held = self._held.get(entry.name)
            if held is None:
                self._is_new(entry)
            elif held.buffer is None:
                self._move(held, entry)
            if held is not None:
                held.entry = entry
        self._watch()

    def _is_new(self, entry: Entry) -> None:
        """Optimizers put into the document what came late, and what has no room there is refused then."""
        if not hasattr(self.source, "optimizer"):
            raise Unsaveable(f"{entry.name} was not there when the state was registered: make it before the first restore()")

    def _move(self, held: _Held, entry: Entry) -> None:
        layouts = layouts_of(entry.name, entry.value, self.place, self.world)
        for old, new in zip(held.layouts, layouts):
            if (old.shape, old.dtype, len(old.pieces)) != (new.shape, new.dtype, len(new.pieces)):
                raise Unsaveable(f"{new.name} is {new.dtype} {new.shape} in {len(new.pieces)} pieces now; registered is {old.dtype} {old.shape} in "
                                 f"{len(old.pieces)}")
            for i, (was, now) in enumerate(zip(old.pieces, new.pieces)):
                a, b = was.array, now.array
                if (was.offset, was.start, a.shape, a.strides, a.device) != (now.offset, now.start, b.shape, b.strides, b.device):
                    raise Unsaveable(f"{new.name} has another part, step or device now than what is registered")
                if a.pointer != b.pointer:
                    self.session.rebind(new.name, now.array, i)
        held.layouts = layouts

    # ---- after a restore

    def restored(self) -> None:
        """Puts back what was restored into a copy."""
        with torch.no_grad():
            for entry, buffer in self._copies:
                if entry.key not in entry.holder:
                    continue
                if is_number(entry.value):
                    entry.holder[entry.key] = type(entry.value)(buffer.item())
                else:
                    entry.value.copy_(buffer)
