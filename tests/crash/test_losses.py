"""A rank that ends of a loss on another node, before its own launcher has heard of it: the restart that it took is given back."""

import contextlib
import json
import os
import signal
import sys
import time

from launcher import BIN, Run, tidy
from loopback_cluster import Cluster, loopback_cluster
from tap import Cases, Failure, equal, expect, has, until

cases = Cases(tidy)
LATE_S = (1, 3, 6)  # after which the launcher hears of an epoch; others miss the daemon after 10 s


def job_of(daemon):
    return daemon.job("default") or {"ranks": []}


def at_work(daemon):
    ranks = job_of(daemon)["ranks"]  # of one look: the job may come between two
    return len(ranks) == 2 and all((rank.get("step") or 0) > 5 for rank in ranks)


def lost_elsewhere(*options):
    """A rank of b is lost, and ends one of a, before a's launcher hears of the epoch; the two reports, and what a's launcher has said."""
    for late_s in LATE_S:  # on a busy machine the launcher may hear of it before the rank of a is ended
        if (found := lost_before_it_is_heard(late_s, *options)):
            return found
    raise Failure(f"the launcher of a heard of the epoch within {LATE_S} s")


def lost_before_it_is_heard(late_s, *options):
    """None: it may have been heard."""
    cluster = Cluster("ab")
    a, b = (cluster.daemon(name) for name in "ab")
    runs = []
    try:
        a.start(failpoints=f"job.raise=delay:{late_s * 1000}@1")  # its launcher hears of the epoch so late
        b.start()
        until(lambda: all(node["up"] for node in a.status()["cluster"]["nodes"]), "the nodes find each other")
        stop = a.top / "stop"  # a number of steps could be over before the loss
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--socket", d.socket, "--json", *(() if k else options), "--", BIN / "drive", "--quit", "--until-file", stop,
                    "--pause", 10, "--storage", 0, "--elements", 64) for k, d in enumerate((a, b))]
        until(lambda: at_work(a) and at_work(b), "all are at work")
        here, there = job_of(a)["ranks"][0]["pid"], job_of(b)["ranks"][0]["pid"]
        began = time.monotonic()
        os.kill(there, signal.SIGKILL)
        until(lambda: a.fired.exists() and "fired job.raise" in a.fired.read_text(), "the epoch is raised")
        with contextlib.suppress(ProcessLookupError):
            os.kill(here, signal.SIGKILL)  # as what talked to the lost rank would end it
        if time.monotonic() - began >= late_s:
            return None
        until(lambda: at_work(a) and at_work(b) and not {here, there} & {rank["pid"] for d in (a, b) for rank in job_of(d)["ranks"]}, "all are at work again")
        stop.touch()
        one, other = (json.loads(run.wait().out()) for run in runs)
        has(runs[0].err(), f"rank 0 (process {here}) was killed by signal 9 (Killed): ")
        expect(one["ranks"][0]["starts"] > 1, "it was not started again", runs[0].err())
        return one, other, runs[0].err()
    except Exception as error:
        logs = "".join(f"---- {d.top.name}: its launcher\n{run.err()[-1500:]}\n---- its daemon\n{d.text()[-3000:]}" for d, run in zip((a, b), runs))
        raise Failure(f"{type(error).__name__}: {error}\n{logs}") from error
    finally:
        for run in runs:
            run.child.kill()
            run.child.wait()
        for daemon in (a, b):
            daemon.close()


@cases.case("a loss elsewhere that is heard of late is not counted here")
def _():
    one, other, said = lost_elsewhere()
    has(said, ": restart 1 of 10", "it is counted on the node of the rank that was lost, not here: 0 of 10 restarts are spent")
    equal([one["restarts"], other["restarts"]], [0, 1], said)


@cases.case("nor does it end a job that has no restart left here")
def _():
    one, other, said = lost_elsewhere("--max-restarts", 0)
    has(said, "no restart is left, unless it follows from a loss on another node")
    equal([one["restarts"], other["restarts"]], [0, 1], said)


@cases.case("a loss here does")
def _():
    with loopback_cluster("ab") as daemons:
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--socket", d.socket, "--max-restarts", 0, *(() if k else ("--inject", "kill:rank=0@step=20")),
                    "--", BIN / "drive", "--quit", "--steps", 100000, "--pause", 10, "--storage", 0, "--elements", 64)
                for k, d in enumerate(daemons.values())]
        try:
            begun = time.monotonic()
            runs[0].wait(1)
            has(runs[0].err(), "rank 0 was killed by signal 9 (Killed), and all 0 restarts that --max-restarts allows are spent: giving up")
            expect(time.monotonic() - begun < 60, "it was waited for")
        finally:
            runs[1].child.kill()
            runs[1].child.wait()


sys.exit(cases.end())
