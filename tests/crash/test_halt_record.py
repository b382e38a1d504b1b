"""That a job is to end is on record before anybody is told, and holds under the next coordinator, for those who were asked and for nobody else."""

import json
import pathlib
import sys

from elastic import cluster, halted
from launcher import tidy
from tap import Cases, equal, expect, until

cases = Cases(tidy)
case = cases.case
HOLDS = "what was asked of it under another coordinator holds"
FAR = "2100-01-01T00:00"


def record_of(store):
    return pathlib.Path(store) / "default" / "EPOCH"


def halt_of(store):
    return json.loads(record_of(store).read_text()).get("halt", {})


def begin(nodes, step):
    for node in nodes:
        node.start("--min-ranks", 2, n=2)
    for node in nodes:
        node.reaches(step)


def halt_later(store, node):
    """On record, and what stands there."""
    code, _, err = node.daemon.ckpt("halt", "--before", FAR, "--job", "default", "--socket", node.daemon.socket)
    equal(code, 0, err)
    equal(halt_of(store)["when"], "before")
    return record_of(store).read_bytes()


@case("it holds for who was asked, although the coordinator's daemon is lost")
def _():
    with cluster("abc", "--node-wait", "60s") as (store, (a, b, c)):
        begin([b, c], 60)
        halt_later(store, b)
        a.daemon.kill()
        a.daemon.start()
        until(lambda: HOLDS in a.daemon.text(), "those who were asked are back")
        equal(halt_of(store)["when"], "before")
        halted([b, c], 2)
        until(lambda: "when" not in halt_of(store), "that is over")


# The coordinator was lost before the end was on record. The copies that the nodes hold know of the epoch in which the job was asked.
@case("a job that has ended and is started again is asked nothing, although the record says that it is to end")
def _():
    with cluster("abc", "--node-wait", "60s") as (store, (a, b, c)):
        begin([b, c], 60)
        record = halt_later(store, c)
        halted([b, c], 2)
        until(lambda: "when" not in halt_of(store), "that is over")
        a.daemon.kill()
        record_of(store).write_bytes(record)
        a.daemon.start()
        begin([b, c], 300)
        expect(HOLDS not in a.daemon.text(), a.daemon.text())
        equal("when" in halt_of(store), False)
        halted([b, c], 2)


sys.exit(cases.end())
