"""A state of which something becomes another kind of value, or goes away, between registration and a save."""

import collections
import logging

import pytest
import torch
from test_checkpointer import Loader, Quantised, checkpointer, made, step_of  # noqa: F401 - a fixture
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


def without_buffer(state):
    del state["model"][1].running_mean


def without_buffers_value(state):
    state["model"][1].running_mean = None


def without_parameter(state):
    state["model"][0].bias = None


def without_module(state):
    del state["model"][3]


def without_entry(state):
    del state["more"]["t"]


def without_entrys_value(state):
    state["more"]["t"] = None


def without_inner(state):
    del state["more"]["inner"]


def without_moment(state):
    state["optim"].state[state["model"][0].weight].pop("exp_avg")


def without_group(state):
    state["optim"].param_groups.pop()


def without_big_one(state):
    state["loader"].state.pop("big")


GONE = {without_buffer: "model.1.running_mean", without_buffers_value: "model.1.running_mean", without_parameter: "model.0.bias",
        without_module: "model.3.bias", without_entry: "more.t", without_entrys_value: "more.t", without_inner: "more.inner.u",
        without_moment: "optim.state.0.weight.exp_avg", without_group: "optim.state.3.bias.exp_avg", without_big_one: "loader.big"}


@pytest.mark.parametrize("take", GONE, ids=lambda f: f.__name__)
def test_what_is_no_longer_part_of_the_state_is_named_once_and_training_goes_on(checkpointer, caplog, take):
    state = made() | {"more": {"t": torch.ones(2), "inner": {"u": torch.ones(2)}}, "loader": Loader()}
    model = state["model"]
    state["optim"] = torch.optim.AdamW([{"params": model[:3].parameters()}, {"params": model[3].parameters()}])
    state.pop("sched")
    step_of(state)
    ck = checkpointer(state, memory_every=1)
    ck.restore()
    take(state)
    with caplog.at_level(logging.WARNING, "ckpt"):
        assert [ck.begin(step) for step in (1, 2)] == [False, False]
    assert [r.message for r in caplog.records] == [f"step 1 is not saved: {GONE[take]} is registered, and is no longer part of the state: put it back, or "
                                                   "make a Checkpointer of the state as it is now"]
    with pytest.raises(ckpt.torch.Unsaveable):
        ck.save(3)


def test_what_comes_back_is_saved_again(checkpointer):
    state = {"model": nn.BatchNorm1d(2), "x": {"t": torch.zeros(2), "inner": {"u": torch.zeros(2)}}}
    ck = checkpointer(state, memory_every=1)
    ck.restore()
    inner = state["x"].pop("inner")
    mean, state["model"].running_mean = state["model"].running_mean, None
    assert not ck.begin(1)
    state["x"]["inner"], state["model"].running_mean = inner, mean.fill_(4)
    inner["u"].fill_(3)
    ck.save(2)
    saved = checkpointer.read()
    assert (saved["x.inner.u"] == 3).all() and (saved["model.running_mean"] == 4).all()


def test_an_optimizer_whose_state_was_taken_away_is_saved_without(checkpointer):
    """Of a parameter without state the document says so."""
    state = made()
    step_of(state)
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    state["optim"].state[state["model"][0].weight].clear()
    del state["optim"].state[state["model"][0].bias]
    ck.save(1)
    ck.close()
    again = made(2)
    checkpointer(again).restore()
    names = {p: n for n, p in again["model"].named_parameters()}
    assert {names[p] for p in again["optim"].state} == {"1.weight", "1.bias", "3.weight", "3.bias"}


def test_a_buffer_of_another_shape_is_named(checkpointer):
    state = {"model": nn.BatchNorm1d(2)}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    ck.save(1)
    state["model"].running_mean = torch.zeros(3)
    for call in (lambda: ck.save(2), ck.restore):
        with pytest.raises(ckpt.torch.Unsaveable, match=r"model\.running_mean is float32 \(3,\) now"):
            call()


class Own(nn.Parameter):
    """As libraries have them, with attributes of their own."""


