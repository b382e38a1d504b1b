"""How far a restore is: what the session says, and the bar on a terminal."""

import io
import threading

import numpy as np

from ckpt.progress import bar, shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Played:
    """A session whose restore is as far as the test says. ``seen``: it was asked again."""

    def __init__(self, rank=0):
        self.rank, self.values, self.seen = rank, [(0, 0), (1 << 30, 4 << 30), (3 << 30, 4 << 30)], threading.Event()

    @property
    def restore_progress(self):
        if len(self.values) > 1:
            return self.values.pop(0)
        self.seen.set()
        return self.values[0]


def test_a_terminal_shows_it_until_the_end():
    session, out = Played(), Terminal()
    with shown(session, out, after=0, every=0.001):
        assert session.seen.wait(60)
    lines = out.getvalue().split("\r")
    assert lines[1].strip() == "restoring: looks for a checkpoint"
    assert lines[2].startswith("restoring [#######.......................] 1.0 of 4.0 GiB, ") and "] 3.0 of 4.0 GiB" in lines[3]
    assert set(lines[-2]) == {" "} and lines[-1] == ""  # the line is gone


def test_nothing_is_shown_elsewhere():
    """Not in a file, not by another rank, and not of a restore that is quick."""
    for session, out, after in ((Played(), io.StringIO(), 0), (Played(rank=1), Terminal(), 0), (Played(), Terminal(), 60)):
        with shown(session, out, after=after, every=0.001):
            pass
        assert out.getvalue() == ""


def test_the_bar():
    assert bar(0, 2 << 30, 1.0) == f"restoring [{'.' * 30}] 0.0 of 2.0 GiB"
    assert bar(1 << 30, 2 << 30, 7.0) == f"restoring [{'#' * 15}{'.' * 15}] 1.0 of 2.0 GiB, 7 s left"
    assert bar(2 << 30, 2 << 30, 7.0) == f"restoring [{'#' * 30}] 2.0 of 2.0 GiB"


def test_what_the_session_says(daemon):
    state = np.arange(1 << 20, dtype=np.float32)
    for restores in (False, True):
        with daemon.session() as s:
            s.register("w", state)
            s.join()
            assert s.restore_progress == (0, 0)
            if restores:
                r = s.restore()
                assert s.restore_progress == (r.bytes, r.bytes) and r.bytes == state.nbytes
            else:
                s.begin(1).fence()
