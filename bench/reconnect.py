#!/usr/bin/env python3
"""bench/reconnect.py [--runs N] [--programs DIR] [--check]

From the end of a session between two nodes until the next one stands, on addresses of loopback: TCP, the handshake, both hellos. Two
processes that have a net and nothing else (tests/integration/tools/net_node.c). Floor: 100 ms.

    dropped     one side ends it: both processes live
    restarted   the other process is killed; since the new one was started, while the loss is noticed
"""
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time

import node as nodes

FLOOR_MS = 100
SILENCE_MS = 1000


def free_place(host):
    with socket.create_server((host, 0)) as door:
        return f"{host}:{door.getsockname()[1]}"


class Pair:
    def __init__(self, folder, start):
        self.roster, self.key, self.start = folder / "roster", folder / "key", start
        self.roster.write_text(f"a {free_place('127.0.0.1')}\nb {free_place('127.0.0.2')}\n")
        self.key.write_text(os.urandom(32).hex())
        self.key.chmod(0o600)
        self.a, self.b = self.node("a", 0), self.node("b", 1)
        self.a.expect("up", "1")
        self.b.expect("up", "0")

    def node(self, name, number):
        return self.start(name, number, self.roster, self.key, SILENCE_MS)

    def drop(self):
        self.a.ask("drop 1 -71", "dropped")

    def restart(self):
        self.b.process.kill()
        self.b.process.wait()
        self.b = self.node("b", 1)

    def measure(self, end):
        """Milliseconds until a has another session."""
        end()
        begun = time.monotonic()
        self.a.expect("down", "1")
        self.a.expect("up", "1")
        taken = 1000 * (time.monotonic() - begun)
        self.b.expect("up", "0")
        return taken

    def close(self):
        for node in (self.a, self.b):
            node.process.kill()
            node.process.wait()


def main():
    args = nodes.options(runs=50).parse_args()
    os.environ["CKPT_BUILD"] = os.path.abspath(args.programs)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
    from net_nodes import NetNode
    missed = False
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(pathlib.Path(folder), NetNode)
        try:
            for name, end in (("dropped", pair.drop), ("restarted", pair.restart)):
                values = [pair.measure(end) for _ in range(args.runs)]
                missed |= statistics.median(values) > FLOOR_MS
                print(f"{name:10} {nodes.median(values, digits=1)} ms")
        finally:
            pair.close()
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
