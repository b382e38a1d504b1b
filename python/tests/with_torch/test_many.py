"""A Checkpointer of as many tensors as large models with many experts have."""

import time

import torch

import ckpt.torch

COUNT, LIMIT = 100_000, 300


def test_a_hundred_thousand_tensors(service):
    """Saved where they stand, restored, moved, and restored to where they are then."""
    began, tensors = time.monotonic(), {str(i): torch.tensor([float(i), 1.0]) for i in range(COUNT)}
    with ckpt.torch.Checkpointer({"experts": tensors}, job="many", socket=service.socket, timeout=100, memory_every=1, strict_saves=True) as ck:
        assert ck.restore() is None
        assert ck.begin(1)
        ck.fence()
        for name in tensors:
            tensors[name] = torch.zeros(2)
        assert ck.restore().step == 1
        assert all(t[0] == i and t[1] == 1 for i, t in enumerate(tensors.values()))
        ck.save(2)
    assert time.monotonic() - began < LIMIT
