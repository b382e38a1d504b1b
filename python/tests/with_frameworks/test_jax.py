"""A loop of JAX: the program of the page, with a process that is killed and with other numbers of them; and what is saved of a state."""

import os
import re

import pages
import pytest

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
jax = pytest.importorskip("jax", reason="jax is not installed")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as Spec  # noqa: E402

import ckpt  # noqa: E402
from ckpt.integrations.jax import Checkpointer  # noqa: E402
from ckpt.integrations.jax_arrays import boxes_of  # noqa: E402

PAGE = "howto/train-with-jax.md"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    top = tmp_path_factory.mktemp("undisturbed")
    return top, pages.end(pages.run(2, "undisturbed", top / "store", pages.program(PAGE, "train.py", top), 60))


def test_a_killed_process(tmp_path, undisturbed):
    said = pages.run(2, "killed", tmp_path / "store", pages.program(PAGE, "train.py", tmp_path), 60, inject="kill:rank=1@step=27")
    assert "was killed by signal 9" in said and re.search(r"step 2[567] from memory", said) and pages.end(said) == undisturbed[1], said


@pytest.mark.parametrize("processes", [1, 4])
def test_another_number_of_processes(undisturbed, processes):
    top, end = undisturbed
    assert pages.end(pages.run(processes, "undisturbed", top / "store", top / "train.py", 60)) == end


# ---- one process with four devices


def checkpointer(service, job, **options):
    return Checkpointer(job=job, socket=service.socket, world=1, rank=0, local_world=1, memory_every=1, strict_saves=True, timeout=60, **options)


def sharding(*spec):
    return NamedSharding(jax.make_mesh((2, 2), ("a", "b")), Spec(*spec))


def some(seed, shape, dtype, *spec):
    bits = jax.random.bits(jax.random.key(seed), shape, jnp.uint8)
    return jax.device_put(bits.astype(dtype), sharding(*spec))


def state_of(seed):
    kinds = {str(np.dtype(t)): some(seed, (4, 6), t, "a") for t in (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.uint8, jnp.float8_e4m3fn)}
    cuts = {"both": some(seed, (4, 6), jnp.float32, "a", "b"), "second": some(seed, (5, 4), jnp.float32, None, "b"),
            "one": some(seed, (8,), jnp.float32, ("a", "b")), "whole": some(seed, (3,), jnp.float32), "number": jnp.float32(seed), "empty": jnp.zeros((0, 3)),
            "truth": jnp.asarray(seed % 2 == 0)}
    return {"kinds": kinds, "cuts": cuts, "key": jax.random.key(seed), "old": jax.random.PRNGKey(seed), "step": seed, "about": [str(seed), (seed, None)]}


def bits_of(state):
    leaves = [jax.random.key_data(x) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in jax.tree.leaves(state)]
    return [np.asarray(x).tobytes() if isinstance(x, jax.Array) else x for x in leaves]


def shardings_of(state):
    return [x.sharding for x in jax.tree.leaves(state) if isinstance(x, jax.Array)]


def test_every_bit_is_back(service):
    with checkpointer(service, "bits") as ck:
        assert ck.restore(state_of(0)) is None
        ck.save(5, state_of(5), {"row": 7})
    empty = state_of(0)
    with checkpointer(service, "bits") as ck:
        found = ck.restore(empty)
        assert (found.step, found.local) == (5, {"row": 7})
        assert bits_of(found.state) == bits_of(state_of(5)) != bits_of(state_of(0))
        assert bits_of(empty) == bits_of(state_of(0)), "a restore has written to arrays of the caller"
        assert shardings_of(found.state) == shardings_of(empty)


def test_a_description_of_the_state_is_enough_and_the_sharding_may_be_another(service):
    value = some(1, (8, 6), jnp.float32, "a")
    with checkpointer(service, "described") as ck:
        ck.restore({"x": value})
        ck.save(1, {"x": value})
    with checkpointer(service, "described") as ck:
        found = ck.restore({"x": jax.ShapeDtypeStruct((8, 6), jnp.float32, sharding=sharding(None, ("b")))})
        assert bits_of(found.state) == bits_of({"x": value}) and found.state["x"].sharding.is_equivalent_to(sharding(None, "b"), 2)


