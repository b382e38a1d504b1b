"""What is registered of a source: the addresses, how they are checked before each save, and how they are given anew."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

import torch

from ..errors import Error
from ..session import Session
from .layout import Layout, Place, is_made, layouts_of, parts_of, types_of
from .optimizer import is_number
from .source import Entry, Source


_pointer: Any = torch.Tensor.data_ptr
_steps: Any = torch.Tensor.stride
_count: Any = torch.Tensor.numel  # with the steps it says the shape, in half the time
_local: Any = attrgetter("_local_tensor")


class Unsaveable(Error):
    """The state is no longer what was registered: the sentence names the tensor."""

    def __init__(self, sentence: str) -> None:
        super().__init__(22, sentence)


@dataclass(slots=True)
class _Held:
    """An entry as it was registered. ``buffer``: what is saved in its place, a copy."""

    entry: Entry
    layouts: list[Layout]
    buffer: torch.Tensor | None


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64 if type(value) is float else torch.int64)


def _fits(t: torch.Tensor, into: torch.Tensor) -> bool:
    """Whether a copy loses nothing. What has become another type fits as a single number, if it is the same number in both."""
    if t.dtype is into.dtype or t.dim():
        return t.dtype is into.dtype
    a, b = t.item(), t.to(into.dtype).item()
    return bool(a == b or (a != a and b != b))


def _fill(entry: Entry, buffer: torch.Tensor) -> None:
    """Copies what stands there now into what is saved in its place."""
    value: Any = entry.holder.get(entry.key)
    if not is_number(value) and not isinstance(value, torch.Tensor):
        raise _gone(entry.name)
    t = _number(value) if is_number(value) else value.detach()
    if t.shape != buffer.shape or hasattr(t, "device_mesh") or not _fits(t, buffer):
        raise _has_become(entry, buffer)
    buffer.copy_(t)


def _give_back(entry: Entry, buffer: torch.Tensor) -> None:
    """Puts what was restored into a copy where it belongs: as the type that stands there now, unless that would change the number."""
    value: Any = entry.holder.get(entry.key)
    if is_number(value):
        entry.holder[entry.key] = _as(type(value), buffer.item())
    elif isinstance(value, torch.Tensor) and _fits(buffer, value):
        value.copy_(buffer)
    elif isinstance(value, torch.Tensor):
        entry.holder[entry.key] = buffer.to(value.device, copy=True)


def _as(kind: type, number: Any) -> Any:
    with contextlib.suppress(ValueError, OverflowError):  # of infinity and NaN as an int
        if kind(number) == number:
            return kind(number)
    return number


def _said(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.") if isinstance(value, torch.Tensor) else f"the number {value}"


def _has_become(entry: Entry, registered: torch.Tensor) -> Unsaveable:
    return Unsaveable(f"{entry.name} is {_said(entry.value)} now, which has no place in what is registered: {_said(registered)}")


def _gone(name: str) -> Unsaveable:
    return Unsaveable(f"{name} is registered, and is no longer part of the state: put it back, or make a Checkpointer of the state as it is now")


def _same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


class Held:
    """The registered state of one source."""

    def __init__(self, source: Source, session: Session, place: Place | None, world: int) -> None:
        self.source, self.session, self.place, self.world = source, session, place, world
        self._held: dict[str, _Held] = {}
        for entry in source.entries():
            self._register(entry)
        source.registered = self._here = set(self._held)
        self._gone: list[str] = []  # what the state has no longer, and no document says so
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
        here = [h for name, h in self._held.items() if name in self._here]
        live = [h for h in here if h.buffer is None]
        links = [(h.entry.holder, h.entry.key, h.entry.value) for h in live] + self.source.links()
        self._holders, self._keys, self._expected = ([link[i] for link in links] for i in range(3))
        tensors: list[Any] = self._expected[:len(live)]
        self._cut = [t for t in tensors if hasattr(t, "_local_tensor")]  # of a DTensor the local tensor may be replaced
        self._locals = list(map(_local, self._cut))
        self._made = [t for t in tensors + self._locals if is_made(t) and not hasattr(t, "_local_tensor")]
        self._parts = self._parts_now()
        self._addressed = [t for t in tensors + self._locals if not is_made(t)] + self._parts
        self._places = self._places_now()
        self._watched = self.source.watched()
        holders = [*(h.entry.holder for h in self._held.values()), *self.source.holders()]
        self._keyed = list({id(holder): holder for holder in holders}.values())
        self._all_keys = list(map(list, self._keyed))
        self._get: Any = dict.get if all(isinstance(holder, dict) for holder in self._holders) else Mapping.get
        self._copies = [(h.entry, h.buffer) for h in here if h.buffer is not None]

    def _parts_now(self) -> list[torch.Tensor]:
        return [part for t in self._made for part in parts_of(t)]

    def _places_now(self) -> list[list[Any]]:
        """Where all stand, and how: what has ``data`` set, or is resized or transposed in place, is still the same object."""
        return [list(map(look, self._addressed)) for look in (_pointer, _steps, _count)]

    # ---- before a restore

    def aim(self) -> None:
        """A restore fills what the state holds now. What is asked for its state anew is given what was restored, wherever that stands."""
        if self.source.volatile():
            return
        self.source.complete()
        if not self._is_same():
            self._look_again()
        for entry, buffer in self._copies:
            if isinstance(value := entry.holder.get(entry.key), torch.Tensor) and value.shape != buffer.shape:
                raise _has_become(entry, buffer)

    # ---- before a save

    def _is_same(self) -> bool:
        now = self.source.watched()
        return (all(map(is_, map(self._get, self._holders, self._keys), self._expected)) and all(map(is_, map(_local, self._cut), self._locals))
                and _same(now, self._watched) and list(map(list, self._keyed)) == self._all_keys and _same(self._parts_now(), self._parts)
                and self._places_now() == self._places)

    def refresh(self) -> None:
        """Looks whether all is where it was, and gives what has moved its new address. Raises :class:`Unsaveable`."""
        if self.source.volatile() or self._gone or not self._is_same():
            self._look_again()
        if self._gone:
            raise _gone(self._gone[0])
        with torch.no_grad():
            for entry, buffer in self._copies:
                _fill(entry, buffer)

    def _look_again(self) -> None:
        found = {entry.name: entry for entry in self.source.entries()}
        for name, entry in found.items():
            held = self._held.get(name)
            if held is None:
                self._is_new(entry)
                continue
            if held.buffer is None and is_number(entry.value):
                self._becomes_a_copy(held, entry)
            elif held.buffer is None:
                self._move(held, entry, entry.value)
            held.entry = entry
        self._here = self._held.keys() & found.keys()
        self._gone = sorted(self._held.keys() - found.keys() - self.source.absent())
        self._watch()

    def _is_new(self, entry: Entry) -> None:
        """Optimizers put into the document what came late, and what has no room there is refused then."""
        if not hasattr(self.source, "optimizer"):
            raise Unsaveable(f"{entry.name} was not there when the state was registered: make it before the first restore()")

    def _becomes_a_copy(self, held: _Held, entry: Entry) -> None:
        """A number takes the place of a tensor."""
        was = held.layouts[0].local
        if len(held.layouts) > 1 or was.dim():
            raise _has_become(entry, was)
        buffer = torch.empty_like(was)
        self._move(held, entry, buffer)
        held.buffer = buffer

    def _move(self, held: _Held, entry: Entry, value: torch.Tensor) -> None:
        layouts = layouts_of(entry.name, value, self.place, self.world)
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
                _give_back(entry, buffer)
