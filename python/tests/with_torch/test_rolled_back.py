"""A state goes back to an earlier step: what has come since then is gone, also where no tensor stands."""

import copy

import pytest
import torch
from test_checkpointer import checkpointer, made, same, step_of  # noqa: F401 - a fixture
from torch import nn

import ckpt.torch


class Thing:
    """Has a state_dict whose keys come and go."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return {**copy.copy(self.state), "big": self.state["big"].clone()}

    def load_state_dict(self, state):
        self.state = state


def new():
    return {"big": torch.zeros(40000), "seen": {}, "n": 0, "none": None}


@pytest.mark.parametrize("of", [lambda s: s, Thing], ids=["dict", "state_dict"])
def test_keys_that_came_later_are_gone(checkpointer, of):
    part = of(new())
    ck = checkpointer({"x": part}, strict_saves=True)
    ck.restore()
    state = getattr(part, "state", part)
    state["seen"]["a"], state["n"], state["empty"] = 1, 1, {}
    ck.save(1)
    state["seen"] |= {"b": 2, "more": {"c": 3}}
    state["empty"]["d"], state["later"], state["none"] = 4, [5], {"e": 6}
    ck.save(2)
    ck.restore(1)
    state = getattr(part, "state", part)
    assert {k: v for k, v in state.items() if k != "big"} == {"seen": {"a": 1}, "n": 1, "none": None, "empty": {}}
    ck.restore(2)
    state = getattr(part, "state", part)
    assert state["seen"] == {"a": 1, "b": 2, "more": {"c": 3}} and state["empty"] == {"d": 4} and state["later"] == [5] and state["none"] == {"e": 6}


@pytest.mark.parametrize("of", [lambda s: s, Thing], ids=["dict", "state_dict"])
def test_what_only_a_newer_program_has_stays(checkpointer, of):
    ck = checkpointer({"x": of(new())}, strict_saves=True)
    ck.restore()
    ck.save(1)
    ck.close()
    newer = of(new() | {"option": {"a": 7}, "seen": {"begun": 8}})
    checkpointer({"x": newer}).restore()
    state = getattr(newer, "state", newer)
    assert state["option"] == {"a": 7} and state["seen"] == {"begun": 8}


def test_state_and_settings_that_an_optimizer_got_later_are_gone(checkpointer):
    state = made()
    step_of(state)
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    of, group = state["optim"].state[state["model"][0].weight], state["optim"].param_groups[0]
    of["early"], group["early"] = "a", 1
    ck.save(1)
    want = set(of), set(group)
    of["later"], group["later"] = torch.ones(2), 2
    ck.save(2)
    ck.restore(1)
    assert (set(of), set(group)) == want
    ck.restore(2)
    assert of["later"].sum() == 2 and group["later"] == 2


def test_lbfgs_goes_back_to_where_it_was(checkpointer):
    """Its state grows with its steps."""
    torch.manual_seed(5)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = (model(torch.arange(8.0).reshape(2, 4)) - 1).pow(4).sum()
        loss.backward()
        return loss

    ck = checkpointer({"model": model, "optim": optimizer}, strict_saves=True)
    ck.restore()
    ck.save(1)
    ends = []
    for _ in range(2):
        for _ in range(3):
            optimizer.step(closure)
        ends.append([copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])])
        ck.restore(1)
    assert same(*ends)
