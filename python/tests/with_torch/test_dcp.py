"""Stock dcp.load on what a Checkpointer saved: from any world into any other, in part, and with what it says when something is missing."""

import contextlib
import json

import pytest
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import training
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor

import ckpt
import ckpt.torch
import ckpt.tree
from ckpt.torch.contents import TREE, Contents
from ckpt.torch.dcp import Reader, async_save
from ckpt.torch.dcp import load as load_one
from ckpt.torch.dcp_writer import Writer, step_of


def save(service, layout, job):
    torch.manual_seed(1)
    state, place = training.LAYOUTS[layout](train=True)
    with ckpt.torch.Checkpointer(state, job=job, socket=service.socket, place=place, timeout=100) as ck:
        ck.restore()
        whole = training.gathered(state)
        if dist.get_rank() == 0:
            torch.save(whole, service.top / f"{job}.pt")
        ck.save(3)


def load(service, layout, job):
    torch.manual_seed(2)
    state, _ = training.LAYOUTS[layout](train=False)
    model, optim = get_state_dict(state["model"], state["optim"])
    moments = {name: {k: v for k, v in values.items() if isinstance(v, torch.Tensor)} for name, values in optim["state"].items()}
    dcp.load({"model": model, "optim": {"state": moments}}, storage_reader=Reader(service.store, job))
    oracle, whole = torch.load(service.top / f"{job}.pt"), training.gathered({"model": state["model"]})
    assert [n for n in whole if not torch.equal(whole[n], oracle[n])] == []
    for name, values in moments.items():
        for key, t in values.items():
            assert torch.equal(t.full_tensor() if hasattr(t, "full_tensor") else t, oracle[f"optim.{name}.{key}"]), (name, key)


@pytest.mark.parametrize("layout, saved, world", [("fsdp2", 3, 2), ("hsdp", 4, 1), ("fsdp2_tp", 2, 4)])
def test_a_world_loads_what_another_saved(service, layout, saved, world):
    job = f"dcp-{layout}"
    ranks.run(service, saved, save, service, layout, job)
    ranks.run(service, world, load, service, layout, job)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_part_and_another_step_and_what_is_missing(service):
    state = {"all": {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2), "c": torch.ones(3, dtype=torch.complex64)}}
    with ckpt.torch.Checkpointer(state, job="dcp-part", socket=service.socket, timeout=60) as ck:
        ck.restore()
        ck.save(1)
        state["all"]["a"] += 1
        ck.save(2)
    target = {"all": {"a": torch.zeros(2, 3)}}
    dcp.load(target, storage_reader=Reader(service.store, "dcp-part"), no_dist=True)
    assert torch.equal(target["all"]["a"], torch.arange(6.0).reshape(2, 3) + 1)
    dcp.load(target, checkpoint_id="1", storage_reader=Reader(service.store, "dcp-part"), no_dist=True)
    assert torch.equal(target["all"]["a"], torch.arange(6.0).reshape(2, 3))
    with pytest.raises(CheckpointException, match="all.d"):
        dcp.load({"all": {"d": torch.zeros(2)}}, storage_reader=Reader(service.store, "dcp-part"), no_dist=True)
    with pytest.raises(ckpt.NoCheckpoint):
        Reader(service.store, "dcp-part", 7)


def write(service, layout, job):
    """dcp.save by stock planners, twice, with the state at other addresses the second time."""
    torch.manual_seed(1)
    state, _ = training.LAYOUTS[layout](train=True)
    writer = Writer(job, service.socket, timeout=100)
    for step in (1, 2):
        model, optim = get_state_dict(state["model"], state["optim"])
        if step == 2:
            model = {n: t.detach().clone() for n, t in model.items()}
        dcp.save({"model": model, "optim": optim, "epoch": step, "names": ["a", (1, 2)]}, checkpoint_id=f"run/step-{step}", storage_writer=writer)
    whole = training.gathered(state)
    if dist.get_rank() == 0:
        torch.save(whole, service.top / f"{job}.pt")
    writer.close()


@pytest.mark.parametrize("layout, saved, world", [("fsdp2", 3, 2), ("hsdp", 4, 1)])
def test_stock_planners_save_and_load(service, layout, saved, world):
    job = f"dcp-writer-{layout}"
    ranks.run(service, saved, write, service, layout, job)
    ranks.run(service, world, load, service, layout, job)
    with ckpt.Reader(service.store, job, 1) as r:
        values = Contents(r).values()
    assert values["epoch"] == 1 and values["names"] == ["a", (1, 2)]


