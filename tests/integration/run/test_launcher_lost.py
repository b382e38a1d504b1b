"""Launchers of a job on several nodes that are killed: their daemons live, and have what their ranks had in memory."""

import re
import sys

from elastic import cluster, halted_alike, halted_undisturbed, whole
from launcher import listed, tidy
from tap import Cases, equal, expect

cases = Cases(tidy)
case = cases.case


@case("what is in memory only is written before the world goes on without the launcher of rank 0")
def _():
    with cluster("abc", "--copies", 0, "--persist-every", 1000) as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2, every=20)
        a.reaches(200)
        equal(listed(store), [20])
        a.run.child.kill()
        b.run.until("the world of two", lambda: "2 ranks go on from storage" in b.said() + c.said())
        halted_alike([b, c], 2, 3)
        back = int(re.search(r"2 ranks go on from storage at step (\d+)", b.said() + c.said()).group(1))
        expect(back >= 180, "goes on from", back)
        whole(store)


@case("a launcher that is started again in time has its ranks again")
def _():
    with cluster("abc", "--copies", 0, "--node-wait", "60s") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2)
        a.reaches(100)
        b.run.child.kill()
        b.run.child.wait()
        b.start("--min-ranks", 2)
        a.run.until_err("3 ranks go on from")
        halted_undisturbed(nodes, 3)
        expect("world size changes" not in a.daemon.text(), a.daemon.text())
        whole(store)


sys.exit(cases.end())
