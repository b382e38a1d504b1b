"""A rank of a job on two nodes hangs, and all others wait for it: both nodes name it, with its node, soon, and no other one.
timeout: 900"""

import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys

from launcher import Run, tidy, top
from loopback_cluster import loopback_cluster
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

STEP_MS, AT = 50, 40
FEW, HANG_S = 3, 4  # steps that are too few for a measure of their own; what is the measure then
LAUNCHER_S = 15  # long enough for a busy machine to see the standstill first
SOON = 0.7  # seconds by which it may be named late
NODES = "ab"
cases = Cases(tidy)
case = cases.case
names = itertools.count()
late = []  # by how many seconds each was named later than the recent steps of all ranks allow


class Job:
    """Two ranks on each node; at that step `rank` does `how` until the gate is open. options: of ckpt run, by node."""

    def __init__(self, daemons, rank, how, at=AT, options=None):
        self.name, self.daemons = f"job{next(names)}", daemons
        self.gate = top / f"{self.name}.gate"
        self.runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--job", self.name, "--socket", d.socket,
                         *(options or {}).get(name, ()), "--", BIN / "stuck", STEP_MS, at, rank, how, self.gate)
                     for k, (name, d) in enumerate(daemons.items())]

    def on(self, daemon):
        done = subprocess.run([BIN / "ckpt", "ranks", "--socket", daemon.socket, "--job", self.name, "--json"], capture_output=True, text=True,
                              timeout=DEADLINE, stdin=subprocess.DEVNULL)
        return json.loads(done.stdout)["jobs"][0] if not done.returncode else {}

    def stands(self, daemon):
        return self.on(daemon).get("standstill")

    def told(self, daemon, what):
        return re.findall(rf"job {self.name}: {what}", daemon.text())

    def silence(self):
        """How long no heartbeat is too long, in seconds, by the recent steps of all ranks."""
        recent = [rank["steps"]["recent_ms"] for daemon in self.daemons.values() for rank in daemon.job(self.name)["ranks"]]
        median, longest = max(map(statistics.median, recent)) / 1000, max(map(max, recent)) / 1000
        return max(2 * median + 1.7, 2 * longest + 5 * median)

    def close(self, code=0):
        """code: of the launchers; None: whatever it is, their daemon is gone."""
        self.gate.touch()
        for run in self.runs:
            run.child.terminate()
        for run in self.runs:
            run.wait(code) if code is not None else run.child.wait(DEADLINE)


def named(job, rank, where, what):
    """On both nodes, and no other rank was."""
    texts = []
    for daemon in job.daemons.values():
        stands = until(lambda d=daemon: job.stands(d), "the standstill", pause=0.05)
        equal([stands["rank"], stands["node"]], [rank, where], stands)
        has(stands["text"], f"rank {rank} on node {where} is waited for: last at step {AT}, {what}")
        after = stands["after_ms"] / 1000
        equal(job.told(daemon, r"no heartbeat for ([\d.]+) s: "), [f"{after:.1f}"])
        expect(after > 1.7, "named after", after, "s")
        late.append(after - job.silence())
        equal(job.told(daemon, r".* (rank \d+ on node \w) is waited for"), [f"rank {rank} on node {where}"])
        texts.append(stands["text"])
    equal(texts[0], texts[1])


def over(job):
    job.gate.touch()
    for daemon in job.daemons.values():
        until(lambda d=daemon: job.stands(d) is None, "the end of the standstill", pause=0.05)
        equal(len(job.told(daemon, "heartbeats come again after")), 1)


with loopback_cluster(NODES) as daemons:
    for rank, node in ((1, "a"), (2, "b")):
        @case(f"a rank that stays away from its collective on node {node}")
        def _():
            job = Job(daemons, rank, "absent")
            try:
                named(job, rank, node, f"in no collective; rank 0 and others are in all_reduce #{AT} of 4096 bytes")
                done = subprocess.run([BIN / "ckpt", "ranks", "--socket", daemons["a"].socket, "--job", job.name], capture_output=True,
                                      text=True, timeout=DEADLINE)
                has(done.stdout, "no heartbeat for", f"rank {rank} on node {node} is waited for")
                over(job)
            finally:
                job.close()

        @case(f"a rank that enters another collective on node {node}")
        def _():
            job = Job(daemons, rank, "mismatch")
            try:
                named(job, rank, node, f"in all_gather #{AT} of 512 bytes; rank 0 and others are in all_reduce #{AT} of 4096 bytes")
                over(job)
            finally:
                job.close()

        @case(f"a rank that is stopped on node {node}")
        def _():
            job = Job(daemons, rank, "stop")
            try:
                named(job, rank, node, "stopped, in no collective; rank 0 and others are in all_reduce")
                pid = next(r["pid"] for r in daemons[node].job(job.name)["ranks"] if r["rank"] == rank)
                os.kill(pid, signal.SIGCONT)
                over(job)
            finally:
                job.close()


@case("they were named soon")
def _():
    """A busy machine makes single ones late, a daemon that waits for too long makes all of them late: the better half counts."""
    print("# named late by " + " ".join(f"{s:.2f}" for s in sorted(late)) + " s", flush=True)
    expect(len(late) == 12 and statistics.median_low(late) <= SOON, "seconds by which ranks that hang were named late:", late)


with loopback_cluster(NODES, **{name: ("--hang-timeout", f"{HANG_S}s") for name in NODES}) as daemons:
    @case("a rank that hangs in the first steps is named after the hang timeout")
    def _():
        job = Job(daemons, 2, "absent", at=FEW)
        try:
            for daemon in daemons.values():
                stands = until(lambda d=daemon: job.stands(d), "the standstill", pause=0.05)
                equal([stands["rank"], stands["node"]], [2, "b"], stands)
                has(stands["text"], f"rank 2 on node b is waited for: last at step {FEW}, in no collective")
                expect(stands["after_ms"] >= 1000 * HANG_S, stands)
            over(job)
        finally:
            job.close()


def beat_age(daemon, job, rank):
    return next(r["beat_age_ms"] for r in daemon.job(job.name)["ranks"] if r["rank"] == rank) / 1000


with loopback_cluster(NODES) as daemons:
    @case("while the coordinator cannot be reached no launcher takes a rank for one that hangs")
    def _():
        job = Job(daemons, 2, "absent", options={"b": ("--hang-timeout", LAUNCHER_S)})
        try:
            until(lambda: job.stands(daemons["b"]), "the standstill", pause=0.05)
            daemons["a"].kill()
            until(lambda: beat_age(daemons["b"], job, 2) > 2 * LAUNCHER_S, "the rank is silent for twice the time", DEADLINE)
            equal(job.runs[1].err().count(" hangs: "), 0, job.runs[1].err())
        finally:
            job.close(None)


sys.exit(cases.end())
