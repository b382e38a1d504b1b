"""Which steps are saved."""

import pytest

from ckpt import MEMORY, STORAGE
from ckpt.policy import Policy


def test_storage_goes_before_memory_and_needs_a_store():
    p = Policy(memory_every=2, storage_every=6)
    assert [p.target(s, True, 0) for s in range(7)] == [None, None, MEMORY, None, MEMORY, None, STORAGE]
    assert p.target(6, False, 0) == MEMORY


def test_what_was_just_restored_is_not_saved_again():
    assert [Policy(1, 0).target(s, True, 5) for s in (4, 5, 6)] == [None, None, MEMORY]
    assert Policy().target(6, True, 0) is None


def test_less_than_never_is_refused():
    with pytest.raises(ValueError, match="storage_every is -1"):
        Policy(0, -1)


def test_numbers_stand_in_where_the_daemon_does_not_say():
    assert Policy(2, 0, auto=True).by_step and not Policy(auto=True).by_step
    assert Policy(2, 0, auto=True).target(4, True, 0) == MEMORY
