"""ckpt fault slow on one of three nodes: all three name the rank that it makes late, within the time that the page of stragglers gives, and nobody else."""

import contextlib
import re
import subprocess
import sys
import time

from launcher import CKPT, ENVIRONMENT, TRAIN, Run, tidy
from loopback_cluster import loopback_cluster
from tap import DEADLINE, Cases, equal, expect, has, until

NODES, LATE, SLOW_MS, STEPS_OF_A_FAULT = "abc", 3, 500, 30
FIRST = 10  # steps of all before it
NAMED_S, NAMED_STEPS = 45, 72  # after 9 rounds: 45 s, or 72 steps (docs/explanation/stragglers.md)
ROUND_S = 5  # one may be under way, and the first one of an epoch does not count
BUSY = 1.5  # others use the processors, too
cases = Cases(tidy)
case = cases.case


def ckpt(*args):
    done = subprocess.run([CKPT, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, 0, f"{args}: {done.stdout} {done.stderr}")
    return done.stdout


def steps(daemon):
    """Of its ranks; 0: not at work yet."""
    return [rank.get("step", 0) for rank in (daemon.job("gpt") or {}).get("ranks", [])] or [0]


def named(daemon):
    """[(rank, node)] of all whom it has named."""
    return [(e["rank"], e["node"]) for e in (daemon.job("gpt") or {}).get("stragglers", [])]


class Slow:
    """The fault again and again: each lasts for so many steps of the rank."""

    def __init__(self, daemon):
        self.daemon, self.until = daemon, 0

    def go_on(self):
        if max(steps(self.daemon)) >= self.until:
            ckpt("fault", "slow", LATE, "--for", f"{SLOW_MS}ms", "--job", "gpt", "--socket", self.daemon.socket)
            self.until = max(steps(self.daemon)) + STEPS_OF_A_FAULT - 1
        return True


options = {name: ["--faults", "--http", "127.0.0.1:0"] for name in NODES}
with loopback_cluster(NODES, **options) as daemons, contextlib.ExitStack() as stack:
    runs = [Run("--nodes", len(NODES), "--node-rank", k, "-n", 2, "--job", "gpt", "--socket", d.socket, "--", TRAIN, "--steps", 10 ** 6,
                "--save-memory-every", 1000, "--save-storage-every", 0)
            for k, d in enumerate(daemons.values())]

    def end():
        for run in runs:
            run.child.terminate()
        for run in runs:
            run.wait(0)

    stack.callback(end)
    slow = Slow(daemons["b"])

    @case("all three nodes name it, in time, and nobody else")
    def _():
        until(lambda: all(step > FIRST for d in daemons.values() for step in steps(d)), "all are at work")
        slow.go_on()
        began, at = time.monotonic(), max(steps(slow.daemon))
        for daemon in daemons.values():
            until(lambda d=daemon: slow.go_on() and named(d), "the straggler", pause=0.2)
        took, made = time.monotonic() - began, max(steps(slow.daemon)) - at  # a step takes longer than the fault, where others use the processors
        due = max(NAMED_S, NAMED_STEPS * took / made) * BUSY + 2 * ROUND_S
        expect(took < due, f"it took {took:.0f} s, at most {due:.0f} s are due")
        print(f"# named after {took:.0f} s")
        for daemon in daemons.values():
            equal(named(daemon), [(LATE, "b")])
            equal(set(re.findall(r"job gpt: (.*) is a straggler", daemon.text())), {f"rank {LATE} on node b"})

    @case("health and ckpt ranks of each node tell it")
    def _():
        slow.go_on()
        for name, daemon in daemons.items():
            told = [f["text"].split(" is a straggler")[0] for f in daemon.status()["health"]["findings"] if f["code"] == "STRAGGLER"]
            equal(told, [f"rank {LATE} on node b"], name)
            rows = [line for line in ckpt("ranks", "--socket", daemon.socket, "--job", "gpt").splitlines() if re.match(r" +\d", line)]
            equal(["yes, costs" in row for row in rows], [False, name == "b"], rows)
        has(ckpt("ranks", "--socket", daemons["a"].socket, "--job", "gpt"), f"rank {LATE} on node b is a straggler")

    @case("it is over with the job, and nobody else was named on any node")
    def _():
        stack.close()
        for daemon in daemons.values():
            until(lambda d=daemon: not d.job("gpt"), "the job is over")
            has(daemon.text(), f"job gpt: rank {LATE} on node b is no straggler any more")
            equal(set(re.findall(r"job gpt: (.*) is a straggler", daemon.text())), {f"rank {LATE} on node b"})


sys.exit(cases.end())
