"""A blob of changing size comes back with the size that it was saved with, out of memory and out of storage, also to ranks that have registered
another room for it; where it does not fit, both sizes are named and nothing older is taken.
timeout: 600"""

import json
import subprocess
import sys

import single_node
from single_node import BIN, Cases, expect
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, Puppet, all_must, each
from tap import equal

INVALID = -22
LARGE = 300000  # several leaves, so that the ranks share it


def begin(d, world, most, fixed=False):
    ranks = [Puppet(d, number, world) for number in range(world)]
    all_must(ranks, "open")
    all_must(ranks, "table", 1200 // world, 0, 6 if fixed else 0)  # 6: a blob of 200 bytes beside it
    if most:
        all_must(ranks, "sized", most)
    all_must(ranks, "join")
    return ranks


def keep(ranks, step, size, target=MEMORY, level=CAPTURED):
    all_must(ranks, "put", size)
    all_must(ranks, "fill", step * 100)
    for call in (("begin", step, target, 0), ("fence", 0), ("wait", 0, level, single_node.DEADLINE * 1000), ("drop", 0)):
        all_must(ranks, *call)


def kill(ranks):
    for rank in ranks:
        rank.kill()


def comes_back(ranks, step, size, source):
    for said in all_must(ranks, "restore", LATEST, 0):
        expect(said == f"{step} 1 {source}", "restored", said)
    all_must(ranks, "check", step * 100)
    equal(all_must(ranks, "size"), [str(size)] * len(ranks))


def refused(ranks, *parts):
    for answer in each(ranks, "restore", LATEST, 0):
        expect(answer.code == INVALID and all(part in answer.text for part in parts), answer)


cases = Cases()


@cases.case("out of memory, into the same room, at each size")
def _():
    with single_node.daemon() as d:
        d.start()
        for step, size in enumerate((0, 1, 1000, LARGE, 65528, 7), 1):
            ranks = begin(d, 2, LARGE)
            keep(ranks, step, size)
            kill(ranks)
            ranks = begin(d, 2, LARGE)
            all_must(ranks, "restore", LATEST, 0)
            equal(all_must(ranks, "size"), [str(size)] * 2)
            kill(ranks)


for source in ("memory", "storage"):
    for world in (2, 3):
        @cases.case(f"out of {source}, into another room, by {world} ranks what 2 have saved")
        def _(source=source, world=world):
            for size in (100, 70000, 200000):
                with single_node.daemon() as d:
                    d.start()
                    ranks = begin(d, 2, 200000)
                    keep(ranks, 1, size, *((STORAGE, DURABLE) if source == "storage" else (MEMORY, CAPTURED)))
                    kill(ranks)
                    if source == "storage":
                        d.stop()
                        d.start()
                    for most in (size - 1, 5 * LARGE, size):
                        ranks = begin(d, world, most)
                        if most < size:
                            refused(ranks, "blob tree", f"{size} bytes were saved", f"room for {most}")
                        else:
                            comes_back(ranks, 1, size, source)
                        kill(ranks)
                        if source == "storage":  # what was restored is in memory now
                            d.stop()
                            d.start()


for source in ("memory", "storage"):
    @cases.case(f"out of {source}, beside a blob of a fixed size")
    def _(source=source):
        with single_node.daemon() as d:
            d.start()
            ranks = begin(d, 2, LARGE, fixed=True)
            keep(ranks, 1, 70000, *((STORAGE, DURABLE) if source == "storage" else (MEMORY, CAPTURED)))
            kill(ranks)
            if source == "storage":
                d.stop()
                d.start()
            ranks = begin(d, 2, LARGE, fixed=True)
            comes_back(ranks, 1, 70000, source)
            kill(ranks)


@cases.case("a fixed size is not a changing one")
def _():
    with single_node.daemon() as d:
        d.start()
        ranks = begin(d, 1, 0, fixed=True)
        all_must(ranks, "begin", 1, STORAGE, 0)
        all_must(ranks, "fence", 0)
        all_must(ranks, "wait", 0, DURABLE, single_node.DEADLINE * 1000)
        kill(ranks)
        d.stop()
        d.start()
        ranks = begin(d, 1, 100)
        refused(ranks, "tree")


@cases.case("the store says that it is one, verifies, and gives out what is in it")
def _():
    with single_node.daemon() as d:
        d.start()
        ranks = begin(d, 2, LARGE)
        keep(ranks, 1, 1234, STORAGE, DURABLE)
        kill(ranks)
        d.stop()

        def ckpt(*args):
            return subprocess.run([BIN / "ckpt", *args, "--repo", d.store], check=True, capture_output=True).stdout

        ckpt("verify")
        tree = next(t for t in json.loads(ckpt("ls", "--json"))["tensors"] if t["name"] == "tree")
        equal((tree["kind"], tree["sized"], tree["bytes"]), ("job-blob", True, LARGE + 8))
        dumped = ckpt("dump", "latest", "tree", "--output", "-")
        equal(dumped, bytes((i * 31 + i // 251 + 5) & 255 for i in range(1234)))


sys.exit(cases.end())