def grouped(layout, train):
    """Two groups of parameters with other settings, so that what is no tensor counts."""
    state, _ = training.LAYOUTS[layout](train=False)
    model = state["model"]
    biases = [p for p in model.parameters() if p.ndim == 1 and p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.ndim > 1 and p.requires_grad], "lr": 0.5 if train else 0.1},
                                   {"params": biases, "weight_decay": 0.25 if train else 0.0}], betas=(0.7, 0.9) if train else (0.9, 0.99))
    training._train(model, optimizer, steps=2 if train else 1)
    return model, optimizer


def everything(model, optimizer, epoch):
    weights, optim = get_state_dict(model, optimizer)
    return {"model": weights, "optim": optim, "epoch": epoch, "progress": {"names": ["a", (1, 2)] if epoch else [], "best": 0.25 * epoch, "note": None},
            "odd": torch.tensor([1 + 2j, 3j], dtype=torch.complex128) * epoch}


def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def plain_state(state):
    return {name: whole(v) for name, v in flatten_state_dict(state)[0].items()}


def save_everything(service, layout, job, how):
    torch.manual_seed(1)
    model, optimizer = grouped(layout, True)
    state = everything(model, optimizer, 3)
    if how == "checkpointer":
        parts = {"model": model, "optim": optimizer, "progress": dict(state["progress"])}
        with ckpt.torch.Checkpointer(parts, job=job, socket=service.socket, timeout=100) as ck:
            ck.restore()
            ck.save(3)
        state = {part: state[part] for part in parts}
    else:
        with contextlib.closing(Writer(job, service.socket, timeout=100)) as writer:
            if how == "stock":
                dcp.save(state, checkpoint_id=3, storage_writer=writer)
            else:
                async_save(state, writer, 3).upload_completion.result(100)
    oracle = plain_state(state)
    if dist.get_rank() == 0:
        torch.save(oracle, service.top / f"{job}.pt")


def load_everything(service, layout, job):
    torch.manual_seed(2)
    model, optimizer = grouped(layout, False)
    oracle = torch.load(service.top / f"{job}.pt")
    state = everything(model, optimizer, 0)
    state = {part: state[part] for part in state if any(name.partition(".")[0] == part for name in oracle)}
    dcp.load(state, storage_reader=Reader(service.store, job))
    found = plain_state(state)
    assert found.keys() == oracle.keys()
    assert [n for n, v in found.items() if not same(n, v, oracle[n])] == []
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.001] and optimizer.param_groups[1]["weight_decay"] == 0.25


