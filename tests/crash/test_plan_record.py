"""The coordinator's daemon dies when a plan is on record: before any node is told of it, and between two of them. The next one reads the
record, tells those that have not heard, and the job goes on with the processes and the bits that it had. A damaged record is told to the launchers."""

import json
import pathlib
import sys

from elastic import cluster, halted_undisturbed
from launcher import tidy
from tap import Cases, equal, expect, has, until

FIRST = 4  # nodes that are told of the first plan: three with ranks, and the spare

cases = Cases(tidy)
case = cases.case


def plan_of(store):
    return json.loads((pathlib.Path(store) / "default" / "EPOCH").read_text())["plan"]


def dies_after(told):
    """The spare gets no rank of the first plan, however late the others come: within node-wait. c is lost, and a, which plans that d takes its rank, dies when it has told so many nodes of it; itself first."""
    with cluster("abcd", "--copies", 1, "--node-wait", "60s", variables={"a": {"failpoints": f"plan.tell=kill@{FIRST + told + 1}"}}) as (store, nodes):
        a, b, c, d = nodes
        d.start("--min-ranks", 3, "--spare")
        until(lambda: a.daemon.status()["worlds"], "the spare is heard")
        for node in (a, b, c):
            node.start("--min-ranks", 3)
        for node in (a, b, c):
            node.reaches(60)
        equal(plan_of(store), {"number": 1, "world": 3, "ranks": [["a", 1], ["b", 1], ["c", 1]]})
        c.lose()
        a.run.until("a dies", lambda: not a.daemon.alive())
        equal(plan_of(store), {"number": 2, "world": 3, "ranks": [["a", 1, 0], ["b", 1, 1], ["d", 1]]})
        a.daemon.start()
        halted_undisturbed([a, b, d], 3)
        has(a.daemon.text(), "plan 2, which is on record, holds: 3 ranks")
        equal(plan_of(store)["number"], 2)


@case("a coordinator that is lost before it has told any node of the plan")
def _():
    dies_after(0)


@case("a coordinator that is lost when it has told itself alone")
def _():
    dies_after(1)


@case("a coordinator that is lost before the last node is told")
def _():
    dies_after(2)


@case("a damaged record is told to the launchers, and left as it is")
def _():
    with cluster("ab") as (store, (a, b)):
        record = pathlib.Path(store) / "default" / "EPOCH"

        def run(code):
            for node in (a, b):
                node.start("--min-ranks", 2, n=2, steps=60)
            for node in (a, b):
                node.run.wait(code)
            until(lambda: not a.daemon.status()["worlds"], "nobody here knows of the job any more")

        run(0)
        until(lambda: "ended" in json.loads(record.read_text()), "the end is on record, which is written after nobody knows of the job any more")
        damaged = record.read_text().replace('["a",1]', '["a",2]')
        record.write_text(damaged)
        run(1)
        for node in (a, b):
            has(node.said(), f"job 'default': its last plan cannot be read: {record}: ckpt.epoch: damaged")
        equal(record.read_text(), damaged)
        record.unlink()
        run(0)
        expect(plan_of(store)["number"] > 1, plan_of(store))


sys.exit(cases.end())
