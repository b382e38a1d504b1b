"""Random numbers of GPUs, with a stand-in for the calls of PyTorch where there is none."""

import pytest
import torch

from ckpt.torch import generators


class Gpus:
    """Each has a generator; the numbers of a state are its seed."""

    def __init__(self, seeds, current=0):
        self.seeds, self.current = list(seeds), current

    def is_available(self):
        return bool(self.seeds)

    is_initialized = is_available

    def device_count(self):
        return len(self.seeds)

    def current_device(self):
        return self.current

    def get_rng_state(self, device):
        return torch.tensor([self.seeds[device]], dtype=torch.uint8)

    def set_rng_state(self, state, device):
        self.seeds[device] = int(state.item())


@pytest.fixture
def gpus(monkeypatch):
    def here(seeds, current=0):
        monkeypatch.setattr(generators, "_cuda", Gpus(seeds, current))
        return generators._cuda
    return here


@pytest.mark.parametrize("saved, current, seeds, now, wanted, left", [
    ([1, 2, 3], 1, [7, 8, 9], 1, [1, 2, 3], ()),
    ([1, 2, 3], 0, [7, 8, 9], 2, [1, 2, 1], ()),  # the rank has another GPU of its own
    ([1, 2, 3], 2, [7], 0, [3], ("random numbers of cuda:1",)),
    ([1, 2], 0, [7, 8, 9], 0, [1, 2, 9], ()),
    ([1, 2], 0, [], 0, [], ("random numbers of cuda:0", "random numbers of cuda:1"))])
def test_each_gpu_goes_on_with_its_numbers(gpus, saved, current, seeds, now, wanted, left):
    gpus(saved, current)
    state = generators.get()
    here = gpus(seeds, now)
    assert generators.put_back(state) == left and here.seeds == wanted


def test_what_was_saved_of_one_gpu_goes_to_the_own_one(gpus):
    gpus([1])
    state = generators.get()
    here = gpus([7, 8], 1)
    assert generators.put_back(state | {"cuda": state["cuda"]["states"][0]}) == () and here.seeds == [7, 1]


def test_without_a_gpu_there_is_nothing_of_one(gpus):
    gpus([])
    assert "cuda" not in generators.get()
    assert generators.put_back(generators.get()) == ()


@pytest.mark.parametrize("cuda", [{"current": 5, "states": []}, {"current": 0, "states": [7]}, {"states": []}, 7, {"current": "a", "states": [b"x"]}])
def test_what_is_no_state_of_gpus_is_an_error(gpus, cuda):
    gpus([1])
    with pytest.raises((KeyError, IndexError, TypeError, ValueError)):
        generators.put_back(generators.get() | {"cuda": cuda})
