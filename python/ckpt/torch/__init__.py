"""Checkpoints of training with PyTorch: :class:`Checkpointer` for a loop, :func:`init_process_group` for ranks that come and go."""

from . import codecs
from .checkpointer import Checkpointer, Resumed
from .held import Unsaveable
from .layout import Flat, Part
from .process_group import init_process_group
from .sources import PerRank

codecs.register()
__all__ = ["Checkpointer", "Flat", "Part", "PerRank", "Resumed", "Unsaveable", "init_process_group"]
