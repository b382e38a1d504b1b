"""Daemons of a cluster on this machine's loopback, each with a node's name, a socket and perhaps a store of its own."""

import contextlib
import itertools
import os
import pathlib
import random
import socket
import tempfile

from single_node import Daemon, Failure, until


BLOCK = 64
HELD, LEFT = [], []  # what says that ports are this process's; those of them that were not given yet


def take_block():
    """Ports below those that the kernel gives to whoever asks for any. Tests run side by side: no two have the same, listened on or not."""
    while not LEFT:
        first, held = random.randrange(10000, 32768 - BLOCK, BLOCK), socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            held.bind(f"\0ckpt-test-ports-{first}")
            HELD.append(held)
            LEFT.extend(range(first, first + BLOCK))


def free_port(host):
    """One that stays free until it is listened on, and while a daemon is away."""
    while True:
        take_block()
        with socket.socket() as sock, contextlib.suppress(OSError):
            port = LEFT.pop()
            sock.bind((host, port))
            return port


# Each cluster of a test has addresses of its own.
NUMBERS = itertools.count()


class Neighbour(Daemon):
    """A daemon of a Cluster."""

    def held(self):
        """Bytes that it holds for others."""
        return self.status()["memory"]["copies"]


class Cluster:
    def __init__(self, names):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.roster, self.key = self.top / "roster", self.top / "key"
        net = next(NUMBERS)
        hosts = [f"127.{net >> 8}.{net & 255}.{n + 1}" for n in range(len(names))]
        self.roster.write_text("".join(f"{name} {host}:{free_port(host)}\n" for name, host in zip(names, hosts)))
        self.key.write_text(os.urandom(32).hex())
        self.key.chmod(0o600)

    def daemon(self, name, *options):
        daemon = Neighbour(store=False)
        daemon.options = ["--node", name, "--cluster", self.roster, "--cluster-key", self.key,
                          "--peer-timeout", "10s", *map(str, options)]  # on a busy machine nobody is lost but who is killed
        return daemon


@contextlib.contextmanager
def loopback_cluster(names, variables=None, **options):
    """All of them, once they know each other. options, variables: of those that are named."""
    cluster = Cluster(names)
    daemons = {name: cluster.daemon(name, *options.get(name, ())) for name in names}
    try:
        for name, daemon in daemons.items():
            daemon.start(**(variables or {}).get(name, {}))
        for daemon in daemons.values():
            until(lambda d=daemon: all(n["up"] for n in d.status()["cluster"]["nodes"]), "the nodes find each other")
        yield daemons
    except Exception as error:
        logs = "".join(f"---- {name}\n{daemon.text()[-3000:]}" for name, daemon in daemons.items())
        raise Failure(f"{type(error).__name__}: {error}\n{logs}") from error
    finally:
        for daemon in daemons.values():
            daemon.close()
