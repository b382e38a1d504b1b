"""Elements that are saved as others: each byte of them comes back, whichever part of the whole a rank has."""

import contextlib
import math

import pytest
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

import ckpt.torch
from ckpt.torch.dcp import Reader
from ckpt.torch.dcp_writer import Writer
from ckpt.torch.layout import layouts_of
from ckpt.tree import dumps, loads

# float32 is the one that is saved as it is.
TYPES = [t for t in ("float32", "complex128", "complex32", "bcomplex32", "bits16", "bits8", "float4_e2m1fn_x2") if hasattr(torch, t)]
SHAPE = (5, 6)
CUTS = ("whole", "part", "flat", "first", "last", "strided", "replicated")


def bytes_of(dtype, count):
    return torch.randint(1, 256, (count * dtype.itemsize,), dtype=torch.uint8, generator=torch.Generator().manual_seed(count))


def whole(name):
    dtype = getattr(torch, name)
    return bytes_of(dtype, math.prod(SHAPE)).view(dtype).reshape(SHAPE)


def run_of(count):
    rank, world = dist.get_rank(), dist.get_world_size()
    return count * rank // world, count * (rank + 1) // world


def distributed(t, placement):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    bits, stride = torch.arange(t.numel()).reshape(t.shape), t.stride()  # which elements are here is asked of a type that PyTorch can cut
    here = torch.distributed.tensor.distribute_tensor(bits, mesh, [placement], src_data_rank=None).to_local()
    return DTensor.from_local(picked(t, here).reshape(here.shape), mesh, [placement], run_check=False, shape=t.shape, stride=stride)


def picked(t, here):
    """Elements by their numbers, of types that cannot be indexed."""
    size = t.dtype.itemsize
    return t.reshape(-1, 1).view(torch.uint8).reshape(-1, size)[here.reshape(-1)].reshape(-1).view(t.dtype)


def cut(name, how):
    """What this rank has of a tensor, and what is said of it."""
    t = whole(name)
    if how == "part":
        a, b = run_of(SHAPE[1])
        return t[:, a:b], ckpt.torch.Part(SHAPE, (0, a))
    if how == "flat":
        a, b = run_of(t.numel())
        return t.reshape(-1)[a:b], ckpt.torch.Flat(SHAPE, a)
    placements = {"first": Shard(0), "last": Shard(1), "strided": _StridedShard(1, split_factor=3), "replicated": Replicate()}
    return (distributed(t, placements[how]) if how in placements else t), None


def bits(t):
    t = t.to_local() if isinstance(t, DTensor) else t
    return t.clone(memory_format=torch.contiguous_format).unsqueeze(-1).view(torch.uint8).flatten().tolist()


def zeroed(t):
    (t.to_local() if isinstance(t, DTensor) else t).unsqueeze(-1).view(torch.uint8).zero_()


def made():
    state, places = {}, {}
    for name in TYPES:
        for how in CUTS:
            state[f"{name}-{how}"], places[f"all.{name}-{how}"] = cut(name, how)
        state[f"{name}-number"] = bytes_of(getattr(torch, name), 1).view(getattr(torch, name)).reshape(())
    return {"all": state}, lambda name, _: places.get(name)


def save(service, job):
    state, place = made()
    with ckpt.torch.Checkpointer(state, job=job, socket=service.socket, place=place, timeout=100) as ck:
        assert ck.restore() is None
        ck.save(1)


def restore(service, job):
    state, place = made()
    wanted = {name: bits(t) for name, t in state["all"].items()}
    for t in state["all"].values():
        zeroed(t)
    with ckpt.torch.Checkpointer(state, job=job, socket=service.socket, place=place, timeout=100) as ck:
        assert ck.restore().step == 1
    assert [name for name, t in state["all"].items() if bits(t) != wanted[name]] == []


@pytest.mark.filterwarnings("ignore:.*experimental:UserWarning")
@pytest.mark.parametrize("saved, world", [(2, 2), (3, 2), (2, 1), (1, 3)])
def test_each_byte_comes_back(service, saved, world):
    ranks.run(service, saved, save, service, f"elements-{saved}-{world}")
    ranks.run(service, world, restore, service, f"elements-{saved}-{world}")


def tensors_of_dcp():
    """Those of types whose size DCP knows, in one box, and of which a state_dict says where that is."""
    known = ("float32", "complex128", "complex32")
    return {name: t for name, t in made()[0]["all"].items() if name.partition("-")[0] in known and not name.endswith(("-part", "-flat", "-strided"))}


def save_with_dcp(service, job):
    with contextlib.closing(Writer(job, service.socket, timeout=100)) as writer:
        dcp.save(tensors_of_dcp(), checkpoint_id=1, storage_writer=writer)


def load_with_dcp(service, job):
    state = tensors_of_dcp()
    wanted = {name: bits(t) for name, t in state.items()}
    for t in state.values():
        zeroed(t)
    dcp.load(state, storage_reader=Reader(service.store, job))
    assert [name for name, t in state.items() if bits(t) != wanted[name]] == []


@pytest.mark.filterwarnings("ignore:.*experimental:UserWarning")
@pytest.mark.parametrize("saved, world", [(2, 2), (3, 2), (1, 3)])
def test_each_byte_comes_back_through_dcp(service, saved, world):
    ranks.run(service, saved, save_with_dcp, service, f"elements-dcp-{saved}")
    ranks.run(service, world, load_with_dcp, service, f"elements-dcp-{saved}")


@pytest.mark.filterwarnings("ignore:.*experimental:UserWarning")
@pytest.mark.parametrize("name", TYPES)
def test_a_small_tensor_comes_back_out_of_a_document(name):
    t = loads(dumps(whole(name), "t"), "t")
    assert (t.dtype, t.shape, bits(t)) == (getattr(torch, name), SHAPE, bits(whole(name)))


def test_a_view_comes_back_out_of_a_document():
    for t in (torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag, torch.arange(4)[::4]):
        assert torch.equal(loads(dumps(t, "t"), "t"), t)


def test_memory_with_other_numbers_than_the_tensor_is_refused_by_name():
    for t in (torch.zeros(3, dtype=torch.complex64).conj(), torch.zeros(3, dtype=torch.complex128).conj(), torch.zeros(3, dtype=torch.complex64).conj().imag):
        with pytest.raises(TypeError, match=r"model\.w is a view whose memory has other numbers"):
            layouts_of("model.w", t, None, 1)
