"""Under which address other ranks reach this one."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping


def _of_name() -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)]


def address_of(world: int, environ: Mapping[str, str] = os.environ, look_up: Callable[[], list[str]] = _of_name) -> str:
    """What CKPT_ADDRESS says (``ckpt run --nodes``); loopback if all ranks are on this node; MASTER_ADDR (torchrun); else what this machine's name
    stands for. ValueError: that is only loopback, as on Debian."""
    if environ.get("CKPT_ADDRESS"):
        return environ["CKPT_ADDRESS"]
    local = environ.get("CKPT_LOCAL_WORLD") or environ.get("LOCAL_WORLD_SIZE") or str(world)
    if local.isdigit() and int(local) >= world:
        return "127.0.0.1"
    if environ.get("MASTER_ADDR"):
        return environ["MASTER_ADDR"]
    for address in look_up():
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return address
    raise ValueError("no address of this node is known that ranks on other nodes reach: set CKPT_ADDRESS on each node")
