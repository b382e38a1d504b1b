"""A node whose memory has errors (a sysfs that the test plays), or which fails again and again, is passed over for a spare, is shown with the reason, and is
like any other when that is over."""

import json
import os
import signal
import sys

from elastic import cluster
from etcd import etcd
from launcher import tidy
from played_machine import PlayedMachine
from tap import Cases, equal, has, until

cases = Cases(tidy)
case = cases.case
OFTEN = ("--check-interval", "100ms")


def shown(node):
    """{name: why it is set aside} as `ckpt nodes` tells here."""
    code, out, err = node.daemon.ckpt("nodes", "--json", "--socket", node.daemon.socket)
    equal(code, 0, err)
    return {other["name"]: other["set_aside"] for other in json.loads(out)["nodes"]}


def ranks(node):
    """{name of a node: ranks} as the coordinator has planned."""
    worlds = node.daemon.status()["worlds"]
    return {at["node"]: at["ranks"] for world in worlds for at in world["nodes"] if world["plan"]}


def end(nodes):
    nodes[0].halt()
    for node in nodes:
        node.ended()


@case("a spare gets the ranks of a node that is unfit; ckpt nodes says why")
def _():
    machine = PlayedMachine()
    machine.memory(uncorrected=2)
    with cluster("abc", *OFTEN, "--node-wait", "60s", variables={"b": machine.variables}) as (_, (a, b, c)):
        for node in (a, b):
            node.start("--min-ranks", 2, n=2)
        until(lambda: shown(a)["b"], "b is set aside")
        c.start("--min-ranks", 2, "--spare", n=2)
        a.reaches(20)
        equal(ranks(a), {"a": 1, "b": 0, "c": 1})
        why = "memory: 2 uncorrected errors since the kernel began to count"
        equal(shown(a), {"a": None, "b": why, "c": None})
        equal(shown(b)["b"], why, "of itself a node knows it")
        code, out, err = a.daemon.ckpt("nodes", "--socket", a.daemon.socket)
        has(out, "SET ASIDE", why)
        has(a.daemon.text(), f"node b is set aside, others are preferred to it: {why}")
        machine.memory()
        until(lambda: not shown(a)["b"], "b is like any other again")
        has(a.daemon.text(), "node b is no longer set aside for that: memory")
        end([a, b, c])


@case("where there is nobody else, it gets ranks")
def _():
    machine = PlayedMachine()
    machine.memory(uncorrected=1)
    with cluster("ab", *OFTEN, variables={"b": machine.variables}) as (_, (a, b)):
        for node in (a, b):
            node.start("--min-ranks", 2, n=2)
        a.reaches(20)
        equal(ranks(a), {"a": 1, "b": 1})
        end([a, b])


def kill_rank(b, a):
    """The one on b, once all are at work; its launcher starts it again."""
    a.reaches(a.step() + 5)
    job = b.daemon.job("default")
    os.kill(job["ranks"][0]["pid"], signal.SIGKILL)
    until(lambda: (b.daemon.job("default") or {}).get("epoch") == job["epoch"] + 1, "the next epoch")
    a.reaches(a.step() + 5)


@case("a node whose rank is lost again and again is set aside, also after a restart of who coordinates, until it is cleared")
def _():
    with cluster("abc", "--lemon-failures", 2, "--node-wait", "60s") as (store, (a, b, c)):
        for node in (a, b):
            node.start("--min-ranks", 2, n=2)
        for _ in range(2):
            kill_rank(b, a)
        why = until(lambda: shown(a)["b"], "b is set aside")
        has(why, "it has failed 2 times within 24 h, last in job default: rank ", "is lost")
        equal([at for at, text in shown(a).items() if text], ["b"])
        (found,) = [f for f in a.daemon.status()["health"]["findings"] if f["code"] == "NODE_SET_ASIDE"]
        has(found["text"], "node b is set aside: it has failed")
        end([a, b])
        until(lambda: not ranks(a), "a has heard that the job is over: else it is back as what it was")
        equal(a.daemon.stop(), 0)
        a.daemon.start()
        until(lambda: all(node["up"] for node in b.daemon.status()["cluster"]["nodes"]), "a is back")
        equal(shown(a)["b"], why)
        for node in (a, b):
            node.start("--min-ranks", 2, n=2)
        c.start("--min-ranks", 2, "--spare", n=2)
        a.reaches(20)
        equal(ranks(a), {"a": 1, "b": 0, "c": 1})
        end([a, b, c])
        code, _, err = b.daemon.ckpt("nodes", "clear", "b", "--socket", b.daemon.socket)
        equal(code, 1)
        has(err, "node a counts the failures of all nodes: ask its ckptd")
        code, out, err = a.daemon.ckpt("nodes", "clear", "b", "--socket", a.daemon.socket)
        equal([code, out], [0, "node b begins anew: its failures are forgotten\n"], err)
        equal(shown(a)["b"], None)
        code, _, err = a.daemon.ckpt("nodes", "clear", "b", "--socket", a.daemon.socket)
        equal(code, 1)
        has(err, "node b has not failed")
        a.daemon.stop()
        a.daemon.start()
        equal(shown(a)["b"], None, "that outlives the daemon, too")


@case("with a registry every node knows of it, and any can be asked to clear it")
def _():
    with etcd() as members, cluster("abc", "--lemon-failures", 2, "--registry", members.url("ckpt")) as (_, nodes):
        a, b, c = nodes
        for node in (a, b):
            node.start("--min-ranks", 2, n=2)
        for _ in range(2):
            kill_rank(b, a)
        for node in nodes:
            has(until(lambda: shown(node)["b"], f"b is set aside, as {node.name} knows it"), "it has failed 2 times within 24 h")
        code, out, err = c.daemon.ckpt("nodes", "clear", "b", "--socket", c.daemon.socket)
        equal(code, 0, err)
        for node in nodes:
            until(lambda: not shown(node)["b"], f"b is like any other, as {node.name} knows it")
        end([a, b])


sys.exit(cases.end())
