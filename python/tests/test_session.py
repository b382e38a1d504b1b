import copy
import errno
import gc
import math
import os
import pickle
import select
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import ckpt
import ckpt.numpy
from ckpt import DURABLE, CAPTURED, LATEST, MEMORY


def saved(s, step, target=ckpt.STORAGE, level=DURABLE):
    snap = s.begin(step, target)
    snap.fence()
    snap.wait(level)
    assert snap.step == step
    assert snap.poll() >= level
    snap.close()


def test_a_state_comes_back(daemon):
    rng = np.random.default_rng(1)
    w, scale, flags = rng.random((64, 48), np.float32), np.array(2.5), bytearray(b"flags")
    want = w.copy()
    with daemon.session() as s:
        s.register("w", w)
        s.register("scale", scale)
        s.register_blob("flags", flags)
        s.register_sized_blob("tree", 1000, "rank")
        view = s.join(b"here")
        assert (view.epoch, view.rank, view.world, view.addresses) == (1, 0, 1, (b"here",))
        assert (s.epoch, s.rank, s.world, s.has_storage, s.should_stop) == (1, 0, 1, True, False)
        with pytest.raises(ckpt.NoCheckpoint) as e:
            s.restore()
        assert e.value.errno == errno.ENOENT and e.value.code == -errno.ENOENT and e.value.strerror
        s.set_blob("tree", b"{}")
        saved(s, 7)
        w[:], scale[()], flags[:] = 0, 0, b"xxxxx"
        s.set_blob("tree", b"other")
        s.mark(7, True)
        s.join()
        r = s.restore(LATEST)
        assert (r.step, r.epoch, r.source, r.why) == (7, 1, "memory", "") and r.bytes > w.nbytes
        assert np.array_equal(w, want) and scale == 2.5 and flags == b"flags" and s.get_blob("tree") == b"{}"


def test_pieces_and_steps_of_memory(daemon):
    a, b = np.arange(12, dtype=np.int32).reshape(3, 4).T, np.arange(40, dtype=np.int32)[10:]
    with daemon.session() as s:
        s.register("cols", ckpt.Piece(a[:2], offset=(0, 0)), ckpt.Piece(a[2:], offset=(2, 0)), shape=(4, 3))
        s.register("flat", ckpt.Piece(b[:7], start=0), ckpt.Piece(b[7:].copy(), start=7), shape=(5, 6))
        s.register("elsewhere", shape=(2, 0), dtype="BF16")
        s.join()
        saved(s, 1)
    with ckpt.Reader(daemon.store) as r:
        got = ckpt.numpy.read(r)
    assert np.array_equal(got["cols"], a) and np.array_equal(got["flat"], b.reshape(5, 6)) and got["elsewhere"].shape == (2, 0)


def test_an_array_moves(daemon):
    first, second = np.full(1000, 1.0), np.full(1000, 2.0)
    with daemon.session() as s:
        s.register("x", first)
        s.join()
        snap = s.begin(1)
        s.rebind("x", second)
        snap.fence()
        snap.wait()
        saved(s, 2, MEMORY, CAPTURED)
        first[:] = second[:] = 0
        s.join()
        s.restore(2)
        assert (second == 2).all() and (first == 0).all()
        s.rebind("x", first)
        s.join()
        s.restore(1)
        assert (first == 1).all()
        with pytest.raises(ckpt.Error, match="nothing is registered as \"y\""):
            s.rebind("y", first)


def test_errors_have_a_class_and_the_sentence(daemon):
    x = np.zeros(10)
    with daemon.session(slots=3) as s:
        s.register("x", x)
        with pytest.raises(ckpt.Error, match="the name \"x\" is taken") as e:
            s.register("x", x)
        assert isinstance(e.value, OSError) and e.value.errno == errno.EEXIST
        with pytest.raises(ckpt.Error, match="call ckpt_join"):
            s.begin(1)
        s.join()
        snap = s.begin(1, MEMORY)
        with pytest.raises(ckpt.Error, match="never becomes durable"):
            snap.wait(DURABLE)
        snap.fence()
        with pytest.raises(ckpt.Error) as e:
            s.begin(1, MEMORY)
        assert e.value.errno == errno.EALREADY
    with pytest.raises(ckpt.Error, match="session is NULL"):
        s.join()
    assert issubclass(ckpt.Timeout, TimeoutError)
    with pytest.raises(ckpt.Error, match="no daemon listens"):
        ckpt.Session("job", str(daemon.top / "nobody"), world=1, timeout=0.05)


