"""What one save that fails, or is interrupted, does to the ones behind it."""

import errno

import pytest
import torch
from test_checkpointer import begun, checkpointer  # noqa: F401 - a fixture

import ckpt


class Failed:
    """In place of a save whose failure is only known later."""
    step = 1

    def poll(self):
        raise ckpt.Error(errno.EIO, "the disk is gone")


def test_a_failure_is_raised_once_and_saves_go_on(checkpointer):
    ck = checkpointer({"x": {"t": torch.zeros(3)}}, strict_saves=True, memory_every=1)
    ck.restore()
    assert begun(ck, [1]) == [1]
    ck._pending[:] = [Failed()]
    with pytest.raises(ckpt.Error, match="the disk is gone"):
        ck.begin(2)
    assert begun(ck, [3]) == [3]


def fails_once(snapshot, monkeypatch, e):
    """Its fence."""
    real = snapshot.fence

    def fence(stream):
        monkeypatch.setattr(snapshot, "fence", real)
        raise e
    monkeypatch.setattr(snapshot, "fence", fence)


def test_the_last_save_is_made_though_an_earlier_one_failed(checkpointer, monkeypatch, caplog):
    state = {"x": {"t": torch.zeros(3)}}
    ck = checkpointer(state, storage_every=1)
    ck.restore()
    assert ck.begin(1)
    ck._snapshot.fence()
    fails_once(ck._snapshot, monkeypatch, ckpt.Error(errno.EIO, "the disk is gone"))
    state["x"]["t"].fill_(2)
    ck.save(2)
    assert (checkpointer.read()["x.t"] == 2).all() and "step 1 is not saved: the disk is gone" in caplog.text


def test_a_fence_that_is_interrupted_is_waited_for_by_the_next_one(checkpointer, monkeypatch):
    state = {"x": {"t": torch.zeros(3)}}
    ck = checkpointer(state, strict_saves=True, memory_every=1)
    ck.restore()
    assert ck.begin(1)
    fails_once(ck._snapshot, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ck.fence()
    ck.fence()
    assert begun(ck, [2, 3]) == [2, 3]


def test_a_loop_without_a_fence_is_warned(checkpointer, caplog):
    """None of its saves is completed."""
    ck = checkpointer({"x": {"t": torch.zeros(3)}}, memory_every=1)
    ck.restore()
    assert [ck.begin(step) for step in (1, 2, 3)] == [True, False, False]
    assert [r.levelname for r in caplog.records if "the save of step 1 has had no fence yet: call fence()" in r.message] == ["WARNING"]
    ck.fence()
    assert begun(ck, [4]) == [4]
