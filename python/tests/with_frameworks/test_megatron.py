"""The strategies of Megatron-Core: the program of the page in several worlds, and layouts, objects and asynchronous saves in forked ranks."""

import warnings

import pages
import pytest
import ranks
import torch
import torch.distributed as dist

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("megatron.core", reason="megatron-core is not installed")
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing import ShardedObject, ShardedTensor
    from megatron.core.dist_checkpointing.mapping import ShardedTensorFactory

import ckpt  # noqa: E402
from ckpt.integrations.megatron import LoadStrategy, SaveStrategy  # noqa: E402

PAGE = "howto/save-with-megatron-core.md"
pytestmark = pytest.mark.filterwarnings("ignore")
LAYERS, ROWS, COLUMNS = 4, 12, 6


def test_the_program_of_the_page_in_other_worlds(tmp_path, monkeypatch):
    program, folder = pages.program(PAGE, "shards.py", tmp_path), tmp_path / "run"
    end = pages.end(pages.run(2, "shards", tmp_path / "store", program, "save", tmp_path / "store", folder))
    for world in (1, 3):
        assert pages.end(pages.run(world, "shards", tmp_path / "store", program, "load", tmp_path / "store", folder)) == end


# ---- forked ranks


def whole(seed):
    g = torch.Generator().manual_seed(seed)
    return {"layers": torch.randn(LAYERS, ROWS, COLUMNS, generator=g), "bits": torch.randn(ROWS, COLUMNS, generator=g).to(torch.bfloat16),
            "same": torch.randn(5, generator=g), "two": torch.randn(ROWS, 2 * COLUMNS, generator=g)}


def state_of(values, objects, tensor=4, empty=False):
    """Rows are cut by `tensor` ranks, layers by the others; a rank holds several layers under one key, and a factory gives one tensor two names."""
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = min(tensor, world)
    cut, stage, stages = rank % tensor, rank // tensor, world // tensor
    here = slice(cut * ROWS // tensor, (cut + 1) * ROWS // tensor)
    mine = lambda t: torch.full_like(t, 7) if empty else t.clone()  # noqa: E731
    state = {f"layer{i}": ShardedTensor.from_rank_offsets("layers", mine(values["layers"][i, here]), (0, i, LAYERS), (1, cut, tensor), prepend_axis_num=1)
             for i in range(stage * LAYERS // stages, (stage + 1) * LAYERS // stages)}

    def halves(key, t, replica_id, _):
        parts = t.chunk(2, 1)
        return [ShardedTensor.from_rank_offsets(f"{key}.{name}", part, (0, cut, tensor), replica_id=replica_id) for name, part in zip("ab", parts)]

    return state | {"bits": ShardedTensor.from_rank_offsets("bits", mine(values["bits"][here]), (0, cut, tensor), replica_id=stage),
                    "same": ShardedTensor.from_rank_offsets("same", mine(values["same"]), replica_id=rank),
                    "two": ShardedTensorFactory("two", mine(values["two"][here]), halves, lambda parts: torch.cat(parts, 1), replica_id=stage),
                    "object": ShardedObject("object", objects, (world,), (rank,)), "plain": {"iteration": 3}}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) if isinstance(a[k], torch.Tensor) else a[k] == b[k] for k in a)


def tensors_of(state):
    return {k: v.data if hasattr(v, "data") else v for k, v in state.items() if k != "object"}


def save(service, job, folder, seed, tensor, asynchronous=False):
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    values = whole(seed)
    state = state_of(values, {"rank": dist.get_rank(), "bytes": b"\x01"}, tensor)
    strategy = SaveStrategy(job, socket=service.socket, timeout=60)
    if not asynchronous:
        dist_checkpointing.save(state, str(folder), strategy)
        return
    request = dist_checkpointing.save(state, str(folder), strategy, async_sharded_save=True)  # Megatron-Core's queue of them wants a GPU
    for t in tensors_of(state).values():
        if isinstance(t, torch.Tensor):
            t += 1
    request.execute_sync()


def load(service, job, folder, seed, tensor, objects=True):
    wanted = state_of(whole(seed), None, tensor)
    state = state_of(whole(seed), None, tensor, empty=True)
    if not objects:
        del state["object"]
    found = dist_checkpointing.load(state, str(folder), LoadStrategy(job, service.store), strict="raise_unexpected" if objects else "assume_ok_unexpected")
    if objects:
        assert found.pop("object") == {"rank": dist.get_rank(), "bytes": b"\x01"}
    assert equal(found, tensors_of(wanted)), (found, wanted)


@pytest.mark.parametrize("world, tensor", [(1, 1), (2, 1), (2, 2), (4, 2)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_four_ranks_save_any_layout_loads(service, world, tensor, asynchronous):
    job = f"layouts-{world}-{tensor}-{int(asynchronous)}"
    folder = service.top / job / "iter_0000003"
    ranks.run(service, 4, save, service, job, folder, 5, 2, asynchronous)
    ranks.run(service, 4, load, service, job, folder, 5, 2)
    ranks.run(service, world, load, service, job, folder, 5, tensor, objects=False)


def refused(service, folder, objects):
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.raises(ckpt.TreeError, match=r"megatron\.objects\.object/shard_0_1\.odd is a .*Opaque"):
        dist_checkpointing.save(state_of(whole(1), objects, 1), str(folder), SaveStrategy("odd", socket=service.socket, timeout=60))


class Opaque:
    pass


def test_an_object_without_a_place_is_refused_by_its_path(service):
    ranks.run(service, 1, refused, service, service.top / "odd" / "iter_0000001", {"odd": Opaque()})


def damaged(service, folder):
    state = {"bits": ShardedTensor.from_rank_offsets("bits", torch.zeros(ROWS, COLUMNS + 1, dtype=torch.bfloat16))}
    with pytest.raises(ckpt.Error, match="bits has shape"):
        dist_checkpointing.load(state, str(folder), LoadStrategy("shapes", service.store))
    with pytest.raises(Exception, match="nothing"):
        dist_checkpointing.load({"x": ShardedTensor.from_rank_offsets("nothing", torch.zeros(2))}, str(folder), LoadStrategy("shapes", service.store))


def test_another_shape_and_another_key_are_errors_that_name_it(service):
    folder = service.top / "shapes" / "iter_0000001"
    ranks.run(service, 1, save, service, "shapes", folder, 1, 1)
    ranks.run(service, 1, damaged, service, folder)


def twice(service, job, folder):
    strategy = SaveStrategy(job, socket=service.socket, timeout=60)
    requests = []
    for step in (1, 2):
        directory = folder / f"iter_{step:07}"
        directory.mkdir(parents=True)
        requests.append(dist_checkpointing.save(state_of(whole(step), {}, 1), str(directory), strategy, async_sharded_save=True))
    for request in requests:
        request.execute_sync()
    assert [c.step for c in ckpt.checkpoints(service.store, job)] == [1, 2]


def test_a_save_waits_for_the_one_before(service):
    ranks.run(service, 1, twice, service, "twice", service.top / "twice")