def test_what_cannot_be_registered_is_refused_by_name(daemon):
    with daemon.session() as s:
        with pytest.raises(TypeError, match="tensor a: the memory is read-only"):
            s.register("a", np.frombuffer(b"12345678", np.int64))
        with pytest.raises(TypeError, match="big-endian"):
            s.register("a", np.zeros(3, ">f4"))
        with pytest.raises(TypeError, match="have no name here"):
            s.register("a", np.zeros(3, np.complex128))
        with pytest.raises(TypeError, match="blob b: the memory is read-only"):
            s.register_blob("b", b"bytes")
        with pytest.raises(TypeError, match="dtype F4"):
            s.register("a", shape=(1,), dtype="F4")
        with pytest.raises(ValueError, match=r"'a\\x00b' has a null character in it"):
            s.register("a\0b", np.zeros(3))
        s.join()


MISFITS = {"a box with a dimension more": (ckpt.Piece(np.zeros((2, 3, 2), "f4"), offset=(0, 0)), {}),
           "a box with a dimension less": (ckpt.Piece(np.zeros(3, "f4"), offset=(0,)), {}),
           "steps with a dimension less": (np.zeros(24, "f4")[::2], {}),
           "elements of another size": (ckpt.Piece(np.zeros((2, 3)), offset=(0, 0)), {"dtype": "F32"}),
           "a part as the whole": (np.zeros((3, 3), "f4"), {"dtype": "F32"})}


@pytest.mark.parametrize("what", MISFITS)
def test_a_piece_that_is_no_part_of_its_tensor_is_refused(daemon, what):
    """The library would read beyond what it is given, or save less than the piece."""
    piece, options = MISFITS[what]
    with daemon.session() as s:
        with pytest.raises(TypeError, match=r"tensor a is F(32|64) \(4, 3\): "):
            s.register("a", piece, shape=(4, 3), **options)
        s.join()


def test_bytes_may_be_the_elements_of_another_type(daemon):
    whole, flat = bytearray(b"12345678"), bytearray(b"abcdefgh")
    with daemon.session() as s:
        s.register("whole", whole, shape=(2,), dtype="F32")
        s.register("flat", ckpt.Piece(flat[:4], start=0), ckpt.Piece(flat[4:], start=1), shape=(2,), dtype="F32")
        s.join()
        saved(s, 1)
    with ckpt.Reader(daemon.store) as r:
        got = ckpt.numpy.read(r)
    assert (got["whole"].tobytes(), got["flat"].tobytes()) == (whole, flat)


def test_the_library_keeps_arrays_alive_and_lets_them_go(daemon):
    s = daemon.session()
    s.register("x", np.full(200000, 3.0))
    gc.collect()
    s.join()
    saved(s, 1)
    s.close()
    with ckpt.Reader(daemon.store) as r:
        assert (ckpt.numpy.read(r)["x"] == 3).all()


def test_a_handle_stays_in_its_process(daemon):
    with daemon.session() as s:
        s.register("x", np.zeros(3))
        s.join()
        snap = s.begin(1, MEMORY)
        for handle in (s, snap):
            for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="belongs to the process that made it"):
                    attempt(handle)
        snap.fence()


def test_an_open_session_is_told_of(daemon):
    s = daemon.session()
    with pytest.warns(ResourceWarning, match="a Session was not closed"):
        del s
        gc.collect()


def test_other_threads_run_during_a_call(daemon):
    """A join that waits for a rank that never comes. On a busy machine a thread may have no processor for as long as the first one lasts."""
    with daemon.session(world=2, local_world=2) as s:
        for timeout in (0.3, 3, 20):
            ran = threading.Event()
            thread = threading.Thread(target=ran.set)
            with pytest.raises(ckpt.Timeout) as e:
                thread.start()
                s.join(timeout=timeout)
            in_time = ran.is_set()
            assert e.value.errno == errno.ETIMEDOUT
            thread.join()
            if in_time:
                break
        assert in_time


OTHER = """
import sys, numpy, ckpt
s = ckpt.Session("job", sys.argv[1], rank=1, world=2, local_world=2, timeout=60)
s.register("x", numpy.zeros(3), replica="all")
s.join()
print("joined", flush=True)
sys.stdin.read()
"""


