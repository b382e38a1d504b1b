"""Tensors and arrays in documents: they come back as they were, or are refused by their path."""

import numpy as np
import pytest
import torch

import ckpt
import ckpt.torch
from ckpt.tree import dumps, loads

ARRAYS = {"number": np.float32(3), "truth": np.bool_(True), "no dimension": np.array(5), "half": np.array(5.0, np.float16), "empty": np.zeros((0, 3)),
          "backwards": np.arange(6).reshape(2, 3)[:, ::-1], "transposed": np.arange(6).reshape(2, 3).T, "wide": np.array([2**64 - 1], np.uint64)}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_comes_back_as_it_was(name):
    array = ARRAYS[name]
    again = loads(dumps({"a": array}, "state"), "state")["a"]
    assert type(again) is type(array) and again.dtype == array.dtype and again.shape == array.shape and np.array_equal(again, array)


TENSORS = {"no dimension": torch.tensor(True), "conjugated": torch.tensor([1 + 2j]).conj(), "transposed": torch.arange(6).reshape(2, 3).t(),
           "empty": torch.zeros(0, 2, dtype=torch.bfloat16), "small": torch.ones(3, dtype=torch.float8_e4m3fn),
           "large": torch.tensor(1.5 - 1j, dtype=torch.complex128)}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_comes_back_as_it_was(name):
    t = TENSORS[name]
    again = loads(dumps({"a": t}, "state"), "state")["a"]
    assert again.dtype is t.dtype and again.shape == t.shape and torch.equal(again.to(torch.complex128), t.to(torch.complex128))


@pytest.fixture
def quantised():
    with pytest.warns():
        return torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.1, 3, torch.qint32)


REFUSED = {"byte order": np.array([1], ">i4"), "text": np.array(["a"]), "masked": np.ma.masked_array([1, 2], [True, False]),
           "a class of its own": np.arange(2).view(type("Mine", (np.ndarray,), {})), "sparse": torch.eye(3).to_sparse(), "long": np.array([1], np.longdouble),
           "a date": np.datetime64("2020-01-01"), "fields": np.zeros(2, [("a", "i4")]), "meta": torch.zeros(2, device="meta")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_come_back_as_something_else_is_refused_by_its_path(name):
    with pytest.raises(ckpt.TreeError, match=r"^state\.a cannot be written as (array|number|tensor): "):
        dumps({"a": REFUSED[name]}, "state")


def test_a_quantised_tensor_is_refused_since_its_scale_is_elsewhere(quantised):
    with pytest.raises(ckpt.TreeError, match=r"^state\.a cannot be written as tensor: .*scale"):
        dumps({"a": quantised}, "state")
    with pytest.raises(TypeError, match=r"^x\.t is a quantised tensor"):
        ckpt.torch.layout.piece_of("x.t", quantised)
