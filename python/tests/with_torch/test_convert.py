"""What torch.save and stock DCP wrote goes into a store and is what a Checkpointer goes on from; and a checkpoint goes out to both."""

import contextlib
import os
import pickle
import subprocess

import pytest
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import training
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, get_state_dict

import ckpt.torch.dcp
from ckpt import convert

PROGRAMS = os.environ["CKPT_BUILD"]


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    monkeypatch.setenv("CKPT_CONFIG", "/dev/null")


@contextlib.contextmanager
def daemon(store, top):
    """On a store that was made without it."""
    with open(top / "ckptd.log", "ab") as log:
        process = subprocess.Popen([f"{PROGRAMS}/ckptd", "--socket", top / "s", "--store", store], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield ranks.Service(str(top / "s"), store, top)
    finally:
        process.terminate()
        process.wait(60)


def trained(seed=1):
    torch.manual_seed(seed)
    model = training.Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.8, 0.99))
    training._train(model, optimizer)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3)


def go_on(model, optimizer, scheduler):
    """Two more steps, the same for the same state."""
    torch.manual_seed(5)
    training._train(model, optimizer)
    scheduler.step()
    return [p.detach().clone() for p in model.parameters()], optimizer.param_groups[0]["lr"], scheduler.last_epoch


def run(*words):
    return convert.main([str(w) for w in words])


@pytest.mark.parametrize("how", ["names", "param_names", "dcp"])
def test_training_goes_on_from_a_file(tmp_path, how):
    model, optimizer, scheduler = trained()
    if how == "param_names":
        named = torch.optim.AdamW(model.named_parameters(), lr=0.01, betas=(0.8, 0.99))
        named.load_state_dict(optimizer.state_dict() | {"param_groups": [optimizer.state_dict()["param_groups"][0] | {"param_names":
                                                        [n for n, _ in model.named_parameters()]}]})
        optimizer_state = named.state_dict()
    else:
        optimizer_state = get_optimizer_state_dict(model, optimizer)
    state = {"model_state": model.state_dict(), "optim": optimizer_state, "sched": scheduler.state_dict(), "progress": {"tokens": 12, "seen": torch.ones(3)},
             "epoch": 4}
    source = tmp_path / ("old" if how == "dcp" else "old.pt")
    if how == "dcp":
        with pytest.warns(UserWarning, match="single process"):
            dcp.save(state, checkpoint_id=source, no_dist=True)
    else:
        torch.save(state, source)
    assert run(source, "--repo", tmp_path / "store", "--job", "new", "--step", 70, "--rename", "model_state=model") == 0
    wanted = go_on(model, optimizer, scheduler)
    other, its, schedule = trained(2)
    progress = {"tokens": 0, "seen": torch.zeros(3)}
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer(
            {"model": other, "optim": its, "sched": schedule, "progress": progress}, job="new", socket=service.socket, timeout=60) as ck:
        assert ck.restore().step == 70
    assert progress["tokens"] == 12 and progress["seen"].tolist() == [1, 1, 1]
    got = go_on(other, its, schedule)
    assert [a.equal(b) for a, b in zip(got[0], wanted[0])] == [True] * len(wanted[0]) and got[1:] == wanted[1:]


def stock_save(top):
    torch.manual_seed(1)
    state, _ = training.LAYOUTS["fsdp2"](train=True)
    model, optim = get_state_dict(state["model"], state["optim"])
    dcp.save({"model": model, "optim": optim}, checkpoint_id=top / "dcp")
    whole = training.gathered(state)
    if dist.get_rank() == 0:
        torch.save(whole, top / "whole.pt")


def resume(service):
    torch.manual_seed(2)
    state, place = training.LAYOUTS["fsdp2"](train=False)
    with ckpt.torch.Checkpointer(state, job="new", socket=service.socket, place=place, timeout=100) as ck:
        assert ck.restore().step == 0
        whole, oracle = training.gathered(state), torch.load(service.top / "whole.pt")
        assert [n for n in oracle if not torch.equal(oracle[n], whole[n])] == []