def test_a_lost_rank_shows_at_the_descriptor_and_in_the_next_call(daemon):
    with subprocess.Popen([sys.executable, "-c", OTHER, daemon.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        s = daemon.session(rank=0, world=2, local_world=2)
        s.register("x", np.zeros(3), replica="all")
        s.join()
        poll = select.poll()
        poll.register(s.epoch_fd(), select.POLLIN)
        assert other.stdout.readline() == b"joined\n" and not poll.poll(0)
        other.kill()
        assert poll.poll(30000)
        with pytest.raises(ckpt.StaleEpoch, match="call ckpt_join"):
            s.begin(1, MEMORY)
        s.close()


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_has_no_session(daemon):
    with daemon.session() as s:
        s.register("x", np.zeros(3))
        s.join()
        snap = s.begin(1, MEMORY)
        pid = os.fork()
        if not pid:
            try:
                s.join()
            except ckpt.Error as e:
                os._exit(0 if e.errno == errno.ECHILD else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        snap.fence()


def test_memory_that_was_rebound_is_kept_until_the_fence(daemon):
    with daemon.session() as s:
        first = np.zeros(1000)
        s.register("x", first)
        s.join()
        snap, gone = s.begin(1, MEMORY), weakref.ref(first)
        s.rebind("x", np.ones(1000))
        del first
        gc.collect()
        assert gone() is not None, "the save may still read it"
        snap.fence()
        gc.collect()
        assert gone() is None


FAILED = """
import sys, numpy, ckpt
s = ckpt.Session("failed", sys.argv[1], world=1, timeout=60)
s.register("x", numpy.zeros(3))
s.join()
if sys.argv[2] == "abandon":
    s.abandon()
else:
    raise RuntimeError("the training failed")
"""


@pytest.mark.parametrize("how", ["abandon", "an exception"])
def test_a_rank_that_failed_has_not_finished(daemon, how):
    done = subprocess.run([sys.executable, "-c", FAILED, daemon.socket, how], capture_output=True, text=True, check=False)
    assert done.returncode == (0 if how == "abandon" else 1), done.stderr
    ends = time.monotonic() + 60
    while "lost" not in (said := (daemon.top / "ckptd.log").read_text()) and "ended" not in said and time.monotonic() < ends:
        time.sleep(0.01)
    assert "job failed" in said and "has died" in said and "ended" not in said, said


def test_nobody_asks_for_a_fault_by_itself(daemon):
    with daemon.session() as s:
        assert s.fault() is None
        s.register("x", np.zeros(3))
        s.join()
        assert s.fault() is None


def test_a_collective_is_told_with_the_type_of_its_elements(daemon):
    with daemon.session() as s:
        s.register("x", np.zeros(3))
        s.join()
        s.collective_enter("all_reduce", 7, 64, dtype="BF16")
        told = daemon.job()["ranks"][0]["collective"]
        assert [told[key] for key in ("op", "number", "bytes", "dtype", "in")] == ["all_reduce", 7, 64, "BF16", True]
        s.collective_enter("all_reduce", 8, 64)
        assert daemon.job()["ranks"][0]["collective"]["dtype"] is None
        with pytest.raises(TypeError, match="is none of"):
            s.collective_enter("all_reduce", dtype="float")
        s.collective_leave()


def test_a_loss_goes_with_a_heartbeat(daemon):
    with daemon.session() as s:
        s.register("x", np.zeros(3))
        s.join()
        s.beat(1, "optimizer", loss=np.float32(2.5), grad_norm=1.0)
        s.beat(2, loss=math.nan)
        with pytest.raises(ValueError):
            s.beat(3, grad_norm=1.0)
        with pytest.raises(TypeError):
            s.beat(3, loss="much")


def joined(s, array):
    s.register("w", array)
    s.join()


def test_a_daemon_whose_interval_is_automatic_says_what_is_due(automatic):
    with automatic.session() as s:
        joined(s, np.ones(8, np.float32))
        assert [s.due(step) for step in (0, 3, 4, 8, 16)] == [None, None, ckpt.MEMORY, ckpt.MEMORY, ckpt.STORAGE]


def test_another_one_says_that_it_does_not(daemon):
    with daemon.session() as s:
        joined(s, np.ones(8, np.float32))
        with pytest.raises(ckpt.Error, match="interval is not auto") as e:
            s.due(4)
        assert e.value.errno == errno.EOPNOTSUPP


def test_a_snapshot_that_was_closed_is_refused(daemon):
    """So is one of a session that was."""
    s = daemon.session()
    s.register("x", np.zeros(100))
    s.join()
    first, second = (s.begin(step) for step in (1, 2))
    second.fence()
    for snap, close in ((first, first.close), (second, s.close)):
        close()
        for call in (snap.poll, snap.fence, snap.wait, lambda snap=snap: snap.fence(group="default")):
            with pytest.raises(ckpt.Error, match=f"step {snap.step}: this snapshot was closed, or its session was"):
                call()
        snap.close()


def test_a_begin_that_is_interrupted_leaves_nothing_behind(daemon, monkeypatch):
    """The signal of a keyboard comes when the call of the library returns."""
    with daemon.session() as s:
        s.register("x", np.zeros(100))
        s.register_sized_blob("b", 100)
        s.join()

        def interrupted(code):
            raise KeyboardInterrupt

        with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
            m.setattr(s, "_check", interrupted)
            s.begin(1)
        s.set_blob("b", b"more")
        saved(s, 2)


@pytest.mark.parametrize("view", [memoryview(np.arange(3.0)), memoryview(np.ones((2, 3), np.int16)), memoryview(b"abc"), bytearray(b"abc"), memoryview(b"")],
                         ids=["numbers", "two dimensions", "bytes", "bytearray", "nothing"])
def test_a_blob_takes_all_bytes_of_a_view(daemon, view):
    with daemon.session() as s:
        s.register_sized_blob("b", 100)
        s.set_blob("b", view)
        assert s.get_blob("b") == bytes(view)
