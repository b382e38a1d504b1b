"""The address that others are told."""

import pytest

from ckpt.address import address_of

LOOPBACK = ["127.0.1.1", "::1"]


@pytest.mark.parametrize("environ, address", [({"CKPT_ADDRESS": "10.0.0.1", "MASTER_ADDR": "x"}, "10.0.0.1"), ({}, "127.0.0.1"),
                                              ({"LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "x"}, "127.0.0.1"), ({"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "x"}, "x"),
                                              ({"CKPT_LOCAL_WORLD": "2", "LOCAL_WORLD_SIZE": "4"}, "10.9.9.9")])
def test_the_first_that_says_it_counts(environ, address):
    assert address_of(4, environ, lambda: [*LOOPBACK, "10.9.9.9"]) == address


def test_loopback_is_no_address_for_other_nodes():
    with pytest.raises(ValueError, match="set CKPT_ADDRESS on each node"):
        address_of(4, {"LOCAL_WORLD_SIZE": "2"}, lambda: LOOPBACK)
