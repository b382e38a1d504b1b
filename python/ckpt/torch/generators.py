"""The state of random numbers of this rank: PyTorch's on the host and on each GPU that it sees, NumPy's, and that of random."""

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
    if _cuda.is_initialized():
        state["cuda"] = {"current": int(_cuda.current_device()), "states": [_bytes(_cuda.get_rng_state(i)) for i in range(_cuda.device_count())]}
    if "numpy" in sys.modules:
        import numpy

        kind, key, at, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [str(kind), numpy.asarray(key).astype("<u4").tobytes(), int(at), int(has_gauss), float(cached)]
    return state


def _put_back_gpus(saved: Any) -> tuple[str, ...]:
    """What a rank drew on its own GPU goes to the one that it has now. Those beside it keep their numbers."""
    current, states = (saved["current"], saved["states"]) if isinstance(saved, dict) else (0, [saved])  # once only that of its own GPU was kept
    tensors, here = [_tensor(s) for s in states], int(_cuda.device_count()) if _cuda.is_available() else 0
    own = tensors[current]
    if here and isinstance(saved, dict):
        for i, t in enumerate(tensors[:here]):
            _cuda.set_rng_state(t, i)
    if here:
        _cuda.set_rng_state(own, int(_cuda.current_device()))
    return tuple(f"random numbers of cuda:{i}" for i in range(here, len(tensors)) if i != current or not here)


def put_back(state: dict[str, Any]) -> tuple[str, ...]:
    """Restores what is in a document. Returns what there is no GPU for. ValueError: it is none of :func:`get`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(array.array("I", words)), gauss))
    torch.set_rng_state(_tensor(state["torch"]))
    left = _put_back_gpus(state["cuda"]) if "cuda" in state else ()
    if "numpy" in state:
        import numpy

        kind, key, at, has_gauss, cached = state["numpy"]
        if kind != "MT19937":
            raise ValueError(f"numpy's generator is {kind!r}")
        numpy.random.set_state((kind, numpy.frombuffer(key, "<u4"), at, has_gauss, cached))
    return left
