"""Checkpoints in the formats of Megatron-Core and DeepSpeed, made by hand as these write them: into a store and out again, and hostile ones."""

import collections
import io
import json
import os
import pickle
import sys
import types

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

import ckpt.numpy
from ckpt import convert
from ckpt.torch.megatron import objects_of

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

_played = []  # packages that are not installed


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.setenv("PATH", f"{os.environ['CKPT_BUILD']}:{os.environ['PATH']}")
    monkeypatch.setenv("CKPT_CONFIG", "/dev/null")
    yield
    while _played:
        sys.modules.pop(_played.pop(), None)


def run(*words):
    return convert.main([str(w) for w in words])


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def as_if(module, name, base=object, **values):
    """A class that pickles as one of a package that is not installed."""
    parts = module.split(".")
    for i in range(len(parts)):
        _played.append(".".join(parts[:i + 1]))
        sys.modules.setdefault(_played[-1], types.ModuleType(module))
    parent = sys.modules[module]
    made = type(name, (base,), {"__module__": module, "__qualname__": name})
    setattr(parent, name, made)
    found = made() if base is object else made(values.pop("number"))
    vars(found).update(values)
    return found


# ---- Megatron-Core


def objects():
    random = np.random.RandomState(3)  # noqa: NPY002 - what Megatron-Core saves
    return {"layers.attention._extra_state/shard_0_2": io.BytesIO(b"scales"), "layers.attention._extra_state/shard_1_2": None,
            "rng_state/shard_0_1": [{"random_rng_state": (3, (1, 2), None), "np_rng_state": random.get_state(), "torch_rng_state": torch.get_rng_state()}]}


def tensors():
    g = torch.Generator().manual_seed(1)
    return {"layers.weight": torch.randn(4, 6, generator=g), "optimizer.state.exp_avg.layers.weight": torch.randn(4, 6, generator=g),
            "head": torch.randn(3, generator=g).to(torch.bfloat16)}


def same_objects(a, b):
    def flat(values):
        return {k: v.getvalue() if isinstance(v, io.BytesIO) else v for k, v in values.items()}

    a, b = flat(a), flat(b)
    for one, other in ((a.pop("rng_state/shard_0_1")[0], b.pop("rng_state/shard_0_1")[0]),):
        assert one["random_rng_state"] == other["random_rng_state"] and torch.equal(one["torch_rng_state"], other["torch_rng_state"])
        assert [np.array_equal(x, y) for x, y in zip(one["np_rng_state"], other["np_rng_state"])] == [True] * 5
    assert a == b


def megatron(folder, common, more=()):
    """Its metadata has plans for the next save, and a mark of version 0.15."""
    folder.mkdir(parents=True)
    dcp.save({**tensors(), **{key: [v] for key, v in objects().items()}, **dict(more)}, storage_writer=FileSystemWriter(folder), no_dist=True,
             planner=dcp.DefaultSavePlanner(flatten_state_dict=False))
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    metadata.all_local_plans = [SavePlan([WriteItem(MetadataIndex("head"), WriteItemType.SHARD)])]
    metadata.mcore_data = as_if("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata", kept=1)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    torch.save(common, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1}))
    return folder


def test_megatron_in_and_out(tmp_path, capsys):
    """common.pt is only copied: what it holds is not read."""
    mark = tmp_path / "mark"
    folder, store = megatron(tmp_path / "iter_0000007", {"args": Bomb(mark)}), ("--repo", tmp_path / "store", "--job", "gpt")
    assert run(folder, *store, "--step", 7) == 0
    assert "3 tensors and 3 objects" in capsys.readouterr().out
    with ckpt.Reader(tmp_path / "store", "gpt", 7) as r:
        same_objects(objects_of(r), objects())
    found = ckpt.numpy.load(tmp_path / "store", "gpt", 7)
    assert np.array_equal(found["layers.weight"], tensors()["layers.weight"].numpy())
    assert run(*store, "--to", tmp_path / "out") == 1 and "--common" in capsys.readouterr().err
    assert run(*store, "--to", tmp_path / "out", "--common", folder / "common.pt", "--only", "head") == 1 and "goes out whole" in capsys.readouterr().err
    assert run(*store, "--to", tmp_path / "out", "--common", folder / "common.pt") == 0
    assert (tmp_path / "out" / "common.pt").read_bytes() == (folder / "common.pt").read_bytes() and not mark.exists()
    assert json.loads((tmp_path / "out" / "metadata.json").read_text())["sharded_backend"] == "torch_dist"
    assert run(tmp_path / "out", "--repo", tmp_path / "again", "--job", "gpt") == 0
    again = ckpt.numpy.load(tmp_path / "again", "gpt")
    assert all(np.array_equal(again[n], found[n]) for n in tensors())
    with ckpt.Reader(tmp_path / "again", "gpt") as r:
        same_objects(objects_of(r), objects())
        assert r["head"].dtype == "BF16"