@pytest.mark.parametrize("made_of", [nn.Parameter, Own], ids=["Parameter", "of a library"])
def test_data_that_is_set_is_saved_from_where_it_is(checkpointer, made_of):
    model = nn.Module()
    model.w = made_of(torch.zeros(4))
    ck = checkpointer({"model": model}, strict_saves=True)
    ck.restore()
    model.w.data = torch.full((4,), 7.0)
    ck.save(1)
    assert (checkpointer.read()["model.w"] == 7).all()
    model.w.data = torch.zeros(4)
    ck.restore()
    assert (model.w == 7).all()


def test_a_part_of_a_tensor_made_of_tensors_may_be_another_one(checkpointer):
    q = Quantised(torch.full((4, 2), 7, dtype=torch.int8), torch.tensor([0.5]))
    ck = checkpointer({"q": {"w": q}}, strict_saves=True)
    ck.restore()
    q.scale = torch.tensor([0.25])
    ck.save(1)
    assert checkpointer.read()["q.w.scale"] == 0.25
    q.scale = torch.tensor([1.0])
    ck.restore()
    assert q.scale == 0.25


def transposed(t):
    t.t_()


def with_other_steps(t):
    t.data = t.data.t()


def smaller(t):
    t.resize_(2, 3)


def of_another_shape(t):
    t.data = t.data.view(9)


@pytest.mark.parametrize("change", [transposed, with_other_steps, smaller, of_another_shape], ids=lambda f: f.__name__)
def test_what_is_cut_or_turned_in_place_is_named(checkpointer, change):
    """Its address is the same, and what stands there is read in another order."""
    t = torch.arange(9.0).reshape(3, 3)
    ck = checkpointer({"x": {"t": t}}, strict_saves=True)
    ck.restore()
    ck.save(1)
    change(t)
    for call in (lambda: ck.save(2), ck.restore):
        with pytest.raises(ckpt.torch.Unsaveable, match=r"x\.t "):
            call()


def of(kind):
    return {"x": kind({"t": torch.zeros(3), "inner": {"u": torch.zeros(2), "n": 1}, "n": 1, "others": {"n": 1}})}


@pytest.mark.parametrize("kind", [dict, collections.UserDict], ids=["dict", "another mapping"])
def test_what_stands_in_a_mapping_is_replaced(checkpointer, kind):
    state = of(kind)
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    state["x"]["t"], state["x"]["inner"], state["x"]["others"] = torch.ones(3), {"u": torch.ones(2), "n": 2}, {"n": 2}
    del state["x"]["n"]
    state["x"]["m"] = 2
    ck.save(1)
    del state["x"]["m"]
    state["x"]["k"] = 2
    ck.save(2)
    ck.close()
    again = of(kind)
    checkpointer(again).restore()
    x = again["x"]
    assert [int(x["t"].sum()), int(x["inner"]["u"].sum()), x["inner"]["n"], x["k"], x["others"]["n"]] == [3, 2, 2, 2, 2]


def more_in_a_mapping(state):
    state["x"]["others"]["new"] = torch.zeros(2)


def one_for_another(state):
    del state["x"]["others"]["n"]
    state["x"]["others"]["new"] = torch.zeros(2)


def a_module(state):
    state["model"].add_module("new", nn.Linear(1, 1))


def a_parameter(state):
    state["model"][0].new = nn.Parameter(torch.zeros(1))


def a_buffer(state):
    state["model"][1].register_buffer("new", torch.zeros(1))


@pytest.mark.parametrize("come", [more_in_a_mapping, one_for_another, a_module, a_parameter, a_buffer], ids=lambda f: f.__name__)
def test_what_has_come_since_is_named(checkpointer, come):
    """Wherever in the state it stands: it is not registered, and would be left out of the checkpoint."""
    state = of(dict) | {"model": nn.Sequential(nn.ReLU(), nn.Linear(2, 2))}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    ck.save(1)
    come(state)
    for call in (lambda: ck.save(2), ck.restore):
        with pytest.raises(ckpt.torch.Unsaveable, match=r"\.new.* was not there when the state was registered"):
            call()
