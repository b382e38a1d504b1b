"""Fault-tolerant asynchronous checkpoints of sharded training state.

A rank of a job saves through a :class:`Session`; anybody reads a store through a :class:`Reader`. ``ckpt.numpy.load`` reads it into arrays."""

from .errors import Busy, Damaged, Error, NoCheckpoint, ReplicasDiffer, StaleEpoch, Superseded, Timeout, WorldChanged
from .memory import Memory, memory_of
from .reader import Checkpoint, Reader, Tensor, checkpoints
from .piece import Piece
from .session import (CAPTURED, DURABLE, LATEST, LATEST_HEALTHY, MEMORY, PENDING, REPLICATED, STORAGE, VERIFIED, Restored, Session, Snapshot,
                      View, version)
from .tree import TreeError, codec

__version__ = version()
__all__ = [
    "CAPTURED", "DURABLE", "LATEST", "LATEST_HEALTHY", "MEMORY", "PENDING", "REPLICATED", "STORAGE", "VERIFIED",
    "Busy", "Checkpoint", "Damaged", "Error", "Memory", "NoCheckpoint", "Piece", "Reader", "ReplicasDiffer", "Restored", "Session", "Snapshot",
    "StaleEpoch", "Superseded", "Tensor", "Timeout", "TreeError", "View", "WorldChanged", "checkpoints", "codec", "memory_of", "version",
]