def test_what_is_given_away_during_a_save_is_copied(service):
    change = jax.jit(lambda x: x + 1, donate_argnums=0)
    with checkpointer(service, "given") as ck:
        ck.restore(jnp.zeros(1 << 22))
        saved = state = jnp.full(1 << 22, 5.0)
        assert ck.begin(5, state)
        state = change(state)
        assert not saved.is_deleted()
        ck.fence()
        found = ck.restore(state)
        assert found.step == 5 and (np.asarray(found.state) == 5).all() and (np.asarray(state) == 6).all()
        given = found.state
        change(given)
        assert given.is_deleted(), "memory of a state is held although no save reads it"


def test_saves_follow_the_addresses(service):
    step = jax.jit(lambda x: x + 1)
    with checkpointer(service, "moves", slots=4) as ck:
        ck.restore(jnp.zeros(1000))
        state = jnp.zeros(1000)
        for i in range(1, 6):
            state = step(state)
            ck.session.wait_slot()
            assert ck.begin(i, state)
        ck.fence()
        found = ck.restore(state)
        assert (np.asarray(found.state) == found.step).all() and found.step >= 4


@pytest.mark.parametrize("leaf, sentence", [(np.zeros(3), r"state\.part\.x is a numpy\.ndarray"), (object(), r"state\.part\.x is a builtins\.object")])
def test_what_has_no_place_is_refused_by_its_path(service, leaf, sentence):
    with checkpointer(service, "refused") as ck, pytest.raises(ckpt.TreeError, match=sentence):
        ck.restore({"part": {"x": leaf}})


def test_an_element_type_without_a_name_is_refused_by_its_path(service):
    with checkpointer(service, "types") as ck, pytest.raises(TypeError, match=r"part\.x: elements of type"):
        ck.restore({"part": {"x": jnp.zeros(3, jnp.int4)}})


@pytest.mark.parametrize("other, sentence", [({"x": jnp.zeros(3)}, r"x is float32 \(3,\) now; registered is float32 \(4,\)"),
                                             ({"x": jnp.zeros(4, jnp.int32)}, "x is int32"), ({"x": 1}, "x is in one of"),
                                             ({"x": jnp.zeros(4), "y": jnp.zeros(4)}, "y is in one of"),
                                             ({"x": jax.device_put(jnp.zeros(4), sharding("a"))}, "x has the sharding")])
def test_another_state_is_a_failed_save_that_names_it(service, other, sentence):
    with checkpointer(service, "another") as ck:
        ck.restore({"x": jnp.zeros(4)})
        with pytest.raises(ckpt.Error, match=sentence):
            ck.begin(1, other)


class Device:
    def __init__(self, process):
        self.process_index = process


class Cut:
    """A sharding of two processes: which device of which process has which elements."""

    is_fully_addressable = False

    def __init__(self, *places):
        self.places = {Device(p): (slice(a, b),) for p, a, b in places}

    def devices_indices_map(self, shape):
        return self.places


def test_parts_of_processes():
    assert boxes_of("x", (4,), Cut((0, 0, 2), (1, 2, 4)))[1] is None
    boxes, replica = boxes_of("x", (4,), Cut((0, 0, 2), (0, 2, 4), (0, 0, 2), (1, 2, 4), (1, 0, 2)))
    assert replica == "all" and {box: len(devices) for box, devices in boxes.items()} == {((0,), (2,)): 2, ((2,), (2,)): 1}
    with pytest.raises(TypeError, match="x: two processes hold some parts"):
        boxes_of("x", (4,), Cut((0, 0, 2), (0, 2, 3), (1, 2, 3), (1, 3, 4)))
