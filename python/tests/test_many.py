"""As many tensors as large models with many experts have."""

import time

import numpy as np

import ckpt

COUNT, LIMIT = 100_000, 300


def test_a_hundred_thousand_tensors(daemon):
    """Registered, saved, restored, moved and read. The limit is for a slow machine: what takes time per tensor squared would not keep it."""
    began, first, second = time.monotonic(), np.arange(COUNT * 4.0).reshape(COUNT, 4), np.zeros((COUNT, 4))
    names, want = [f"layers.{i}.weight" for i in range(COUNT)], first.copy()
    with daemon.session() as s:
        for name, row in zip(names, first):
            s.register(name, row)
        s.join()
        snap = s.begin(1)
        snap.fence()
        snap.wait()
        first[:] = 0
        s.join()
        assert s.restore().bytes >= want.nbytes and (first == want).all()
        for name, row in zip(names, second):
            s.rebind(name, row)
        s.restore()
        assert (second == want).all()
    with ckpt.Reader(daemon.store) as r:
        assert len(r) == COUNT
        r.read_into(dict(zip(names, first[::-1])))
    assert (first[::-1] == want).all()
    assert time.monotonic() - began < LIMIT
