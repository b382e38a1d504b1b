"""What the seams of trainers share: a loop draws the data of a step before it tells anybody of the step, so random numbers are put back then."""

from __future__ import annotations

from typing import Any

from ..torch import generators
from ..torch.checkpointer import Resumed


class RandomNumbers:
    """The random numbers of the step that a restore found, until that step begins."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] | None = None

    def restored(self, found: Resumed | None) -> None:
        """Called after a restore: keeps what it brought, unless the world has changed and each rank keeps its own."""
        self._kept = generators.get() if found is not None and "random numbers" not in found.left else None

    def put_back(self) -> None:
        """Called when the first step after a restore has its data. Later calls do nothing."""
        kept, self._kept = self._kept, None
        if kept is not None:
            generators.put_back(kept)
