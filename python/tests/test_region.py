"""Boxes of a cut tensor, against a tensor that is cut by hand."""

import itertools
import random

import numpy as np
import pytest

from ckpt.region import Cut, boxes_of, chunk, runs_of


def by_hand(indices, cuts):
    """What stays of a dimension: numpy arrays instead of arithmetic."""
    for cut in cuts:
        def parts(a, n):
            size = -(-len(a) // n)
            return [a[i * size:(i + 1) * size] for i in range(n)]
        indices = np.concatenate([parts(p, cut.count)[cut.index] for p in parts(indices, cut.split)])
    return indices


def test_a_chunk_is_as_torch_cuts_it():
    assert [chunk(7, 3, i) for i in range(3)] == [(0, 3), (3, 3), (6, 1)]
    assert [chunk(2, 4, i) for i in range(4)] == [(0, 1), (1, 1), (2, 0), (2, 0)]
    assert chunk(0, 3, 1) == (0, 0)


def test_runs_are_those_indices_in_that_order():
    draw = random.Random(1)
    for _ in range(500):
        size = draw.randrange(40)
        cuts = [Cut(n := draw.randint(1, 4), draw.randrange(n), draw.choice((1, 1, 2, 3))) for _ in range(draw.randint(0, 3))]
        runs = runs_of(size, cuts)
        assert [i for s, n in runs for i in range(s, s + n)] == list(by_hand(np.arange(size), cuts)), (size, cuts)
        assert all(a + n != b for (a, n), (b, _) in itertools.pairwise(runs)), "runs that touch are one"


@pytest.mark.parametrize("world", [(2, 2), (3, 2), (4, 1)])
def test_boxes_of_all_ranks_make_the_whole(world):
    shape = (9, 5, 6)
    whole = np.arange(np.prod(shape)).reshape(shape)
    seen = np.zeros(shape, int)
    for a, b in itertools.product(range(world[0]), range(world[1])):
        cuts = {0: [Cut(world[0], a, world[1]), Cut(world[1], b)], 2: [Cut(1, 0)]}
        local = whole[by_hand(np.arange(9), cuts[0])]
        for box in boxes_of(shape, cuts):
            there = tuple(slice(o, o + e) for o, e in zip(box.offset, box.extent))
            here = tuple(slice(o, o + e) for o, e in zip(box.local, box.extent))
            assert (whole[there] == local[here]).all()
            seen[there] += 1
    assert (seen == 1).all()


def test_of_a_number_there_is_one_box_and_of_nothing_none():
    assert len(boxes_of((), {})) == 1 and boxes_of((), {})[0].extent == ()
    assert boxes_of((0, 3), {}) == [] and boxes_of((2, 3), {0: [Cut(4, 3)]}) == []
