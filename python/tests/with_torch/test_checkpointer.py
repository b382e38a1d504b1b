"""A training that goes on as if nothing had been, and a state whose addresses, types and documents are looked at."""

import collections
import copy
import errno
import logging
import os
import random
import signal
import time

import numpy
import pytest
import ranks
import torch
from torch import nn

import ckpt.numpy
import ckpt.torch

STEPS = 12


def made(seed=0):
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return {"model": model, "optim": optimizer, "sched": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)}


def step_of(state):
    x = torch.randn(6, 4) + random.random() + numpy.random.rand()
    state["model"](x).square().mean().backward()
    state["optim"].step()
    if "sched" in state:
        state["sched"].step()
    state["optim"].zero_grad()


def loop(service, job, out, kill=None, **options):
    """Trains to the end, or dies, from the newest state on."""
    state = made()
    with ckpt.torch.Checkpointer(state, job=job, socket=service.socket, timeout=60, **options) as ck:
        found = ck.restore()
        for step in range(found.step if found else 0, STEPS):
            ck.begin(step)
            if step == kill:
                os.kill(os.getpid(), signal.SIGKILL)
            step_of(state)
        ck.save(STEPS)
    torch.save([found and found.source, {k: v for k, v in state["model"].state_dict().items()}, state["optim"].state_dict()["state"],
                state["sched"].get_last_lr()], service.top / out)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("options, source", [({"memory_every": 1}, "memory"), ({"storage_every": 3}, "storage")])
def test_a_killed_training_ends_with_the_bits_of_one_that_was_not(service, options, source):
    job = f"killed-{source}"
    ranks.run(service, 1, loop, service, f"{job}-not", f"{job}-not.pt")
    assert ranks.run(service, 1, loop, service, job, f"{job}.pt", 8, codes=[-9], **options) is None
    ranks.run(service, 1, loop, service, job, f"{job}.pt", **options)
    undisturbed, disturbed = (torch.load(service.top / f"{name}.pt") for name in (f"{job}-not", job))
    assert undisturbed[0] is None and disturbed[0] in (source, "memory")
    assert same(undisturbed[1:], disturbed[1:])


@pytest.fixture
def checkpointer(service, request):
    """Makes checkpointers of one rank, and reads what they saved."""
    made_of, job = [], f"t-{abs(hash(request.node.name)) % 10**9}"

    def make(state, **options):
        ck = ckpt.torch.Checkpointer(state, job=job, socket=service.socket, timeout=60, **options)
        made_of.append(ck)
        return ck
    make.read = lambda names=None: ckpt.numpy.load(service.store, job, names=names)
    yield make
    for ck in made_of:
        ck.close()


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p), "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1), "plain": lambda p: torch.optim.SGD(p, 0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p), "nadam": lambda p: torch.optim.NAdam(p), "rprop": lambda p: torch.optim.Rprop(p),
    "adamax": lambda p: torch.optim.Adamax(p), "asgd": lambda p: torch.optim.ASGD(p), "adadelta": lambda p: torch.optim.Adadelta(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.5), "capturable": lambda p: torch.optim.AdamW(p, torch.tensor(0.01)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_trains_as_without_a_checkpointer(checkpointer, name):
    def training():
        torch.manual_seed(3)
        model = nn.Linear(4, 3)
        return {"model": model, "optim": OPTIMIZERS[name](model.parameters())}
    bare, state = training(), training()
    ck = checkpointer(state, memory_every=1, strict_saves=True, rng=False)
    assert ck.restore() is None
    for one in (bare, state):
        made(4)
        for step in range(3):
            if one is state:
                ck.begin(step)
            step_of(one)
    assert same(bare["model"].state_dict(), state["model"].state_dict())
    assert same(bare["optim"].state_dict(), state["optim"].state_dict())


@pytest.mark.parametrize("auto", [True, False])
def test_a_step_waits_for_the_copy_unless_the_loop_does(checkpointer, monkeypatch, auto):
    state, fences = made(), []
    ck = checkpointer(state, **({} if auto else {"auto_fence": False}))
    ck.restore()
    monkeypatch.setattr(ck, "fence", lambda: fences.append("fence"))
    step_of(state)
    assert fences == (["fence"] if auto else [])


@pytest.mark.parametrize("before", [0, 1, 2])
def test_lbfgs_which_makes_its_state_late_goes_on(checkpointer, before):
    """Also from a program whose optimizer had made steps when it was registered: numbers of its state become tensors, and the reverse."""
    def training():
        torch.manual_seed(5)
        model = nn.Linear(4, 3)
        return {"model": model, "optim": torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=1)}

    def step(one):
        def closure():
            one["optim"].zero_grad()
            loss = (one["model"](torch.arange(8.0).reshape(2, 4)) - 1).pow(4).sum()
            loss.backward()
            return loss
        one["optim"].step(closure)
    state = training()
    for _ in range(before):
        step(state)
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    for now in range(1, 4):
        step(state)
        ck.save(now)
    ck.close()
    again = training()
    ck = checkpointer(again)
    assert ck.restore().step == 3
    for one in (state, again, state, again):
        step(one)
    assert same(state["model"].state_dict(), again["model"].state_dict())


