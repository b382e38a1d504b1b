"""All ranks of a job have finished, and the coordinator's daemon dies when that is on record: before any node is told of it, and between two of them. The next
coordinator reads it, and lets go who still waits for a rank to take. Nobody begins the job anew, and the next one of its name begins as ever. What
processes that are gone have left of it goes with it."""

import contextlib
import json
import pathlib
import sys

from elastic import cluster, halted_undisturbed, undisturbed
from etcd import etcd, why_not
from launcher import final, tidy
from scripted_ranks import Puppet
from tap import Cases, equal, expect, has, until

STEPS = 60

cases = Cases(tidy)
case = cases.case


def record_of(store):
    return json.loads((pathlib.Path(store) / "default" / "EPOCH").read_text())


def told(n):
    return {"failpoints": f"end.tell=kill@{n + 1}"}


def train_to_the_end(nodes, spare):
    """The spare gets no rank, however late the others come: within node-wait."""
    spare.start("--min-ranks", 3, "--spare")
    until(lambda: any(node.daemon.status()["worlds"] for node in (*nodes, spare)), "the spare is heard")
    for node in nodes:
        node.start("--min-ranks", 3, steps=STEPS)
    for node in nodes:
        equal(node.ended()["world"], 3)
    line = next(final(text) for text in (node.said() + node.run.out() for node in nodes) if "final step=" in text)
    equal(line, undisturbed(3, STEPS))


def is_let_go(spare):
    spare.run.wait(0)
    has(spare.said(), "the job has ended")
    expect("ranks go on from" not in spare.said(), spare.said())


def begins_again(store, nodes):
    """After plan 1 of the first job comes one in which nobody has a rank."""
    for node in nodes:
        node.start("--min-ranks", 3)
    for node in nodes:
        node.reaches(STEPS + 30)
    equal((record_of(store)["plan"]["number"], record_of(store)["ended"]), (3, 1))
    halted_undisturbed(nodes, 3)
    until(lambda: record_of(store)["ended"] == 3, "that job has ended, too")


def dies_after(n):
    """The spare is the last to be told."""
    with cluster("abcd", "--node-wait", "60s", variables={"a": told(n)}) as (store, (a, b, c, d)):
        train_to_the_end((a, b, c), d)
        until(lambda: not a.daemon.alive(), "a dies")
        equal((record_of(store)["plan"]["number"], record_of(store)["ended"]), (1, 1))
        expect(d.run.child.poll() is None, "the spare was told:", d.said())
        a.daemon.start()
        is_let_go(d)
        begins_again(store, (a, b, c))


@case("a coordinator that is lost before it has told any node of the end")
def _():
    dies_after(0)


@case("a coordinator that is lost when it has told itself alone")
def _():
    dies_after(1)


@case("a coordinator that is lost before the last node is told")
def _():
    dies_after(3)


@contextlib.contextmanager
def elected(names, **how):
    with etcd() as members:
        with cluster(names, "--node-wait", "60s", "--registry", members.url("ckpt"), "--registry-lease", "2s", **how) as (store, nodes):
            yield store, nodes


@case("a coordinator that was elected is lost before it has told any node of the end")
def _():
    if why_not():
        return why_not()
    with elected("abcd", variables={name: told(0) for name in "abcd"}) as (store, (a, b, c, d)):
        train_to_the_end((a, b, c), d)
        until(lambda: not all(node.daemon.alive() for node in (a, b, c, d)), "it dies")
        if not d.daemon.alive():
            d.daemon.start()
        is_let_go(d)
        for node in (a, b, c, d):  # what is armed in them is for the first job
            node.daemon.kill()
            node.daemon.start()
        begins_again(store, (a, b, c))
    return None


def outlives_its_launcher(node):
    """A process of the last world registers once more, as after the end of a daemon, before it is killed, too."""
    rank = Puppet(node.daemon, 2, 3, local=1, CKPT_JOB="default")
    for call in (("open",), ("table", 1000)):
        rank.must(*call)
    rank.say("join")
    until(lambda: [r["waits"] for r in node.daemon.job("default")["ranks"]] == ["join"], "it waits for the others")
    rank.kill()
    until(lambda: [r["pid"] for r in node.daemon.job("default")["ranks"]] == [0], "it is gone")


@case("what a rank has left that outlived its launcher goes when the others have finished")
def _():
    with cluster("abc") as (_, (a, b, c)):
        for node in (a, b, c):
            node.start("--min-ranks", 2, steps=400)
        for node in (a, b, c):
            node.reaches(30)
        c.run.child.kill()
        c.run.child.wait()
        until(lambda: "2 ranks go on" in a.said() + b.said() and not c.daemon.job("default"), "two go on without it")
        outlives_its_launcher(c)
        expect(c.daemon.job("default"), "it is kept for who may come")
        for node in (a, b):
            equal(node.ended()["world"], 2)
        until(lambda: not c.daemon.job("default"), "nobody comes for it")


sys.exit(cases.end())
