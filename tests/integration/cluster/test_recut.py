"""Without a store: a job whose world changes goes on from what memory has of the old world, cut anew for the ranks of the new one.
timeout: 600"""

import json
import re
import sys

from elastic import cluster, halted_alike, none_twice
from launcher import tidy
from tap import Cases, equal, expect, has, until

cases = Cases(tidy)
case = cases.case


def replicated(node):
    """The newest step of which its log says that every rank has its copies."""
    steps = re.findall(r"step (\d+) epoch \d+ replicated", node.daemon.text())
    return int(steps[-1]) if steps else 0


def recoveries(node):
    return json.loads(node.daemon.ckpt("recoveries", "--job", "default", "--json", "--socket", node.daemon.socket)[1])["recoveries"]


def went_on(node, ranks, least):
    """So many ranks go on from memory, its own or that of other nodes, at no older step. Which."""
    node.run.until_err(f"{ranks} ranks go on from")
    found = re.search(rf"{ranks} ranks go on from (?:memory|a peer) at step (\d+)", node.said())
    expect(found, node.said())
    expect(least <= int(found.group(1)), "replicated", least, "goes on from", found.group(0))
    return int(found.group(1))


@case("what memory has of a larger world is cut anew when a node is lost, and again when it comes back")
def _():
    with cluster("abc", "--copies", 1, store=False) as (_, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2, every=0)
        a.run.until("copies of a step", lambda: replicated(a) >= 100)
        least = replicated(a)
        c.lose()
        step = went_on(a, 2, least)
        for node in (a, b):
            until(lambda: f"step {step} epoch 1 was cut anew for the ranks here, out of" in node.daemon.text(), f"it is said on node {node.name}")
        has(a.daemon.text(), "in memory of a world of 3")
        a.reaches(step + 60)
        equal([r["cut_from"] for r in recoveries(a) if r["step"] == step], [3])
        c.daemon.start()
        c.start("--min-ranks", 2, every=0)
        went_on(a, 3, step)
        until(lambda: "in memory of a world of 2" in c.daemon.text(), "it is said on node c")
        halted_alike(nodes, 3, 3)
        none_twice(nodes, 3)


sys.exit(cases.end())