def test_gradients_that_are_there_before_a_restore_are_left_alone(checkpointer):
    """The state of the optimizer is made in spite of them."""
    state = made()
    with checkpointer(state, strict_saves=True) as ck:
        ck.restore()
        step_of(state)
        ck.save(1)
    want, again = state["optim"].state_dict()["state"], made(1)
    again["model"](torch.ones(6, 4)).sum().backward()
    before = [p.grad.clone() for p in again["model"].parameters()]
    with checkpointer(again) as ck:
        assert ck.restore().step == 1
    assert same(again["optim"].state_dict()["state"], want)
    assert same([p.grad for p in again["model"].parameters()], before)


class NeedsClosure(torch.optim.SGD):
    def step(self, closure=None):
        if closure is None:
            raise TypeError("a closure is wanted")
        return super().step(closure)


def test_state_that_an_optimizer_has_not_made_is_not_lost_without_a_word(checkpointer):
    """What was registered in one program, and is not in the next, would stay in the checkpoint."""
    def training():
        model = nn.Linear(2, 1)
        return {"model": model, "optim": NeedsClosure(model.parameters(), 0.1, momentum=0.9)}
    state = training()
    state["model"](torch.ones(1, 2)).sum().backward()
    state["optim"].step(lambda: 0)
    with checkpointer(state, strict_saves=True) as ck:
        ck.restore()
        ck.save(1)
    with pytest.raises(ckpt.TreeError, match="optim cannot take .* has state of 2 parameters, and the optimizer had none"), checkpointer(training()) as ck:
        ck.restore()


def test_what_moved_is_saved_from_where_it_is(checkpointer):
    state = made()
    model, optimizer = state["model"], state["optim"]
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    step_of(state)
    with torch.no_grad():
        model[0].weight.data = torch.full((8, 4), 2.0)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.state[model[0].weight]["exp_avg"] = torch.full((8, 4), 3.0)
    optimizer.state[model[3].bias]["exp_avg"].set_(torch.full((1,), 4.0))
    model[1].running_mean = torch.full((8,), 5.0)
    ck.save(1)
    saved = checkpointer.read()
    assert (saved["model.0.weight"] == 2).all() and (saved["optim.state.0.weight.exp_avg"] == 3).all()
    assert saved["optim.state.3.bias.exp_avg"] == 4 and (saved["model.1.running_mean"] == 5).all()
    assert saved["optim.state.0.weight.step"] == 1


