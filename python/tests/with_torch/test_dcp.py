"""Stock dcp.load on what a Checkpointer saved: from any world into any other, in part, and with what it says when something is missing."""

import pytest
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import training
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict

import ckpt
import ckpt.torch
from ckpt.torch.dcp import Reader


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
