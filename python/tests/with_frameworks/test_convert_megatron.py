"""What Megatron-Core's own strategies wrote goes into a store and LoadStrategy reads it, and the reverse, in other worlds than those of the save."""

import os
import warnings

import pytest
import ranks
import torch
import torch.distributed as dist

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("megatron.core", reason="megatron-core is not installed")
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing.strategies.torch import TorchDistLoadShardedStrategy, TorchDistSaveShardedStrategy

from test_megatron import equal, save, state_of, tensors_of, whole  # noqa: E402

from ckpt import convert  # noqa: E402
from ckpt.integrations.megatron import LoadStrategy  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
OBJECTS = {"rank": 0, "bytes": b"\x01"}


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.setenv("PATH", f"{os.environ['CKPT_BUILD']}:{os.environ['PATH']}")
    monkeypatch.setenv("CKPT_CONFIG", "/dev/null")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")  # the strategy asks for a GPU also where nothing is on one
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def run(*words):
    assert convert.main([str(w) for w in words]) == 0


def save_by_megatron(folder, seed, tensor):
    if dist.get_rank() == 0:
        folder.mkdir(parents=True)
    dist.barrier()
    state = state_of(whole(seed), OBJECTS | {"rank": dist.get_rank()}, tensor)
    dist_checkpointing.save(state, str(folder), TorchDistSaveShardedStrategy("torch_dist", 1))


def load(folder, seed, tensor, strategy, with_objects):
    state = state_of(whole(seed), None, tensor, empty=True)
    if not with_objects:
        del state["object"]
    found = dist_checkpointing.load(state, str(folder), strategy)
    if with_objects:
        assert found.pop("object") == OBJECTS | {"rank": dist.get_rank()}
    assert equal(found, tensors_of(state_of(whole(seed), None, tensor)))


@pytest.mark.parametrize("world", [2, 4])
def test_into_a_store(tmp_path, world):
    folder = tmp_path / "iter_0000003"
    ranks.run(ranks.Service("", None, tmp_path), 2, save_by_megatron, folder, 5, 2)
    run(folder, "--repo", tmp_path / "store", "--job", "in", "--step", 3)
    for path in folder.glob("*.distcp"):
        path.unlink()  # from here on only the store has the tensors
    ranks.run(ranks.Service("", None, tmp_path), world, load, folder, 5, 2, LoadStrategy("in", tmp_path / "store"), world == 2)


@pytest.mark.parametrize("world", [1, 4])
def test_out_of_a_store(service, tmp_path, world):
    folder = tmp_path / "iter_0000003"
    ranks.run(service, 4, save, service, f"out-{world}", folder, 5, 2)
    run("--repo", service.store, "--job", f"out-{world}", "--step", 3, "--to", tmp_path / "out", "--common", folder / "common.pt")
    ranks.run(service, world, load, tmp_path / "out", 5, min(world, 2), TorchDistLoadShardedStrategy(), world == 4)
