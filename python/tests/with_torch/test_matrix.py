"""What one world saved another restores, bit by bit, however both are cut."""

import pytest
import ranks
import torch
import torch.distributed as dist
import training

import ckpt.torch

WORLDS = (1, 2, 3, 4)


def save(service, layout, world):
    torch.manual_seed(1)
    state, place = training.LAYOUTS[layout](train=True)
    with ckpt.torch.Checkpointer(state, job=f"{layout}-{world}", socket=service.socket, place=place, timeout=100) as ck:
        assert ck.restore() is None
        whole = training.gathered(state)
        if dist.get_rank() == 0:
            torch.save(whole, service.top / f"{layout}-{world}.pt")
        ck.save(7)


def restore(service, layout, saved, world):
    torch.manual_seed(2)
    state, place = training.LAYOUTS[layout](train=False)
    with ckpt.torch.Checkpointer(state, job=f"{layout}-{saved}", socket=service.socket, place=place, timeout=100) as ck:
        found = ck.restore()
        assert found.step == 7
        oracle, whole = torch.load(service.top / f"{layout}-{saved}.pt"), training.gathered(state)
        assert set(oracle) == set(whole)
        wrong = [n for n in whole if not torch.equal(whole[n], oracle[n].reshape(whole[n].shape))]
        assert not wrong and (len(oracle) > 20 or layout == "flat"), wrong


@pytest.mark.parametrize("layout", training.LAYOUTS)
def test_each_world_restores_what_each_world_saved(service, layout):
    for saved in WORLDS:
        ranks.run(service, saved, save, service, layout, saved)
        for world in WORLDS:
            ranks.run(service, world, restore, service, layout, saved, world)
