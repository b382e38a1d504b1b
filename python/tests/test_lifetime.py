"""What lives how long while a save is under way: arrays, snapshots, sessions, the interpreter."""

import gc
import subprocess
import sys
import time
import warnings
import weakref

import numpy as np
import pytest
from conftest import Daemon

import ckpt
import ckpt.numpy
from ckpt import CAPTURED


@pytest.fixture
def slow(tmp_path):
    """A daemon that takes a second for the checkpoints of these tests."""
    d = Daemon(tmp_path, "--write-bandwidth", "128K")
    yield d
    d.stop()


COUNT = 32 << 10


def begun(s, fill):
    """A save of an array that nobody else holds."""
    array = np.full(COUNT, fill)
    s.register("x", array)
    s.join()
    snap = s.begin(1)
    snap.fence()
    return snap, weakref.ref(array)


def reused():
    """Gives memory that was freed to somebody else."""
    gc.collect()
    return [np.full(COUNT, -1.0) for _ in range(8)]


def test_a_save_goes_on_when_its_snapshot_is_collected(slow):
    with slow.session() as s:
        snap, array = begun(s, 3.0)
        assert snap.poll() < ckpt.DURABLE, "it was durable before the test began"
        del snap
        others = reused()
        assert array() is not None
    with ckpt.Reader(slow.store) as r:
        assert (ckpt.numpy.read(r)["x"] == 3).all()
    assert len(others) == 8


def test_a_session_that_is_collected_waits_for_its_save(slow):
    s = slow.session()
    snap, array = begun(s, 4.0)
    assert snap.poll() < ckpt.DURABLE, "it was durable before the test began"
    with pytest.warns(ResourceWarning, match="a Session was not closed"):
        del s, snap
        reused()
    assert array() is None
    with ckpt.Reader(slow.store) as r:
        assert (ckpt.numpy.read(r)["x"] == 4).all()


def test_a_session_in_a_cycle_is_collected_too(daemon):
    """Its array goes after it."""
    s = daemon.session()
    s.itself = s
    snap, array = begun(s, 5.0)
    snap.wait(CAPTURED, 60)
    with pytest.warns(ResourceWarning, match="a Session was not closed"):
        del s, snap
        reused()
    gc.collect()  # the warning had it once more
    assert array() is None


def test_a_warning_that_is_an_error_does_not_end_the_wait(slow, monkeypatch):
    s, said = slow.session(), []
    snap, _ = begun(s, 7.0)
    assert snap.poll() < ckpt.DURABLE, "it was durable before the test began"
    monkeypatch.setattr(sys, "unraisablehook", lambda what: said.append(what.exc_type))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del s, snap
        gc.collect()
    assert said == [ResourceWarning]
    with ckpt.Reader(slow.store) as r:
        assert (ckpt.numpy.read(r)["x"] == 7).all()


def test_arrays_go_when_the_session_is_closed(daemon):
    s = daemon.session()
    snap, array = begun(s, 6.0)
    s.close()
    del snap
    gc.collect()
    assert array() is None


# So large that the interpreter takes its arrays apart before all of them are copied.
EXIT = """
import sys, numpy, ckpt
s = ckpt.Session("exit", sys.argv[1], world=1, timeout=60)
s.register("x", numpy.ones(48 << 20))
s.join()
snap = s.begin(1)
if sys.argv[2] == "a fence":
    snap.fence()
if sys.argv[2] == "abandon":
    s.abandon()
if sys.argv[2] == "an exception":
    raise RuntimeError("the training failed")
"""


@pytest.mark.parametrize("how, code", [("no fence", 0), ("a fence", 0), ("abandon", 0), ("an exception", 1)])
def test_an_interpreter_ends_as_it_wants_to_during_a_save(daemon, how, code):
    done = subprocess.run([sys.executable, "-c", EXIT, daemon.socket, how], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert "Exception ignored" not in done.stderr and (code == 0 or "the training failed" in done.stderr), done.stderr
    ends = time.monotonic() + 60
    while "has died" not in (said := (daemon.top / "ckptd.log").read_text()) and time.monotonic() < ends:
        time.sleep(0.01)
    assert "has died" in said, said
