"""A rank of a node is lost for good, and a spare has room for it: what the ranks of a node hold alike is divided among them, so that what is in
memory fits them together alone."""

import os
import re
import signal
import sys

from elastic import cluster, halted_undisturbed, whole
from launcher import tidy
from tap import Cases, expect, has

cases = Cases(tidy)
case = cases.case


def replicated(node):
    """The newest step of which its log says that every rank has its copies."""
    steps = re.findall(r"step (\d+) epoch \d+ replicated", node.daemon.text())
    return int(steps[-1]) if steps else 0


def give_up(node, rank):
    """Its process is killed; a launcher that may restart none does without it."""
    pid = next(r["pid"] for r in node.daemon.job("default")["ranks"] if r["rank"] == rank)
    os.kill(pid, signal.SIGKILL)


def two_and_a_spare(nodes, *args, every):
    """Two ranks each; whoever loses one starts no other. Once something is replicated that is not on storage: which step."""
    a, b, c = nodes
    for node in (a, b):
        node.start("--max-restarts", 0, *args, n=2, ranks=2, every=every)
    c.start("--spare", *args, n=2, ranks=2, every=every)
    a.run.until("copies of what is not on storage", lambda: replicated(a) >= 100)
    return replicated(a)


def went_on(nodes, least):
    """From no older step; nobody calculates what differs in a bit from an undisturbed run."""
    halted_undisturbed(nodes, 4)
    back = int(re.search(r"4 ranks go on from \w+ at step (\d+)", nodes[0].said()).group(1))
    expect(least <= back, "replicated", least, "goes on from", back)


@case("a rank that moves alone goes on from what was newest in memory, which is written first")
def _():
    with cluster("abc", "--copies", 1) as (store, nodes):
        a, b, c = nodes
        least = two_and_a_spare(nodes, "--min-ranks", 2, every=1000)
        give_up(b, 3)
        a.run.until_err("4 ranks go on from")
        went_on(nodes, least)
        has(b.said(), "is not started again: this node goes on with 1 ranks")
        has(a.daemon.text(), "its 4 ranks are about to become 4, on other nodes", "1 ranks on node b", "1 ranks on node c")
        whole(store)


@case("without a store the ranks of its node move with it, out of the memory of others")
def _():
    with cluster("abc", "--copies", 1, store=False) as (_, nodes):
        a, b, c = nodes
        least = two_and_a_spare(nodes, "--min-ranks", 4, every=50)
        give_up(b, 3)
        b.run.until_err("none of them here: this node waits")
        a.run.until_err("4 ranks go on from")
        went_on([a, c], least)
        b.ended()
        has(c.daemon.text(), "epoch 1 from peer, ready")


sys.exit(cases.end())