def moved(state):
    """Everything stands elsewhere, and holds something else."""
    model, optimizer = state["model"], state["optim"]
    for t in model.parameters():
        t.data = torch.full_like(t, 9)
    model[1].running_mean = torch.full((8,), 9.0)
    changed = optimizer.state_dict()
    changed["state"] = {p: {k: torch.full_like(t, 9) for k, t in values.items()} for p, values in changed["state"].items()}
    optimizer.load_state_dict(changed)


def emptied(state):
    """As a program does that goes back to what it was made with."""
    state["optim"].load_state_dict(made()["optim"].state_dict())
    assert not state["optim"].state


@pytest.mark.parametrize("change", [moved, emptied])
def test_what_moved_is_restored_to_where_it_is(checkpointer, change):
    state = made()
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    step_of(state)
    ck.save(1)
    wanted = copy.deepcopy((state["model"].state_dict(), state["optim"].state_dict()["state"]))
    change(state)
    assert ck.restore().step == 1
    assert same([state["model"].state_dict(), state["optim"].state_dict()["state"]], list(wanted))
    step_of(state)
    ck.save(2)
    assert (checkpointer.read()["model.0.weight"] == state["model"][0].weight.detach().numpy()).all()


def test_what_was_taken_away_stays_away_if_nothing_is_restored(checkpointer):
    state = made()
    step_of(state)
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    emptied(state)
    assert ck.restore() is None and not any(state["optim"].state.values())


def test_after_a_step_nothing_is_no_fresh_start(checkpointer):
    """A rank that replaces a lost one begins with the first state, and this one would not."""
    state = made()
    ck = checkpointer(state)
    assert ck.restore() is None
    assert ck.restore() is None  # another rank was lost before the first step
    step_of(state)
    with pytest.raises(ckpt.NoCheckpoint, match="end the process") as e:
        ck.restore()
    assert e.value.errno == errno.ENOENT
    ck.save(1)
    assert ck.restore().step == 1


def test_a_restore_refuses_what_cannot_be_where_it_was(checkpointer):
    state = {"model": nn.Sequential(nn.Linear(2, 2))}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    ck.save(1)
    state["model"][0] = nn.Linear(3, 2)
    with pytest.raises(ckpt.torch.Unsaveable, match=r"model\.0\.weight is F32 \(2, 3\)"):
        ck.restore()


def test_a_module_that_was_replaced_is_found(checkpointer):
    state = {"model": nn.Sequential(nn.Linear(2, 2))}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    state["model"][0] = nn.Linear(2, 2)
    ck.save(1)
    assert (checkpointer.read()["model.0.weight"] == state["model"][0].weight.detach().numpy()).all()


def test_what_cannot_be_where_it_was_is_explained_and_training_goes_on(checkpointer, caplog):
    state = {"model": nn.Sequential(nn.Linear(2, 2))}
    ck = checkpointer(state, memory_every=1)
    ck.restore()
    state["model"][0] = nn.Linear(3, 2)
    with caplog.at_level(logging.WARNING, "ckpt"):
        assert [ck.begin(step) for step in (1, 2)] == [False, False]
    assert [r.message for r in caplog.records] == ["step 1 is not saved: model.0.weight is F32 (2, 3) in 1 pieces now; registered is F32 (2, 2) in 1"]
    with pytest.raises(ckpt.torch.Unsaveable):
        ck.save(3)


def test_the_state_may_change_in_the_forward_pass_and_with_the_step(checkpointer):
    """Buffers are copied at the begin, and the step of an optimizer waits for the copy of the rest."""
    state = made()
    ck = checkpointer(state, memory_every=1, strict_saves=True, strict=True)
    ck.restore()
    for step in range(1, 5):
        ck.session.wait_slot()
        assert ck.begin(step)
        step_of(state)
        assert ck._snapshot is None
    ck.save(5)


TYPES = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
         "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


