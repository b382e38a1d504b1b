"""Errors that need more than one rank, or a store that is slow: each is raised by the library as its class."""

import errno
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import Daemon

import ckpt
from ckpt import CAPTURED, DURABLE, MEMORY, STORAGE


def together(*calls):
    """Each on a thread of its own, as ranks that wait for each other; what they give or raise."""
    answers = [None] * len(calls)

    def one(i, call):
        try:
            answers[i] = call()
        except ckpt.Error as e:
            answers[i] = e
    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(calls)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return answers


@pytest.fixture
def ranks(daemon):
    """Makes two ranks in this process, which have joined."""
    made = []

    def make(arrays, **options):
        for rank, array in enumerate(arrays):
            made.append(daemon.session(rank=rank, world=2, local_world=2, **options))
            made[-1].register("weights", array, replica="all")
        assert [getattr(view, "world", view) for view in together(*(s.join for s in made))] == [2, 2]
        return made
    yield make
    together(*(s.close for s in made))


def test_replicas_that_differ(ranks):
    sessions = ranks([np.ones(1000), np.where(np.arange(1000) == 7, 2.0, 1.0)], vote=True)
    snaps = [s.begin(5, MEMORY) for s in sessions]
    for snap in snaps:
        snap.fence()
    answers = together(*(lambda snap=snap: snap.wait(CAPTURED, 60) for snap in snaps))
    assert [type(a) for a in answers] == [ckpt.ReplicasDiffer] * 2 and answers[0].errno == errno.EUCLEAN
    assert all("weights" in a.strerror for a in answers), answers


def test_no_slot_is_free_while_another_rank_is_behind(ranks):
    sessions = ranks([np.ones(1000), np.ones(1000)], slots=3)
    ahead = []
    with pytest.raises(ckpt.Busy) as e:
        for step in range(1, 9):
            ahead.append(sessions[0].begin(step, MEMORY))
            ahead[-1].fence()
    assert e.value.errno == errno.EBUSY and len(ahead) == 3
    behind = []
    for step in (1, 2, 3):
        behind.append(sessions[1].begin(step, MEMORY))
        behind[-1].fence()
    for snap in ahead + behind:
        snap.wait(CAPTURED, 60)
    sessions[0].wait_slot(60)
    assert sessions[0].begin(9, MEMORY).step == 9


@pytest.fixture
def slow(tmp_path):
    """A daemon that writes 64 KiB per second."""
    d = Daemon(tmp_path, "--write-bandwidth", "64K")
    yield d
    d.stop()


def test_a_later_save_takes_the_place_of_one_that_waits_for_the_store(slow):
    with slow.session(slots=3) as s:
        s.register("x", np.zeros(48 << 10))
        s.join()
        snaps = []
        for step in range(1, 5):
            s.wait_slot(60)
            snaps.append(s.begin(step, STORAGE))
            snaps[-1].fence()
            snaps[-1].wait(CAPTURED, 60)
        with pytest.raises(ckpt.Superseded) as e:
            snaps[1].wait(DURABLE, 60)
        assert e.value.errno == errno.ECANCELED
        snaps[3].wait(DURABLE, 60)


def test_a_save_without_a_fence_is_given_up(daemon):
    with daemon.session() as s:
        s.register("x", np.zeros(10))
        s.join()
        snap = s.begin(1, MEMORY)
        s.join()
        with pytest.raises(ckpt.Superseded):
            snap.wait(CAPTURED, 60)


ELASTIC = """
import sys, numpy, ckpt
s = ckpt.Session()
x = numpy.zeros(4)
def meet():
    while True:
        try:
            s.join()
            return s.restore().step
        except ckpt.StaleEpoch:
            continue
        except ckpt.NoCheckpoint:
            return 0
        except ckpt.WorldChanged as e:
            print("errno", e.errno, "is rank", s.rank, "of", s.world, flush=True)
            s.register("x", x, replica="all")
s.register("x", x, replica="all")
step = meet()
while step < 12:
    s.beat(step)
    try:
        assert (x == step).all(), (x, step)
        x += 1
        step += 1
        snap = s.begin(step)
        snap.fence()
        snap.wait()
    except ckpt.StaleEpoch:
        step = meet()
s.close()
print("ends at", x[0], flush=True)
"""


def test_the_world_changes(tmp_path):
    words = [f"{os.environ['CKPT_BUILD']}/ckpt", "run", "-n", "3", "--min-ranks", "2", "--max-restarts", "0", "--job", "elastic", "--store",
             tmp_path / "store", "--inject", "kill:rank=1@step=6", "--", sys.executable, "-c", ELASTIC]
    env = {k: v for k, v in os.environ.items() if not k.startswith("CKPT_")} | {"CKPT_CONFIG": "/dev/null"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and said.count("ends at 12.0") == 2, said
    assert all(f"errno {errno.EREMCHG} is rank {rank} of 2" in said for rank in (0, 1)), said
