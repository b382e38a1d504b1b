"""The state of random numbers of this rank: PyTorch's on the host and on its GPU, NumPy's, and that of random."""

from __future__ import annotations

import array
import random
import sys
from typing import Any

import torch

_cuda: Any = torch.cuda


def _bytes(t: torch.Tensor) -> bytes:
    data: bytes = t.numpy().tobytes()
    return data


def _tensor(data: Any) -> torch.Tensor:
    if not isinstance(data, bytes):
        raise ValueError("no bytes")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def get() -> dict[str, Any]:
    """What there is, as a document."""
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {"torch": _bytes(torch.get_rng_state()), "python": [version, array.array("I", words).tobytes(), gauss]}
    if _cuda.is_available() and _cuda.is_initialized():
        state["cuda"] = _bytes(_cuda.get_rng_state())
    if "numpy" in sys.modules:
        import numpy

        kind, key, at, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [str(kind), numpy.asarray(key).astype("<u4").tobytes(), int(at), int(has_gauss), float(cached)]
    return state


def put_back(state: dict[str, Any]) -> None:
    """Restores what is in a document. ValueError: it is none of :func:`get`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(array.array("I", words)), gauss))
    torch.set_rng_state(_tensor(state["torch"]))
    if "cuda" in state and _cuda.is_available():
        _cuda.set_rng_state(_tensor(state["cuda"]))
    if "numpy" in state:
        import numpy

        kind, key, at, has_gauss, cached = state["numpy"]
        if kind != "MT19937":
            raise ValueError(f"numpy's generator is {kind!r}")
        numpy.random.set_state((kind, numpy.frombuffer(key, "<u4"), at, has_gauss, cached))
