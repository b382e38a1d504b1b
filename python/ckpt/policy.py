"""Which steps are saved, and where to."""

from __future__ import annotations

from dataclasses import dataclass

from .session import MEMORY, STORAGE


@dataclass(frozen=True)
class Policy:
    """``memory_every`` and ``storage_every`` count steps; 0: never. The step decides, so that all ranks decide alike. ``auto``: the daemon says what is due
    (:meth:`ckpt.Session.due`); the numbers count where its interval is not automatic."""

    memory_every: int = 0
    storage_every: int = 0
    auto: bool = False

    def __post_init__(self) -> None:
        for name in ("memory_every", "storage_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: a number of steps is wanted, or 0 for never")

    @property
    def by_step(self) -> bool:
        return bool(self.memory_every or self.storage_every)

    def target(self, step: int, storage: bool, first: int) -> int | None:
        """MEMORY, STORAGE or None. ``storage``: there is a store; ``first``: the step at which training began, which needs no save."""
        if step <= first:
            return None
        if self.storage_every and step % self.storage_every == 0:
            return STORAGE if storage else MEMORY
        return MEMORY if self.memory_every and step % self.memory_every == 0 else None
