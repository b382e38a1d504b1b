"""Several threads use a session and a reader, with a GIL and without."""

import contextlib
import gc
import sys
import sysconfig
import threading
import weakref
from concurrent import futures

import numpy as np
import pytest

import ckpt
from ckpt.policy import Policy
from ckpt.saves import Saves

THREADS, ROUNDS, SAVES = 8, 40, 12
WAIT = 60


@pytest.fixture(autouse=True)
def eager():
    """With a GIL, threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work):
    """Each thread is given its number, and all begin at once. What one of them fails with is raised."""
    start = threading.Barrier(THREADS, timeout=WAIT)

    def run(number):
        start.wait()
        work(number)

    with futures.ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(run, n) for n in range(THREADS)]:
            done.result(WAIT)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_the_package_leaves_the_gil_off():
    assert not sys._is_gil_enabled()


# ---- a reader


@pytest.fixture
def saved(daemon):
    with daemon.session() as s:
        for i in range(THREADS):
            s.register(f"t{i}", np.full((64, 64), float(i)))
        s.register_sized_blob("words", 64)
        s.join()
        s.set_blob("words", b"said once")
        snap = s.begin(1)
        snap.fence()
        snap.wait()
    return daemon


def test_each_thread_reads_what_it_asks_for(saved):
    with ckpt.Reader(saved.store) as r:
        def read(number):
            for _ in range(ROUNDS):
                array = np.zeros((64, 64))
                r.read_into({f"t{number}": array})
                assert (array == number).all()
                assert r.blob("words") == b"said once"

        together(read)


def test_each_thread_gets_the_sentence_of_its_own_failure(saved):
    with ckpt.Reader(saved.store) as r, saved.session() as s:
        s.register("x", np.zeros(4))
        s.join()

        def fail(number):
            for _ in range(ROUNDS):
                with pytest.raises(ckpt.Error, match=f"none-{number}"):
                    r.blob(f"none-{number}")
                with pytest.raises(ckpt.Error, match=f"none-{number}"):
                    s.set_blob(f"none-{number}", b"")

        together(fail)


def test_several_threads_close_the_same(saved):
    for _ in range(ROUNDS):
        reader = ckpt.Reader(saved.store)
        together(lambda _, reader=reader: reader.close())
    s = saved.session()
    s.register("x", np.zeros(4))
    s.join()
    snap = s.begin(2)
    snap.fence()
    together(lambda _: snap.close())
    together(lambda _: s.close())


# ---- a session


def test_threads_look_while_one_trains(daemon):
    """Each save has the state of its begin, although others beat, poll and wait meanwhile, and the tensor moves with each step."""
    over, begun = threading.Event(), [None]

    def look(s):
        while not over.is_set():
            s.beat(1)
            assert s.world == 1 and s.epoch == 1 and not s.should_stop
            assert s.restore_progress[0] >= 0
            if snap := begun[0]:
                with contextlib.suppress(ckpt.Superseded):
                    assert snap.poll() >= ckpt.PENDING

    with daemon.session() as s, futures.ThreadPoolExecutor(THREADS + 1) as pool:
        x = np.zeros(4096)
        s.register("x", x)
        s.join()
        looking = [pool.submit(look, s) for _ in range(THREADS)]
        try:
            for step in range(1, SAVES):
                x[:] = step
                s.wait_slot()
                begun[0] = snap = s.begin(step)
                pool.submit(snap.fence).result(WAIT)
                x = np.zeros(4096)
                s.rebind("x", x)
                snap.wait(ckpt.DURABLE, WAIT)
                with ckpt.Reader(daemon.store, "job", step) as r:
                    array = np.zeros(4096)
                    r.read_into({"x": array})
                    assert (array == step).all()
        finally:
            over.set()
        for done in looking:
            done.result(WAIT)


def test_a_late_fence_leaves_what_a_later_save_reads(daemon):
    """What was rebound behind the second begin belongs to the second save: the fence of the first one does not let it go."""
    arrays = [np.full(1024, float(i)) for i in range(3)]
    held = [weakref.ref(a) for a in arrays]

    def lives():
        gc.collect()
        return [h() is not None for h in held]

    with daemon.session() as s:
        s.register("x", arrays.pop(0))
        s.join()
        first = s.begin(1)
        s.rebind("x", arrays.pop(0))
        second = s.begin(2)
        s.rebind("x", arrays.pop(0))
        assert lives() == [True, True, True]
        with contextlib.suppress(ckpt.Superseded):
            first.fence()
        assert lives() == [False, True, True]
        second.fence()
        assert lives() == [False, False, True]
    assert lives() == [False, False, False]


def test_all_threads_that_call_a_fence_wait_for_it(daemon):
    """The one that comes second may not change the state before the first one may."""
    events = []

    class Slow:
        step = 1

        def fence(self, stream):
            other.start()
            other.join(0.5)  # as long as the other one would need many times over
            events.append("captured")

    with daemon.session() as s:
        saves = Saves(s, Policy(), False)
        saves._snapshot = Slow()

        def step():
            saves.fence()
            events.append("changed")

        other = threading.Thread(target=step)
        saves.fence()
        other.join(WAIT)
    assert events == ["captured", "changed"]