def test_hostile_checkpoints_of_megatron_are_refused(tmp_path, capsys):
    mark = tmp_path / "mark"
    megatron(tmp_path / "object", {}, {"bomb/shard_0_1": [Bomb(mark)]})
    megatron(tmp_path / "arrays", {}, {"odd/shard_0_1": [np.array([Bomb(mark)], dtype=object)]})
    megatron(tmp_path / "list", {}, {"odd/shard_0_1": {"no": "list"}})
    plans = megatron(tmp_path / "plans", {})
    metadata = pickle.loads((plans / ".metadata").read_bytes())
    metadata.all_local_plans = [Bomb(mark)]
    (plans / ".metadata").write_bytes(pickle.dumps(metadata))
    for name, text in (("zarr", '{"sharded_backend": "zarr"}'), ("json", "[" * 100000), ("number", "7")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata.json").write_text(text)
    mark.unlink(missing_ok=True)
    for source, says in (("object", "it wants"), ("arrays", "without running"), ("list", "a list of one"), ("plans", "it wants"), ("zarr", "format zarr"),
                         ("json", "no description"), ("number", "no description")):
        assert run(tmp_path / source, "--repo", tmp_path / "store", "--job", "j") == 1
        assert says in capsys.readouterr().err, source
        assert not mark.exists() and not (tmp_path / "store").exists()


# ---- DeepSpeed

SHAPES = {"layers.0.weight": (4, 3), "layers.0.bias": (4,), "head": (2, 4)}


def universal(folder, scaler=None, **model):
    g = torch.Generator().manual_seed(2)
    values = {}
    for name, shape in SHAPES.items():
        (folder / "zero" / name).mkdir(parents=True)
        for key in ("fp32", "exp_avg", "exp_avg_sq"):
            values[f"optim.{name}.{key}"] = t = torch.randn(shape, generator=g)
            torch.save({"param": t, "cat_dim": 0}, folder / "zero" / name / f"{key}.pt")
        torch.save(torch.tensor(5.0), folder / "zero" / name / "step.pt")
        values[f"model.{name}"] = values[f"optim.{name}.fp32"].to(torch.bfloat16)
    values["model.mean"] = torch.randn(2, generator=g)
    groups = [{"lr": 0.5, "betas": (0.9, 0.99), "params": [0]}, {"lr": 0.25, "params": [1]}]
    torch.save({"loss_scaler": scaler, "zero_stage": as_if("deepspeed.runtime.zero.config", "ZeroStageEnum", int, number=2), "ds_version": "0.19.8",
                "param_groups": groups}, folder / "zero" / "optimizer_state.pt")
    shapes = [collections.OrderedDict((n, torch.Size(SHAPES[n])) for n in names) for names in (["layers.0.weight", "head"], ["layers.0.bias"])]
    torch.save({"module": {n.removeprefix("model."): t for n, t in values.items() if n.startswith("model.")}, "param_shapes": shapes, "global_steps": 5,
                "global_samples": 40, "skipped_steps": 1, "lr_scheduler": {"last_batch_iteration": 4}, "ds_config": {"gradient_accumulation_steps": 2}} | model,
               folder / "mp_rank_00_model_states.pt")
    return folder, values


def test_deepspeed_in_and_out(tmp_path):
    scaler = as_if("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler", cur_scale=1024.0, cur_iter=5, raise_error_at_min_scale=True)
    folder, values = universal(tmp_path / "u", scaler)
    store = ("--repo", tmp_path / "store", "--job", "gpt")
    assert run(folder, *store, "--step", 5) == 0
    assert run(*store, "--to", tmp_path / "out.pt") == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    flat = {f"{part}.{name}": t for part in ("model", "optim") for name, t in state[part].items() if isinstance(t, torch.Tensor)}
    assert flat.keys() == values.keys() and all(flat[n].dtype == t.dtype and torch.equal(flat[n], t) for n, t in values.items())
    optim = state["optim"]
    assert optim["counted"] == {"global_steps": 5, "global_samples": 40, "skipped_steps": 1, "micro_steps": 10}
    assert optim["scaler"] == {"cur_scale": 1024.0, "cur_iter": 5} and [s["step"].item() for s in optim["states"]] == [5.0, 5.0]
    assert [g["lr"] for g in optim["groups"]] == [0.5, 0.25] and state["schedule"] == {"last_batch_iteration": 4}
    assert run(*store, "--to", tmp_path / "out", "--format", "deepspeed") == 0
    for name in SHAPES:
        for key in ("fp32", "exp_avg", "exp_avg_sq"):
            t = torch.load(tmp_path / "out" / "zero" / name / f"{key}.pt", weights_only=True)["param"]
            assert torch.equal(t, values[f"optim.{name}.{key}"])
        assert torch.load(tmp_path / "out" / "zero" / name / "step.pt", weights_only=True).item() == 5.0
    model = torch.load(tmp_path / "out" / "mp_rank_00_model_states.pt", weights_only=True)
    assert torch.equal(model["module"]["mean"], values["model.mean"]) and model["global_steps"] == 5 and model["lr_scheduler"] == {"last_batch_iteration": 4}
    assert [g["lr"] for g in torch.load(tmp_path / "out" / "zero" / "optimizer_state.pt", weights_only=True)["param_groups"]] == [0.5, 0.25]


def test_hostile_and_other_checkpoints_of_deepspeed_are_refused(tmp_path, capsys):
    mark = tmp_path / "mark"
    universal(tmp_path / "scaler", Bomb(mark))
    universal(tmp_path / "model", None, client=Bomb(mark))
    folder, _ = universal(tmp_path / "step")
    torch.save(Bomb(mark), folder / "zero" / "head" / "step.pt")
    folder, _ = universal(tmp_path / "param")
    torch.save({"param": 7}, folder / "zero" / "head" / "fp32.pt")
    folder, _ = universal(tmp_path / "shape")
    torch.save({"param": torch.zeros(2, 5)}, folder / "zero" / "head" / "fp32.pt")
    folder, _ = universal(tmp_path / "other")
    (folder / "zero" / "stranger").mkdir()
    folder, _ = universal(tmp_path / "tensor")
    torch.save({}, folder / "mp_rank_01_model_states.pt")
    folder, _ = universal(tmp_path / "cut")
    whole = (folder / "zero" / "head" / "fp32.pt").read_bytes()
    (folder / "zero" / "head" / "fp32.pt").write_bytes(whole[:len(whole) // 2])
    universal(tmp_path / "steps", None, global_steps="many")
    universal(tmp_path / "groups", None, param_shapes=None)
    mark.unlink(missing_ok=True)
    for source, says in (("scaler", "it wants"), ("model", "it wants"), ("step", "it wants"), ("param", "no tensor under param"), ("shape", "has shape (2, 5)"),
                         ("other", "the model does not have"), ("tensor", "cuts the model itself"), ("cut", "no file of torch.save"),
                         ("steps", "how many steps"), ("groups", "in which group")):
        assert run(tmp_path / source, "--repo", tmp_path / "store", "--job", "j") == 1
        assert says in capsys.readouterr().err, source
        assert not mark.exists() and not (tmp_path / "store").exists()


def test_what_is_no_engine_does_not_go_out_as_one(tmp_path, capsys):
    torch.save({"model": {"w": torch.zeros(2)}}, tmp_path / "file.pt")
    store = ("--repo", tmp_path / "store", "--job", "j")
    assert run(tmp_path / "file.pt", *store) == 0
    assert run(*store, "--to", tmp_path / "out", "--format", "deepspeed") == 1 and "no checkpoint of an engine" in capsys.readouterr().err
    assert run(*store, "--to", tmp_path / "out", "--format", "megatron", "--common", tmp_path / "file.pt") == 1
    assert not (tmp_path / "out").exists() and "Megatron-Core" in capsys.readouterr().err


@pytest.mark.parametrize("odd", ["w.{}/mark", "...fp32", ".fp32", "a/b.fp32"])
def test_names_in_a_hostile_store_are_no_paths(tmp_path, capsys, odd):
    odd = odd.format(tmp_path)
    optim = {"counted": {"global_steps": 1, "global_samples": 1, "skipped_steps": 0}, "groups": [{"lr": 0.5}], "states": [{"step": 1.0}]}
    torch.save({"model": {"w": torch.zeros(2)}, "optim": optim | {odd: torch.zeros(2)}}, tmp_path / "file.pt")
    store = ("--repo", tmp_path / "store", "--job", "j")
    assert run(tmp_path / "file.pt", *store) == 0
    before = sorted(tmp_path.iterdir())
    assert run(*store, "--to", tmp_path / "out", "--format", "deepspeed") == 1
    assert "it would be a path" in capsys.readouterr().err and sorted(tmp_path.iterdir()) == before
