"""The daemons of a pair whose ranks are on several nodes."""

import contextlib
import shutil

from actors import Service
from loopback_cluster import Cluster, Neighbour
from tap import until

NAMES = "abc"
FIRST = "a"  # of the roster: it coordinates jobs of several nodes


class Node(Service, Neighbour):
    timeout_ms = 20000  # what cannot be let in is refused after it

    def __init__(self, cluster, name):
        super().__init__(cluster.top / name, name, ("--cluster", cluster.roster, "--cluster-key", cluster.key, "--peer-timeout", "10s"))
        self.name = name


class Nodes:
    """To a play what one daemon is, and what befalls some of them."""

    def __init__(self):
        self.cluster = Cluster(NAMES)
        for name in NAMES:
            (self.cluster.top / name).mkdir()
        self.all = {name: Node(self.cluster, name) for name in NAMES}

    def of(self, program, rank):
        return self.all[program.where[rank]]

    def up(self):
        return [node for node in self.all.values() if node.alive()]

    def alive(self):
        return bool(self.up())

    def begin(self, config, away=""):
        """Those that are not there, but for some, and waits until all see who is there."""
        for name, node in self.all.items():
            if name not in away and not node.alive():
                node.begin(config)
        there = {node.name for node in self.up()}
        for node in self.up():
            until(lambda node=node: {n["name"] for n in node.status()["cluster"]["nodes"] if n["up"]} == there, f"{node.name} sees {there}")

    def change(self, config):
        for node in self.up():
            node.change(config)

    def kill(self):
        for node in self.up():
            node.process.kill()
        for node in self.all.values():
            node.kill()

    def stop(self):
        """The first exit status that is none of a clean end."""
        return max([node.stop() for node in self.up()], key=abs, default=0)

    def text(self):
        return "".join(f"---- {name}\n{node.text()}" for name, node in self.all.items())

    def close(self):
        for node in self.all.values():
            node.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.cluster.top)
