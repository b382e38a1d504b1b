"""The states of NVRx as documents: trees of mappings, lists and tuples, in which tensors stand that are saved beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..torch.element import name_of
from ..tree import TreeError, codec


@dataclass(frozen=True)
class _Saved:
    """Stands in the document where a tensor was."""

    path: str
    dtype: str
    shape: tuple[int, ...]


def _saved(value: Any) -> _Saved:
    path, dtype, shape = value
    if not isinstance(path, str) or not isinstance(getattr(torch, str(dtype), None), torch.dtype) or not all(type(n) is int for n in shape):
        raise ValueError("no path, type and shape")
    return _Saved(path, dtype, tuple(shape))


codec(_Saved, "nvrx tensor", lambda t: [t.path, t.dtype, list(t.shape)], _saved)


def take(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The same tree with a :class:`_Saved` in the place of each tensor, which goes into ``tensors``."""
    if isinstance(value, Mapping):
        return {k: take(v, f"{path}.{k}" if path else str(k), tensors) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(take(v, f"{path}[{i}]", tensors) for i, v in enumerate(value))
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise TreeError(f"{path} is a {type(value).__qualname__}: a state of a rank has plain tensors")
    if path in tensors:
        raise TreeError(f"{path}: two tensors have this path")
    tensors[path] = value
    return _Saved(path, name_of(value.dtype), tuple(value.shape))


def give(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """The tree with empty tensors of the host, which also go into ``tensors``, to be filled."""
    if isinstance(value, dict):
        return {k: give(v, tensors) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(give(v, tensors) for v in value)
    if not isinstance(value, _Saved):
        return value
    return tensors.setdefault(value.path, torch.empty(value.shape, dtype=getattr(torch, value.dtype)))