def test_tensors_of_each_kind_come_back_where_they_were(checkpointer):
    def tensors(fill):
        made_of = {t: (torch.arange(24) % 2 if t == "bool" else torch.arange(24)).reshape(4, 6).to(getattr(torch, t)) if fill
                   else torch.zeros(4, 6).to(getattr(torch, t)) for t in TYPES}
        made_of["number"] = torch.tensor(3.0 if fill else 0.0)
        made_of["empty"] = torch.empty(0, 3)
        made_of["transposed"] = (torch.arange(6.0) if fill else torch.zeros(6)).reshape(2, 3).t()
        made_of["sliced"] = (torch.arange(20) if fill else torch.zeros(20, dtype=torch.int64)).reshape(4, 5)[1:, ::2]
        return {"inner": made_of}
    ck = checkpointer({"all": tensors(True)}, strict_saves=True)
    ck.restore()
    ck.save(1)
    ck.close()
    again = tensors(False)
    ck = checkpointer({"all": again})
    ck.restore()
    wanted = tensors(True)["inner"]
    assert [n for n, t in again["inner"].items() if t.reshape(-1).contiguous().view(torch.uint8).tolist()
            != wanted[n].reshape(-1).contiguous().view(torch.uint8).tolist()] == []


class Quantised(torch.Tensor):
    """A tensor that is made of two others, as those of torchao."""

    @staticmethod
    def __new__(cls, values, scale):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float32)

    def __init__(self, values, scale):
        self.values_, self.scale = values, scale

    def __tensor_flatten__(self):
        return ["values_", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].values_, args[0].scale)
        raise NotImplementedError(function)


def test_a_tensor_that_is_made_of_tensors_is_saved_as_these(checkpointer):
    ck = checkpointer({"q": {"w": Quantised(torch.full((4, 2), 7, dtype=torch.int8), torch.tensor([0.5]))}}, strict_saves=True)
    ck.restore()
    ck.save(1)
    saved = checkpointer.read()
    assert (saved["q.w.values_"] == 7).all() and saved["q.w.scale"] == 0.5


class Loader:
    def __init__(self):
        self.state = {"epoch": 1, "seen": {3, 4}, "queue": collections.deque([1]), "weights": torch.arange(3), "big": torch.zeros(40000)}

    def __iter__(self):
        return iter(())

    def state_dict(self):
        return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in self.state.items()}

    def load_state_dict(self, state):
        self.state = state


def test_anything_with_a_state_dict(checkpointer):
    loader = Loader()
    ck = checkpointer({"data": loader}, strict_saves=True)
    ck.restore()
    loader.state |= {"epoch": 2, "weights": torch.arange(5), "big": torch.ones(40000)}
    ck.save(1)
    ck.close()
    again = Loader()
    ck = checkpointer({"data": again})
    ck.restore()
    assert again.state["epoch"] == 2 and again.state["queue"] == collections.deque([1]) and again.state["weights"].tolist() == [0, 1, 2, 3, 4]
    assert again.state["big"].sum() == 40000


def test_a_type_that_nobody_knows_is_refused_by_its_path(checkpointer):
    ck = checkpointer({"extra": {"a": {"b": object()}}}, strict_saves=True)
    ck.restore()
    with pytest.raises(ckpt.TreeError, match=r"state\.parts\.extra\.a\.b is a builtins\.object"):
        ck.save(1)


HOSTILE = [b"[" * 50000, b"\x80\x04\x95", b"{}", b'{"format":1,"world":1,"parts":{"model":{"$":"os.system","v":"true"}}}',
           b'{"format":2,"world":1,"parts":{}}', b'{"format":1,"world":1,"parts":{"optim":{"groups":[]}}}', b'{"format":1,"world":1,"parts":{"optim":7}}',
           b'{"format":1,"world":1,"parts":{"optim":{"$":"tensor","v":["float32",[1000000000],{"$":"bytes","v":""}]}}}',
           b'{"format":1,"world":1,"parts":{"optim":{"$":"tensor","v":["__import__",[],{"$":"bytes","v":""}]}}}',
           b'{"format":1,"world":1,"parts":{"optim":{"$":"dtype","v":"nn"}}}',
           b'{"format":1,"world":1,"parts":{},"rng":{"python":[3,{"$":"bytes","v":"AAA="},null],"torch":{"$":"bytes","v":"AAA="}}}']


