"""A training without collectives in a world that changes. Each rank has some of the rows of one tensor, and all have the other one.

usage: elastic.py STEPS"""

import sys

import torch

import ckpt
import ckpt.torch

ROWS = 12


def rows(session):
    return ROWS * session.rank // session.world, ROWS * (session.rank + 1) // session.world


def at(step, first, last):
    return torch.arange(ROWS * 3.0).reshape(ROWS, 3)[first:last] + 1000 * step


def place(name, _):
    return ckpt.torch.Part((ROWS, 3), (rows(ck.session)[0], 0)) if name == "x.rows" else None


def cut():
    first, last = rows(ck.session)
    state.update(rows=at(0, first, last), all=torch.zeros(2))


def meet():
    """All ranks that are left, whichever they are now."""
    while True:
        try:
            found = ck.restore()
            break
        except ckpt.StaleEpoch:
            continue
        except ckpt.WorldChanged as e:
            print("world:", e.strerror, flush=True)
            cut()
    step = found.step if found else 0
    assert torch.equal(state["rows"], at(step, *rows(ck.session))) and state["all"].tolist() == [step, step], (step, state)
    print(f"rank {ck.session.rank} of {ck.session.world} goes on at step {step}", flush=True)
    return step


state = {}
ck = ckpt.torch.Checkpointer({"x": state}, place=place, strict_saves=True, rng=False, timeout=100)
cut()
now, last = meet(), int(sys.argv[1])
while now < last:
    try:
        ck.begin(now)
        with ck.update():
            state["rows"] += 1000
            state["all"] += 1
        ck.save(now + 1)
        now += 1
    except ckpt.StaleEpoch:
        now = meet()
ck.close()
