"""A drain is on record before anybody is told, and the next coordinator reads it there: nodes and launchers need not remember it. While it cannot be
recorded, nothing happens, and who asks hears why."""

import json
import pathlib
import sys

from elastic import cluster, halted, until_log
from launcher import tidy
from tap import Cases, equal, expect, has, until

cases = Cases(tidy)
case = cases.case


def record_of(store):
    return pathlib.Path(store) / "default" / "EPOCH"


def drained(store):
    return json.loads(record_of(store).read_text()).get("drained", [])


def drain(at, name, *how):
    return at.daemon.ckpt("drain", name, *how, "--job", "default", "--socket", at.daemon.socket)


def world_of(node):
    """Each node that offers processes or is drained, as the coordinator's daemon knows it: name, ranks, leaving."""
    return [(n["node"], n["ranks"], n["leaving"]) for world in node.daemon.status()["worlds"] for n in world["nodes"]]


def begin(nodes):
    for node in nodes:
        node.start("--min-ranks", 2)
    for node in nodes:
        node.reaches(60)


@case("a node stays drained although the coordinator's daemon, its own and its launcher are lost together")
def _():
    with cluster("abc", "--node-wait", "60s") as (store, nodes):
        a, b, c = nodes
        begin(nodes)
        equal(drain(b, "c")[0], 0)
        equal(drained(store), ["c"])
        a.daemon.kill()
        c.lose()
        c.daemon.start()
        c.start("--min-ranks", 2)
        a.daemon.start()
        until(lambda: world_of(a) == [("a", 1, False), ("b", 1, False), ("c", 0, True)], "all are there again")
        has(a.daemon.text(), "node c is drained, as is on record")
        equal(drain(a, "c", "--undo")[0], 0)
        equal(drained(store), [])
        until(lambda: ("c", 1, False) in world_of(a), "it has a rank again")
        halted(nodes, 3)


@case("a drain that was taken back while the node was away stays so, although its launcher remembers the drain")
def _():
    with cluster("abc", "--node-wait", "60s") as (store, nodes):
        a, b, c = nodes
        begin(nodes)
        equal(drain(a, "c")[0], 0)
        c.daemon.kill()
        equal(drain(a, "c", "--undo")[0], 0)
        equal(drained(store), [])
        a.daemon.kill()
        c.daemon.start()
        a.daemon.start()
        until(lambda: ("c", 1, False) in world_of(a), "it has a rank again")
        halted(nodes, 3)


@case("a drain that cannot be recorded changes nothing, and says so; it is done as soon as it can be")
def _():
    with cluster("abc", "--node-wait", "60s") as (store, nodes):
        a, b, c = nodes
        begin(nodes)
        record_of(store).rename(pathlib.Path(store) / "kept")
        record_of(store).mkdir()  # no file takes its place
        code, _, err = drain(b, "c")
        expect(code == 1 and "is not on record yet, and nobody is told before it is" in err, code, err)
        until_log(a.daemon, "or what was asked of the job, cannot be recorded, nobody is told of it")
        expect(("c", 1, False) in world_of(a), world_of(a))
        code, _, err = drain(a, "b")
        expect(code == 1 and "what was asked of node c is not on record yet: ask again" in err, code, err)
        record_of(store).rmdir()  # all of it is written anew, perhaps at this moment
        until(lambda: ("c", 0, True) in world_of(a), "it is let go")
        equal(drained(store), ["c"])
        equal(drain(a, "c", "--undo")[0], 0)
        until(lambda: ("c", 1, False) in world_of(a), "it has a rank again")
        halted(nodes, 3)


sys.exit(cases.end())
