"""Where the pieces of a DTensor stand in the whole, for each placement that PyTorch knows, against distribute_tensor."""

import itertools

import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from ckpt.torch.layout import layouts_of, replica_name

PLACEMENTS = [(Shard(0), Shard(0)), (Shard(0), Shard(1)), (Shard(1), Shard(0)), (Replicate(), Shard(0)), (Shard(1), Replicate()),
              (_StridedShard(0, split_factor=2), Shard(0)), (Shard(0), _StridedShard(0, split_factor=2)),
              (_StridedShard(0, split_factor=3), Shard(1)), (_StridedShard(0, split_factor=4), Replicate())]
SHAPES = [(8, 6), (7, 5), (3, 9), (1, 4)]


def each_piece_stands_where_it_says():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    cut_apart = 0
    for shape, placements in itertools.product(SHAPES, PLACEMENTS):
        whole = torch.arange(shape[0] * shape[1]).reshape(shape)
        t = distribute_tensor(whole, mesh, placements, src_data_rank=None)
        [layout] = layouts_of("t", t, None, 4)
        assert layout.shape == shape
        held = 0
        for piece in layout.pieces:
            part = piece.array.owner
            there = tuple(slice(o, o + e) for o, e in zip(piece.offset, part.shape))
            assert torch.equal(whole[there], part), (shape, placements)
            held += part.numel()
        assert held == t.to_local().numel(), (shape, placements)
        cut_apart += len(layout.pieces) > 1
        same = [n for n, p in zip(("data", "tensor"), placements) if p.is_replicate()]
        assert layout.replica == (same[0] if same else None)
    assert cut_apart >= 5, "no strided shard was several boxes"
    assert layouts_of("t", distribute_tensor(torch.zeros(4), mesh["tensor"], [Shard(0)]), None, 4)[0].replica == "data"


def partial_sums_are_refused():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with pytest.raises(TypeError, match="t is a DTensor with partial sums on mesh dimension mesh0"):
        layouts_of("t", DTensor.from_local(torch.zeros(3), mesh, [Partial()]), None, 2)


def test_each_piece_stands_where_it_says(service):
    ranks.run(service, 4, each_piece_stands_where_it_says)


def test_partial_sums_are_refused(service):
    ranks.run(service, 2, partial_sums_are_refused)


def test_the_name_of_a_replica_group_is_one():
    assert replica_name(["dp replicate", "cp"]) == "dp_replicate.cp" and replica_name([]) is None and len(replica_name(["x" * 90])) == 47