def test_another_world_goes_on_from_a_directory_of_dcp(tmp_path):
    ranks.run(ranks.Service("", None, tmp_path), 3, stock_save, tmp_path)
    assert run(tmp_path / "dcp", "--repo", tmp_path / "store", "--job", "new") == 0
    with daemon(tmp_path / "store", tmp_path) as service:
        ranks.run(service, 2, resume, service)


def test_a_checkpoint_goes_out(tmp_path, capsys):
    model, optimizer, scheduler = trained()
    wanted = model.state_dict()
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer(
            {"model": model, "optim": optimizer, "sched": scheduler}, job="gpt", socket=service.socket, timeout=60) as ck:
        ck.restore()
        ck.save(3)
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--to", tmp_path / "out.pt") == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    assert state["model"].keys() == wanted.keys() and all(torch.equal(state["model"][n], t) for n, t in wanted.items())
    moments = get_optimizer_state_dict(model, optimizer)
    assert all(torch.equal(state["optim"]["state"][n][k], t) for n, values in moments["state"].items() for k, t in values.items())
    assert state["optim"]["param_groups"][0]["betas"] == (0.8, 0.99) and state["sched"]["last_epoch"] == 0
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--step", 3, "--to", tmp_path / "out", "--only", "model") == 0
    target = {"model": {n: torch.zeros_like(t) for n, t in wanted.items()}}
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(target, checkpoint_id=tmp_path / "out", no_dist=True)
    assert all(torch.equal(target["model"][n], t) for n, t in wanted.items())
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--to", tmp_path / "out.pt") == 1
    assert "is there already" in capsys.readouterr().err


def groups_of(model, momentum):
    """Three groups of other settings."""
    by = {1: [], 2: [], 3: []}
    for p in model.parameters():
        by[p.ndim].append(p)
    return torch.optim.SGD([{"params": by[2], "lr": 0.3}, {"params": by[1], "lr": 0.2}, {"params": by[3], "lr": 0.1}], lr=1.0, momentum=momentum)


