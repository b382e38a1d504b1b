"""Arrays of JAX as tensors: which boxes of a whole are on this process, where they stand, and how an array is made of boxes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import Error
from ..memory import HOST, Memory, dtype_name
from ..piece import Piece

Box = tuple[tuple[int, ...], tuple[int, ...]]  # where it begins, and its size


def _box(index: tuple[slice, ...], shape: tuple[int, ...]) -> Box:
    runs = [s.indices(n)[:2] for s, n in zip(index, shape)]
    return tuple(a for a, _ in runs), tuple(b - a for a, b in runs)


def boxes_of(name: str, shape: tuple[int, ...], sharding: Any) -> tuple[dict[Box, list[Any]], str | None]:
    """The boxes that this process has of an array, each with the devices that it is on; and the replica group, if other processes have the same."""
    here: dict[Box, list[Any]] = {}
    holders: dict[int, set[Box]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        box = _box(index, shape)
        holders.setdefault(device.process_index, set()).add(box)
        if device.process_index == jax.process_index():
            here.setdefault(box, []).append(device)
    if sharding.is_fully_addressable:
        return here, "all" if jax.process_count() > 1 else None
    distinct = {frozenset(boxes) for boxes in holders.values()}
    if sum(map(len, distinct)) != len(frozenset().union(*distinct)):
        raise TypeError(f"{name}: two processes hold some parts of it that are the same and some that are not: give it a sharding in which they hold the "
                        "same parts, or different ones")
    return here, "all" if len(distinct) < len(holders) else None


def ordinal(name: str, device: Any) -> int:
    if device.platform == "cpu":
        return HOST
    if device.platform not in ("gpu", "cuda"):
        raise TypeError(f"{name} is on a device of platform {device.platform}: only the host and CUDA devices are saved from")
    return int(device.local_hardware_id)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) or (isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is not None)


def _bits(leaf: Any) -> tuple[Any, str | None]:
    """Of keys of random numbers their bits and the kind of the generator; else the array itself."""
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf, None
    if not isinstance(leaf, jax.Array):
        raise TypeError("keys of random numbers are wanted as an array, not as a description of one")
    return jax.random.key_data(leaf), str(jax.random.key_impl(leaf))


class Tensor:
    """An array of the state as it is registered. Its parts are arrays on one device each, one for each box."""

    def __init__(self, name: str, leaf: Any) -> None:
        data, self.key = _bits(leaf)
        self.name, self.shape, self.dtype, self.sharding = name, tuple(data.shape), data.dtype, data.sharding
        try:
            self.element = dtype_name(data, np.dtype(self.dtype).str)
        except TypeError as e:
            raise TypeError(f"{name}: {e}") from e
        boxes, self.replica = boxes_of(name, self.shape, self.sharding)
        self.boxes = {box: devices for box, devices in boxes.items() if all(box[1]) or not all(self.shape)}
        if len({ordinal(name, d) for devices in self.boxes.values() for d in devices}) > 1:
            raise TypeError(f"{name} is on several GPUs of this process: start a process for each GPU")
        layout = data.format.layout if isinstance(data, jax.Array) and self.boxes else None
        if layout is not None and (tuple(layout.major_to_minor) != tuple(range(data.ndim)) or layout.tiling):
            raise TypeError(f"{name} has a layout of its own, {layout}: only arrays in row-major order are saved")

    def fresh(self) -> list[Any]:
        """Parts that nobody else has seen: a restore writes into them."""
        parts = [jnp.zeros(size, self.dtype, device=devices[0]) for (_, size), devices in self.boxes.items()]
        jax.block_until_ready(parts)
        return parts

    def parts(self, leaf: Any) -> list[Any]:
        """Those of an array that takes the place of the one that was registered."""
        data, key = _bits(leaf) if isinstance(leaf, jax.Array) else (leaf, None)
        now, was = (getattr(data, "shape", None), getattr(data, "dtype", type(leaf).__name__), key), (self.shape, self.dtype, self.key)
        if now != was:
            raise Error(22, f"{self.name} is {now[1]} {now[0]} now; registered is {was[1]} {was[0]}")
        if not data.sharding.is_equivalent_to(self.sharding, data.ndim):
            raise Error(22, f"{self.name} has the sharding {data.sharding} now; registered is {self.sharding}")
        at = {shard.device: shard.data for shard in data.addressable_shards}
        return [at[devices[0]] for devices in self.boxes.values()]

    def memory(self, part: Any) -> Memory:
        """Where a part stands. The part is not kept alive with it."""
        return Memory(part.unsafe_buffer_pointer(), self.element, tuple(part.shape), None, ordinal(self.name, next(iter(part.devices()))))

    def pieces(self, parts: Sequence[Any]) -> list[Piece]:
        return [Piece(self.memory(part), box[0]) for box, part in zip(self.boxes, parts)]

    def whole(self, parts: Sequence[Any]) -> Any:
        """An array of these parts, for all devices of this process."""
        at = {device: part if device == devices[0] else jax.device_put(part, device)
              for devices, part in zip(self.boxes.values(), parts) for device in devices}
        for device, index in self.sharding.addressable_devices_indices_map(self.shape).items():
            if device not in at:  # nothing of it is here
                at[device] = jnp.zeros(_box(index, self.shape)[1], self.dtype, device=device)
        devices = self.sharding.addressable_devices_indices_map(self.shape)
        data = jax.make_array_from_single_device_arrays(self.shape, self.sharding, [at[d] for d in devices], dtype=self.dtype)
        return data if self.key is None else jax.random.wrap_key_data(data, impl=self.key)