def same(name, a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return sorted(a) == sorted(b) if name.endswith(".params") else (type(a), a) == (type(b), b)


@pytest.mark.parametrize("layout, saved, world, how", [("fsdp2", 3, 2, "stock"), ("hsdp", 4, 1, "async"), ("ddp", 1, 2, "stock"), ("fsdp2", 2, 3, "checkpointer")])
def test_all_of_a_state_comes_back(service, layout, saved, world, how):
    """Numbers, texts and settings, too, by the stock calls with this writer and this reader."""
    job = f"dcp-all-{layout}-{how}"
    ranks.run(service, saved, save_everything, service, layout, job, how)
    ranks.run(service, world, load_everything, service, layout, job)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_nothing_is_a_pickle_in_the_store_and_what_nobody_knows_is_refused_by_its_path(service):
    with contextlib.closing(Writer("dcp-plain", service.socket, timeout=60)) as writer:
        with pytest.raises(CheckpointException, match=r"state\.values\.a\.b is a builtins\.object"):
            dcp.save({"t": torch.zeros(2), "a": {"b": object()}}, checkpoint_id=1, storage_writer=writer, no_dist=True)
        dcp.save({"t": torch.zeros(2), "a": {"b": {1, 2}}}, checkpoint_id=2, storage_writer=writer, no_dist=True)
    with ckpt.Reader(service.store, "dcp-plain") as r:
        assert json.loads(r.blob(TREE, 0))["values"]["a.b"] == {"$": "set", "v": [1, 2]}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("document", [b"\x80\x04\x95", b"[]", b'{"epoch":1}', b'{"format":1,"types":{"t":"complex128"}}', b'{"format":1,"types":{"t":"nn"}}',
                                      b'{"format":1,"types":{"t":7}}', b'{"format":1,"values":{"epoch":{"$":"os.system","v":"true"}}}'], ids=repr)
def test_a_hostile_document_is_an_error(service, document, request):
    job = f"dcp-hostile-{abs(hash(request.node.name))}"
    with contextlib.closing(Writer(job, service.socket, timeout=60)) as writer, pytest.MonkeyPatch.context() as m:
        m.setattr("ckpt.torch.dcp_writer.dumps", lambda *_: document)
        dcp.save({"t": torch.zeros(2, dtype=torch.uint8)}, checkpoint_id=1, storage_writer=writer, no_dist=True)
    with pytest.raises(ckpt.tree.TreeError):
        Reader(service.store, job)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_another_state_is_refused(service):
    writer = Writer("dcp-other", service.socket, timeout=60)
    dcp.save({"a": torch.zeros(2), "b": torch.zeros(3)}, checkpoint_id=1, storage_writer=writer, no_dist=True)
    for state in ({"a": torch.zeros(2)}, {"a": torch.zeros(2), "b": torch.zeros(4)}):
        with pytest.raises(CheckpointException, match="b is not in the parts"):
            dcp.save(state, checkpoint_id=2, storage_writer=writer, no_dist=True)
    writer.close()


def test_an_id_names_a_step():
    assert [step_of(i) for i in (7, "7", "run/step-0500", "x/7/")] == [7, 7, 500, 7]
    with pytest.raises(ValueError, match="names no step"):
        step_of("latest")
    with pytest.raises(TypeError, match="AsyncCheckpointerType.THREAD"):
        Writer.__reduce__(object.__new__(Writer))


def staged(service, layout, job, how):
    """Two asynchronous saves; between the fence and the end of each the state changes, and the save must not see it."""
    torch.manual_seed(1)
    state, _ = training.LAYOUTS[layout](train=True)
    writer = Writer(job, service.socket, timeout=100)
    for step in (1, 2):
        model, optim = get_state_dict(state["model"], state["optim"])
        whole = training.gathered(state)
        if how == "stock":
            answer = dcp.async_save({"model": model, "optim": optim, "epoch": step}, checkpoint_id=step, storage_writer=writer.at(step), no_dist=True)
        else:
            answer = async_save({"model": model, "optim": optim, "epoch": step}, writer, f"run/step-{step}")
        answer.staging_completion.result(100)
        with torch.no_grad():
            for p in state["model"].parameters():
                p.mul_(2)
        answer.upload_completion.result(100)
        if dist.get_rank() == 0:
            torch.save(whole, service.top / f"{job}.pt")
    writer.close()


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("layout, saved, world, how", [("fsdp2", 3, 2, "stock"), ("fsdp2", 2, 3, "ours"), ("hsdp", 4, 1, "ours"), ("ddp", 2, 1, "stock")])
def test_a_staged_save_is_of_its_moment(service, layout, saved, world, how):
    job = f"dcp-staged-{layout}-{how}"
    ranks.run(service, saved, staged, service, layout, job, how)
    ranks.run(service, world, load, service, layout, job)
    with ckpt.Reader(service.store, job, 1) as r:
        assert Contents(r).values()["epoch"] == 1


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_stager_wants_to_know_the_step(service):
    writer = Writer("dcp-step", service.socket, timeout=60)
    with pytest.raises(ValueError, match="writer.at"):
        dcp.async_save({"a": torch.zeros(2)}, checkpoint_id=1, storage_writer=writer, no_dist=True)
    for step in range(1, 9):  # more than there are slots: each waits for one
        answer = async_save({"a": torch.full((2,), float(step))}, writer, step)
        answer.staging_completion.result(60)
    answer.upload_completion.result(60)
    target = {"a": torch.zeros(2)}
    load_one(target, Reader(service.store, "dcp-step"), 8, no_dist=True)
    assert target["a"].tolist() == [8.0, 8.0]
    with pytest.raises(ckpt.Error, match="b is not in the parts"):
        async_save({"a": torch.zeros(2), "b": torch.zeros(2)}, writer, 9)
    with pytest.raises(ckpt.tree.TreeError, match="state.values.f"):
        async_save({"a": torch.zeros(2), "f": print}, writer, 9)
    writer.close()
