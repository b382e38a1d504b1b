#!/usr/bin/env python3
"""bench/strangers.py [--mib N] [--rounds N] [--saves N] [--connections N] [--pause MS] [--dir DIR] [--programs DIR] [--check]

How long a save takes until another node has a copy, beside connections of strangers to both daemons' ports, against none; in turns. Two
daemons on addresses of loopback, one rank. The strangers, two processes, connect as fast as they can, from the addresses of both nodes: one in three
says nothing, one noise, one the beginning of a handshake. They keep hundreds open, and make N connections in all.

    ratio    median of a round's saves beside strangers, to that of the round before without      ceiling 2
"""
import contextlib
import json
import multiprocessing
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

import node as nodes

CEILING = 2.0
HOSTS = ("127.0.0.1", "127.0.0.2")
KEPT = 300


def free_port(host):
    with socket.create_server((host, 0)) as door:
        return door.getsockname()[1]


def first_words():
    """Of a handshake, by a TLS that has no key."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="other").do_handshake()
    return out.read()


def flood(places, go, count, pause):
    """Whenever it is to go on; pause: seconds after each connection."""
    kept, words = [], first_words()
    while go.wait():
        time.sleep(pause)
        with contextlib.suppress(OSError):
            s = socket.socket()
            kept.append(s)
            s.settimeout(1)
            s.bind((HOSTS[count.value % 2], 0))
            s.connect(places[count.value // 2 % 2])
            if count.value % 3:
                s.sendall(words if count.value % 3 == 1 else os.urandom(200))
        with count.get_lock():
            count.value += 1
        if len(kept) > KEPT:
            for old in kept[:KEPT // 2]:
                old.close()
            kept = kept[KEPT // 2:]


class Other:
    """The node that holds copies."""

    def __init__(self, args, home, options):
        self.log = open(os.path.join(home, "other.log"), "w")
        self.process = subprocess.Popen([os.path.join(args.programs, "ckptd"), "--socket", os.path.join(home, "other.sock"),
                                         "--node", "other", *options], stderr=self.log)

    def close(self):
        self.process.kill()
        self.process.wait()


def replicated_ms(args, node, step):
    """Of a save that was captured."""
    command = [os.path.join(args.programs, "ckpt"), "status", "--json", "--socket", os.path.join(node.home, "ckptd.sock")]
    limit = time.monotonic() + nodes.DEADLINE
    while time.monotonic() < limit:
        job = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["jobs"][0]
        for save in job["saves"]["recent"]:
            if save["step"] == step and save["replicated_ms"]:
                return save["replicated_ms"]
        time.sleep(0.05)
    raise nodes.Failed(f"step {step} is not replicated: {job['saves']}")


def saves(args, node, first):
    times = []
    for step in range(first, first + args.saves):
        node.all("touch 0")
        node.save(step, "memory")
        times.append(replicated_ms(args, node, step))
    return times


def measure(args, home, go, count):
    """[(quiet, beside strangers)], milliseconds; more rounds than were asked for, until all connections have been made."""
    roster, key = os.path.join(home, "roster"), os.path.join(home, "key")
    places = [(host, free_port(host)) for host in HOSTS]
    with open(roster, "w") as file:
        file.write("".join(f"{name} {host}:{port}\n" for name, (host, port) in zip(("bench", "other"), places)))
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(os.urandom(32).hex())
    options = ["--cluster", roster, "--cluster-key", key]
    other = Other(args, home, options)
    strangers = [multiprocessing.Process(target=flood, args=(places, go, count, args.pause / 1000), daemon=True) for _ in range(2)]
    try:
        with nodes.Node(args.programs, home, 1, ["--mib", str(args.mib)], options=options) as node:
            for stranger in strangers:
                stranger.start()
            rows, step = [], 1
            saves(args, node, step)
            while len(rows) < args.rounds or count.value < args.connections:
                step += 2 * args.saves
                quiet = saves(args, node, step)
                go.set()
                rows.append((quiet, saves(args, node, step + args.saves)))
                go.clear()
            return rows
    finally:
        for stranger in strangers:
            stranger.kill()
        other.close()


def main():
    args = nodes.options(mib=64, rounds=5, saves=10, connections=100_000, pause=0).parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    go, count = multiprocessing.Event(), multiprocessing.Value("q", 0)
    with tempfile.TemporaryDirectory(dir=args.dir) as home:
        rows = measure(args, home, go, count)
    for name, at in (("quiet", 0), ("strangers", 1)):
        print(f"{name:10} {nodes.median([ms for row in rows for ms in row[at]], digits=1)} ms")
    ratios = [statistics.median(beside) / statistics.median(quiet) for quiet, beside in rows]
    print(f"ratio      {nodes.median(ratios)}, {count.value} connections")
    return 1 if statistics.median(ratios) > CEILING and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
