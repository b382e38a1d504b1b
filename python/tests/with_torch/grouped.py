"""A training with collectives in a world that changes: a rank ends when another one is lost, and is started again, perhaps at another place. Each has some
of the rows of one tensor.

usage: grouped.py STEPS"""

import sys

import torch
import torch.distributed as dist

import ckpt.torch

ROWS = 12


def train(steps):
    rank, world = dist.get_rank(), dist.get_world_size()
    first, last = ROWS * rank // world, ROWS * (rank + 1) // world
    state = {"rows": torch.zeros(last - first)}
    with ckpt.torch.Checkpointer({"x": state}, place=lambda *_: ckpt.torch.Part((ROWS,), (first,)), memory_every=1, rng=False, timeout=100) as ck:
        found = ck.restore()
        step = found.step if found else 0
        print(f"rank {rank} of {world} goes on at step {step}", flush=True)
        for now in range(step, steps):
            ck.session.wait_slot()  # else a daemon that is slow leaves saves out
            ck.begin(now)
            here = torch.ones(1)
            dist.all_reduce(here)
            with ck.update():
                state["rows"] += here / world
        ck.save(steps)
    assert state["rows"].tolist() == [steps] * (last - first), state


with ckpt.torch.init_process_group("gloo"):
    train(int(sys.argv[1]))
