"""The documents of a save: one of the job, and one of each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..session import Session
from ..tree import TreeError, dumps, loads
from . import generators
from .module import Module
from .source import Source

JOB, RANK = "ckpt.tree", "ckpt.tree.rank"
FORMAT = 1


class Documents:
    """What is no tensor. If a job goes on with the same world, each rank takes its own document; else all take that of the job."""

    def __init__(self, session: Session, sources: Sequence[Source], types: Mapping[str, str], rng: bool, most: int) -> None:
        self.session, self.sources, self.types, self.rng = session, sources, dict(types), rng
        session.register_sized_blob(JOB, most, "job")
        session.register_sized_blob(RANK, most, "rank")

    def put(self) -> None:
        """Writes both, before a save. Raises :class:`TreeError`, or an error with ENOSPC."""
        world, trees = self.session.world, {s.prefix: s.tree() for s in self.sources}
        shared = {s.prefix: trees[s.prefix] for s in self.sources if not s.per_rank}
        aliases = {alias: name for s in self.sources for alias, name in s.aliases.items()}
        about = {"format": FORMAT, "world": world, "types": self.types}
        modules = [s.prefix for s in self.sources if isinstance(s, Module)]
        self.session.set_blob(JOB, dumps({**about, "parts": shared, "aliases": aliases, "modules": modules}, "state"))
        rng = generators.get() if self.rng else None
        self.session.set_blob(RANK, dumps({**about, "parts": trees, "rng": rng}, "state"))

    def _read(self, name: str) -> dict[str, Any]:
        document = loads(self.session.get_blob(name), name)
        if not isinstance(document, dict) or not isinstance(document.get("parts"), dict) or type(document.get("world")) is not int:
            raise TreeError(f"{name} is no document of a training state")
        if document.get("format") != FORMAT:
            raise TreeError(f"{name} is of format {document.get('format')!r:.40}: this version reads {FORMAT}")
        return document

    def put_back(self) -> tuple[str, ...]:
        """Gives each source its part, and random numbers theirs, last of all. Returns what of a rank was left as it is, since the world is another."""
        job, own = self._read(JOB), self.session.get_blob(RANK)
        same = job["world"] == self.session.world and bool(own)
        document = self._read(RANK) if same else job
        left = []
        for source in self.sources:
            if source.prefix not in document["parts"]:
                left.append(source.prefix)
                continue
            try:
                source.put_back(document["parts"][source.prefix])
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
                raise TreeError(f"{source.prefix} cannot take what was saved of it: {type(e).__name__}: {e}") from e
        if not self.rng:
            return tuple(left)
        if not same or not isinstance(document.get("rng"), dict):
            return (*left, "random numbers")
        try:
            left += generators.put_back(document["rng"])
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError, OverflowError) as e:
            raise TreeError(f"{RANK}: the random numbers are not those of this program: {e}") from e
        return tuple(left)