@pytest.mark.parametrize("document", HOSTILE, ids=lambda d: repr(d[:50]))
def test_a_hostile_document_is_an_error_and_nothing_runs(checkpointer, document, monkeypatch):
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    state = made()
    state.pop("sched")
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    ck._documents.put = lambda: [ck.session.set_blob(name, document) for name in ("ckpt.tree", "ckpt.tree.rank")]
    ck.save(1)
    ck.close()
    again = made()
    again.pop("sched")
    with pytest.raises(ckpt.TreeError):
        checkpointer(again).restore()
    assert not ran


def test_what_is_no_state_is_refused(checkpointer):
    with pytest.raises(TypeError, match="x is a int: a module"):
        checkpointer({"x": 3})
    with pytest.raises(ValueError, match="is no name of a part"):
        checkpointer({"a.b": {}})
    with pytest.raises(ValueError, match="no name that stays"), pytest.MonkeyPatch.context() as m:
        m.setenv("TORCHELASTIC_RUN_ID", "none")
        ckpt.torch.Checkpointer({"x": {}})
    with pytest.raises(TypeError, match="is in none of the modules"):
        checkpointer({"optim": torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)}).restore()


def test_an_older_and_a_healthy_step(service, checkpointer):
    state = {"x": {"t": torch.zeros(3)}}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    for step in (1, 2, 3):
        state["x"]["t"].fill_(step)
        ck.save(step)
    ck.mark_healthy(2, "it was good")
    ends = time.monotonic() + 60
    while not any(c.healthy for c in ckpt.checkpoints(service.store, ck.job)) and time.monotonic() < ends:
        time.sleep(0.01)  # until the mark stands beside the checkpoint
    assert ck.restore("healthy").step == 2 and state["x"]["t"].sum() == 6
    assert ck.restore(1).step == 1 and ck.restore().step == 3


def test_values_beside_tensors_come_back_also_when_more_of_them_come(checkpointer):
    state = {"x": {"t": torch.zeros(3), "n": 1, "inner": {"u": torch.ones(2), "name": "a"}}}
    ck = checkpointer(state, strict_saves=True)
    ck.restore()
    state["x"]["inner"]["more"] = (1, 2)
    state["x"]["n"] = 5
    ck.save(1)
    ck.close()
    again = {"x": {"t": torch.ones(3), "n": 0, "inner": {"u": torch.zeros(2), "name": ""}}}
    ck = checkpointer(again)
    ck.restore()
    assert again["x"]["n"] == 5 and again["x"]["inner"]["more"] == (1, 2) and again["x"]["inner"]["name"] == "a" and again["x"]["t"].sum() == 0


def begun(ck, steps):
    found = []
    for step in steps:
        found += [step] if ck.begin(step) else []
        ck.fence()
    return found


def test_the_daemon_says_what_is_due(checkpointer, monkeypatch):
    ck = checkpointer(made(), auto=True)
    assert ck.restore() is None
    monkeypatch.setattr(ck.session, "due", lambda step: None if step % 3 else ckpt.MEMORY)
    assert begun(ck, range(8)) == [3, 6]


def test_what_the_daemon_does_not_decide_is_decided_by_step(checkpointer):
    ck = checkpointer(made(), auto=True, memory_every=2)
    assert ck.restore() is None
    assert begun(ck, range(6)) == [2, 4]


def test_what_the_daemon_does_not_decide_nor_a_number_of_steps_is_an_error(checkpointer):
    ck = checkpointer(made(), auto=True)
    assert ck.restore() is None
    with pytest.raises(ckpt.Error, match="interval is not auto") as e:
        ck.begin(1)
    assert e.value.errno == errno.EOPNOTSUPP