@pytest.mark.parametrize("momentum", [0, 0.9])
def test_each_group_of_an_optimizer_has_its_parameters(tmp_path, momentum):
    """Also those that have no state, when the file has been in a store, and when two have changed places."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Conv1d(3, 2, 1), torch.nn.Linear(2, 2))
    optimizer = groups_of(model, momentum)
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer(
            {"model": model, "optim": optimizer}, job="gpt", socket=service.socket, timeout=60) as ck:
        ck.restore()
        sum(p.sum() for p in model.parameters()).backward()
        optimizer.step()
        ck.save(2)
        first, second = (group["params"] for group in optimizer.param_groups[:2])
        first[-1], second[0] = second[0], first[-1]
        ck.save(3)
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--to", tmp_path / "out.pt") == 0
    assert run(tmp_path / "out.pt", "--repo", tmp_path / "again", "--job", "gpt") == 0
    assert run("--repo", tmp_path / "again", "--job", "gpt", "--to", tmp_path / "again.pt") == 0
    wanted = get_optimizer_state_dict(model, optimizer)["param_groups"]
    for name in ("out.pt", "again.pt"):
        groups = torch.load(tmp_path / name, weights_only=True)["optim"]["param_groups"]
        assert [(sorted(g["params"]), g["lr"]) for g in groups] == [(sorted(g["params"]), g["lr"]) for g in wanted] and len(groups) == 3


def test_more_names_than_a_document_has_room_for_are_left_out(tmp_path, monkeypatch):
    """A save does not fail for them."""
    monkeypatch.setattr("ckpt.torch.optimizer.NAMES_BYTES", 10)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Conv1d(3, 2, 1))
    optimizer = groups_of(model, 0.9)
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer(
            {"model": model, "optim": optimizer}, job="gpt", socket=service.socket, timeout=60) as ck:
        ck.restore()
        ck.save(3)
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--to", tmp_path / "out.pt") == 0
    assert [g["lr"] for g in torch.load(tmp_path / "out.pt", weights_only=True)["optim"]["param_groups"]] == [0.3, 0.2, 0.1]
    assert not any("params" in g for g in torch.load(tmp_path / "out.pt", weights_only=True)["optim"]["param_groups"])


def test_a_parameter_without_state_comes_out_without(tmp_path):
    model, optimizer, _ = trained()
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer(
            {"model": model, "optim": optimizer}, job="gpt", socket=service.socket, timeout=60) as ck:
        ck.restore()
        del optimizer.state[model.words.weight]
        ck.save(3)
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--to", tmp_path / "out.pt") == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)["optim"]
    assert "words.weight" not in state["state"] and "layers.0.up.weight" in state["state"] and "words.weight" in state["param_groups"][0]["params"]


class Counting(torch.nn.Linear):
    """Has something in its state_dict that is no tensor."""

    def __init__(self, extra):
        super().__init__(2, 2)
        self.extra = extra

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        self.extra = state


def counting(number):
    """A model whose modules have extra state, as the outermost one, too."""
    model = Counting({"calls": number, "of": [number, {"x": 2.5}]})
    model.inner = torch.nn.Sequential(torch.nn.Linear(2, 2), Counting(number))
    return model


def extras(model):
    return model.extra, model.inner[1].extra


def test_extra_state_of_modules_comes_out_under_the_name_that_pytorch_wants_and_goes_in_again(tmp_path):
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer({"model": counting(3)}, job="gpt", socket=service.socket, timeout=60) as ck:
        ck.restore()
        ck.save(3)
    store = ("--repo", tmp_path / "store", "--job", "gpt")
    assert run(*store, "--to", tmp_path / "out.pt") == 0 and run(*store, "--to", tmp_path / "out") == 0
    model = counting(0)
    model.load_state_dict(torch.load(tmp_path / "out.pt", weights_only=True)["model"])
    assert extras(model) == extras(counting(3))
    target = {"model": counting(0).state_dict()}
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(target, storage_reader=ckpt.torch.dcp.Reader(tmp_path / "store", "gpt"), no_dist=True)
    assert (target["model"]["_extra_state"], target["model"]["inner.1._extra_state"]) == extras(counting(3))
    for source in ("out.pt", "out"):
        target = tmp_path / f"again-{source}"
        assert run(tmp_path / source, "--repo", target, "--job", "gpt", "--step", 4) == 0
        model = counting(0)
        with daemon(target, tmp_path) as service, ckpt.torch.Checkpointer({"model": model}, job="gpt", socket=service.socket, timeout=60) as ck:
            assert ck.restore().step == 4
        assert extras(model) == extras(counting(3))
        assert run("--repo", target, "--job", "gpt", "--to", tmp_path / f"second-{source}.pt") == 0
        assert torch.load(tmp_path / f"second-{source}.pt", weights_only=True)["model"].keys() == counting(0).state_dict().keys()


def save_stages(service):
    """Each rank has other parameters in each group."""
    torch.manual_seed(1)
    model = training.pp(train=False)[0]["model"]
    one, two = ([p for p in model.parameters() if p.requires_grad and (p.ndim > 1) == many] for many in (True, False))
    optimizer = torch.optim.AdamW([{"params": one}, {"params": two, "weight_decay": 0.0}])
    with ckpt.torch.Checkpointer({"model": model, "optim": optimizer}, job="stages", socket=service.socket, timeout=100) as ck:
        ck.restore()
        ck.save(1)


def test_groups_of_all_stages_of_a_pipeline_come_together(tmp_path):
    with daemon(tmp_path / "store", tmp_path) as service:
        ranks.run(service, 3, save_stages, service)
    assert run("--repo", tmp_path / "store", "--job", "stages", "--to", tmp_path / "out.pt") == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    trained_ones = {n: p for n, p in training.Model(head=False).named_parameters() if p.requires_grad}
    for many, group in zip((True, False), state["optim"]["param_groups"]):
        assert sorted(group["params"]) == sorted(n for n, p in trained_ones.items() if (p.ndim > 1) == many)


@pytest.mark.filterwarnings("ignore:.*experimental:UserWarning")
def test_types_that_are_saved_as_others_come_out_as_they_were(tmp_path):
    tensors = {"a": torch.tensor([[1 + 2j, 3j]], dtype=torch.complex128), "b": torch.tensor([1 + 2j]).to(torch.complex32), "c": torch.ones(3, 2, dtype=torch.float64),
               "d": torch.arange(8, dtype=torch.uint8).reshape(2, 4), "e": torch.tensor(5j, dtype=torch.complex128)}
    with daemon(tmp_path / "store", tmp_path) as service, ckpt.torch.Checkpointer({"x": dict(tensors)}, job="gpt", socket=service.socket, timeout=60) as ck:
        ck.restore()
        ck.save(3)
    assert run("--repo", tmp_path / "store", "--job", "gpt", "--to", tmp_path / "out.pt") == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)["x"]
    assert [n for n, t in tensors.items() if t.dtype != state[n].dtype or not torch.equal(t.to(torch.complex128), state[n].to(torch.complex128))] == []
    assert run(tmp_path / "out.pt", "--repo", tmp_path / "again", "--job", "gpt") == 0
    assert run("--repo", tmp_path / "again", "--job", "gpt", "--to", tmp_path / "again.pt") == 0
    state = torch.load(tmp_path / "again.pt", weights_only=True)["x"]
    assert [n for n, t in tensors.items() if t.dtype != state[n].dtype or not torch.equal(t.to(torch.complex128), state[n].to(torch.complex128))] == []


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_nothing_that_a_source_holds_runs(tmp_path, capsys):
    mark = tmp_path / "mark"
    torch.save({"model": {"w": torch.zeros(2)}, "bomb": Bomb(mark)}, tmp_path / "file.pt")
    dcp.save({"w": torch.zeros(2)}, checkpoint_id=tmp_path / "meta", no_dist=True)
    (tmp_path / "meta" / ".metadata").write_bytes(pickle.dumps(Bomb(mark)))
    dcp.save({"w": torch.zeros(2), "bomb": Bomb(mark)}, checkpoint_id=tmp_path / "bytes", no_dist=True)
    dcp.save({"w": torch.zeros(2)}, checkpoint_id=tmp_path / "path", no_dist=True)
    with open(tmp_path / "path" / ".metadata", "rb") as f:
        metadata = pickle.load(f)
    for where in metadata.storage_data.values():
        object.__setattr__(where, "relative_path", "../file.pt")
    (tmp_path / "path" / ".metadata").write_bytes(pickle.dumps(metadata))
    mark.unlink(missing_ok=True)
    for source, says in (("file.pt", "without running"), ("meta", "without running"), ("bytes", "without running"), ("path", "names a file elsewhere")):
        assert run(tmp_path / source, "--repo", tmp_path / "store", "--job", "j") == 1
        err = capsys.readouterr().err
        assert says in err and (source == "path" or "it wants" in err)
        assert not mark.exists() and not (tmp_path / "store").exists()


def test_what_is_no_checkpoint_is_refused(tmp_path, capsys):
    (tmp_path / "text.pt").write_text("hello")
    (tmp_path / "folder").mkdir()
    torch.save([1], tmp_path / "list.pt")
    model, optimizer, _ = trained()
    torch.save({"model": model.state_dict(), "optim": optimizer.state_dict()}, tmp_path / "numbers.pt")
    whole = (tmp_path / "numbers.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[:len(whole) // 2])
    rows = (("text.pt", "text.pt"), ("folder", "no .metadata"), ("list.pt", "a dict is wanted"), ("numbers.pt", "numbers its parameters"),
            ("cut.pt", "cut.pt"), ("missing.pt", "missing.pt"))
    for source, says in rows:
        assert run(tmp_path / source, "--repo", tmp_path / "store", "--job", "j") == 1
        assert says in capsys.readouterr().err
    assert run(tmp_path / "numbers.pt", "--repo", tmp_path / "store", "--job", "j", "--only", "other") == 1
    assert "there is no other in it, but model, optim" in capsys.readouterr().err
    for words in (["--repo", "x", "--job", "j"], ["a.pt", "--job", "j"], ["a.pt", "--repo", "x"], ["a.pt", "--repo", "x", "--job", "j", "--step", "last"],
                  ["a.pt", "--repo", "x", "--job", "j", "--rename", "model"]):
        with pytest.raises(SystemExit) as e:
            run(*words)
        assert e.value.code == 2
    assert run(tmp_path / "numbers.pt", "--repo", tmp_path / "store", "--job", "j", "--only", "model") == 0
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".convert")) == []
