"""A state of which something becomes another kind of value between registration and a save."""

import logging

import pytest
import torch
from test_checkpointer import checkpointer, made, step_of  # noqa: F401 - a fixture
from torch import nn

import ckpt.torch


@pytest.mark.parametrize("registered, now", [(3, torch.tensor(7.0)), (3.0, torch.tensor(7, dtype=torch.int32)), (3, 7.0), (3.5, 7),
                                             (torch.tensor(3.0), 7), (torch.tensor(3), 7.0)], ids=repr)
def test_a_number_that_becomes_a_tensor_is_saved_and_so_is_the_reverse(checkpointer, registered, now):
    state = made()
    step_of(state)
    of = state["optim"].state[state["model"][0].weight]
    of["count"] = registered
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    of["count"] = now
    ck.save(1)
    assert checkpointer.read(["optim.state.0.weight.count"])["optim.state.0.weight.count"] == 7
    of["count"] = type(now)(0) if type(now) in (int, float) else torch.zeros_like(now)
    ck.restore()
    assert type(of["count"]) is type(now) and of["count"] == 7


@pytest.mark.parametrize("registered, now", [(3, torch.tensor(1.5)), (3, 1.5), (3, float("nan")), (3, torch.zeros(2)), (torch.zeros(2), 3)], ids=repr)
def test_a_number_that_has_no_place_is_named_once_and_training_goes_on(checkpointer, caplog, registered, now):
    state = made()
    step_of(state)
    of = state["optim"].state[state["model"][0].weight]
    of["count"] = registered
    ck = checkpointer(state, memory_every=1)
    ck.restore()
    of["count"] = now
    with caplog.at_level(logging.WARNING, "ckpt"):
        assert [ck.begin(step) for step in (1, 2)] == [False, False]
    assert len(caplog.records) == 1 and "optim.state.0.weight.count is " in caplog.text and "which has no place in what is registered" in caplog.text
    of["count"] = registered
    assert ck.begin(3)


def test_a_restore_gives_a_number_back_as_what_it_was(checkpointer):
    state = made()
    step_of(state)
    of = state["optim"].state[state["model"][0].weight]
    of["ratio"] = 1.5
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    ck.save(1)
    for now in (2, torch.tensor(2)):
        of["ratio"] = now
        ck.restore()
        assert of["ratio"] == 1.5


def test_a_buffer_of_another_shape_is_named(checkpointer):
    state = {"model": nn.BatchNorm1d(2)}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    ck.save(1)
    state["model"].running_mean = torch.zeros(3)
    for call in (lambda: ck.save(2), ck.restore):
        with pytest.raises(ckpt.torch.Unsaveable, match=r"model\.running_mean is float32 \(3,\) now"):
            call()
