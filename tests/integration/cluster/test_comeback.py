"""Daemons and nodes of a job on several nodes that come back: they are waited for, and nothing is lost."""

import sys

from elastic import cluster, halted_undisturbed, until_log, whole
from launcher import tidy
from tap import Cases, equal, expect, until

cases = Cases(tidy)
case = cases.case


def world_of(node):
    """Each node that offers processes or is drained, as the coordinator's daemon knows it: name, ranks, leaving."""
    return [(n["node"], n["ranks"], n["leaving"]) for world in node.daemon.status()["worlds"] for n in world["nodes"]]


@case("a daemon that comes back in time keeps its ranks: any node's, and that of the coordinator")
def _():
    with cluster("abc", "--node-wait", "20s") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2)
        for node in (c, a):
            a.reaches(a.step() + 60)
            node.daemon.kill()
            node.daemon.start()
            a.run.until(f"{node.name} is back", lambda: a.said().count("3 ranks go on from") == (1 if node is c else 2))
        halted_undisturbed(nodes, 3)
        whole(store)


@case("a drained node stays so when the coordinator's daemon is restarted, or its own, or both")
def _():
    with cluster("abc", "--node-wait", "60s") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2)
        a.reaches(60)
        code, out, err = a.daemon.ckpt("drain", "c", "--job", "default", "--socket", a.daemon.socket)
        expect(code == 0, code, out, err)
        for restarted in ([a], [c], [a, c]):
            for node in restarted:
                node.daemon.kill()
            for node in restarted:
                node.daemon.start()
            until(lambda: world_of(a) == [("a", 1, False), ("b", 1, False), ("c", 0, True)], "all are there again")
            a.reaches(a.step() + 60)
            equal(world_of(a)[2], ("c", 0, True))
        equal(a.daemon.ckpt("drain", "c", "--undo", "--job", "default", "--socket", a.daemon.socket)[0], 0)
        until(lambda: ("c", 1, False) in world_of(a), "it has its rank again")
        a.halt()
        equal([node.ended()["world"] for node in nodes], [3, 3, 3])
        whole(store)


@case("a drain as a fault is taken back after the time that is given")
def _():
    with cluster("abc", "--node-wait", "60s", "--faults") as (_, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2)
        a.reaches(60)
        fault = ("fault", "drain", "c", "--job", "default", "--socket", a.daemon.socket)
        code, out, err = a.daemon.ckpt(*fault, "--for", "2s")
        expect(code == 0, code, out, err)
        (told,) = a.daemon.job("default")["faults"]
        equal([told["kind"], told["outcome"], told["for_ms"]], ["drain", "fired", 2000])
        until(lambda: "2 ranks go on" in a.said() and ("c", 1, False) in world_of(a), "it had none, and has its rank again")
        expect(a.daemon.ckpt(*fault[:2], "nobody", *fault[3:])[0] == 1, "there is no such node")
        a.halt()
        equal([node.ended()["world"] for node in nodes], [3, 3, 3])


def daemons_come_back_together(names, *how):
    """Of a job without a store: what all go on from is in the arenas that the ranks hand back, the copies are lost."""
    with cluster("abc", "--copies", 1, "--node-wait", "20s", store=False) as (_, nodes):
        for k, node in enumerate(nodes):
            node.start(*(how or ("--node-rank", k)))
        nodes[0].reaches(100)
        two = [node for node in nodes if node.name in names]
        for node in two:
            node.daemon.kill()
        for node in two:
            node.daemon.start()
        nodes[0].run.until_err("3 ranks go on from memory")
        halted_undisturbed(nodes, 3)


@case("two daemons that are restarted at once lose nothing, without a store")
def _():
    daemons_come_back_together("bc", "--min-ranks", 3)


@case("two daemons that are restarted at once lose nothing, the coordinator's among them")
def _():
    daemons_come_back_together("ab", "--min-ranks", 3)


@case("two daemons that are restarted at once lose nothing, where nobody plans the ranks")
def _():
    daemons_come_back_together("ac")


@case("a job with too few nodes waits for one more")
def _():
    with cluster("abc") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 3)
        a.reaches(100)
        c.lose()
        until_log(a.daemon, "2 ranks could go on, and it needs 3: it waits for nodes")
        c.daemon.start()
        c.start("--min-ranks", 3)
        a.run.until_err("3 ranks go on from")
        halted_undisturbed(nodes, 3)


sys.exit(cases.end())
