"""ckpt run on several nodes at once: one job, whose ranks meet over the addresses of their nodes."""

import contextlib
import json
import os
import re
import signal
import sys
import time

from single_node import Daemon
from launcher import BIN, SMALL, TRAIN, Run, final, sh, tidy
from loopback_cluster import loopback_cluster
from tap import Cases, equal, expect, has, until

STEPS = 40
HANG_S = 6  # no rank of a busy machine stands still for so long, and its daemon names the one that hangs before
cases = Cases(tidy)
case = cases.case


@contextlib.contextmanager
def nodes(names, *options):
    with loopback_cluster(names, **{name: options for name in names}) as daemons:
        yield [daemons[name] for name in names]


def start(daemons, *args, command=(TRAIN, "--pace", 50, "--steps", STEPS, "--save-memory-every", 5, "--save-storage-every", 0), ranks=2, **env):
    """ckpt run on each of these nodes."""
    return [Run("--nodes", len(daemons), "--node-rank", k, "-n", ranks, "--socket", d.socket, "--json", *args, "--", *command, **env)
            for k, d in enumerate(daemons)]


@case("ranks on two nodes are one job, and a killed one is replaced where it was")
def _():
    with nodes("ab") as daemons:
        undisturbed = [r.wait() for r in start(daemons)]
        reference = final(undisturbed[0].err())
        equal([[rank["rank"] for rank in json.loads(r.out())["ranks"]] for r in undisturbed], [[0, 1], [2, 3]])
        equal(json.loads(undisturbed[1].out())["world"], 4)
        runs = start(daemons, "--inject", "kill:rank=3@step=22")
        a, b = (json.loads(r.wait().out()) for r in runs)
        equal(final(runs[0].err()), reference, "the bits of the undisturbed run")
        equal([a["fired"], a["restarts"], b["fired"], b["restarts"]], [0, 0, 1, 1])
        has(runs[0].err(), "4 ranks go on from memory")


@case("what ends of the loss of a rank on another node counts there, and not here")
def _():
    with nodes("ab") as daemons:
        quitter = (BIN / "drive", "--quit", "--steps", 120, "--pause", 40, "--storage", 0, "--elements", 64)
        runs = start(daemons, "--inject", "kill:rank=3@step=30", command=quitter)
        a, b = (json.loads(r.wait().out()) for r in runs)
        equal([b["fired"], b["restarts"], a["restarts"]], [1, 1, 0], runs[0].err() + runs[1].err())
        expect(any(rank["starts"] > 1 for rank in a["ranks"]), "no rank of the other node has ended of it", runs[0].err())


@case("of three nodes with a rank each, the one that deviates is named, its save is not promoted, and the end has the same bits")
def _():
    with nodes("abc") as daemons:
        undisturbed = [r.wait() for r in start(daemons, ranks=1)]
        runs = [r.wait() for r in start(daemons, "--inject", "flip:rank=2@step=20", ranks=1)]
        equal(final(runs[0].err()), final(undisturbed[0].err()), "the bits of the undisturbed run")
        # The launcher may see late that the step is reached: which save it hits does not matter.
        has(runs[0].err() + runs[1].err() + runs[2].err(), "replicas differ: rank 2 deviates from the others in block.")
        has(runs[0].err(), "3 ranks go on from memory at step")


@case("a rank that hangs is killed by the launcher of its node: ranks of other nodes, which wait for it, are spared")
def _():
    with nodes("abc") as daemons:
        runs = start(daemons, "--hang-timeout", HANG_S, "--inject", "absent:rank=2@step=20,absent:rank=5@step=30", ranks=2)
        a, b, c = (json.loads(r.wait().out()) for r in runs)
        equal([node["restarts"] for node in (a, b, c)], [0, 1, 1], "".join(r.err() for r in runs))
        equal([re.findall(r"rank (\d) hangs: no heartbeat", r.err()) for r in runs], [[], ["2"], ["5"]])


def start_absent(daemons, timeouts):
    """Rank 2, of the second node, hangs; the launchers have these --hang-timeout."""
    return [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--socket", d.socket, "--json", "--hang-timeout", timeout,
                "--inject", "absent:rank=2@step=30", "--", TRAIN, *SMALL, "--steps", STEPS, "--save-memory-every", 5, "--save-storage-every", 0)
            for k, (d, timeout) in enumerate(zip(daemons, timeouts))]


def equal_killed(runs):
    """Only rank 2 was."""
    a, b = (json.loads(r.wait().out()) for r in runs)
    equal([a["restarts"], b["restarts"]], [0, 1], runs[0].err() + runs[1].err())
    equal([re.findall(r"rank (\d) hangs: no heartbeat", r.err()) for r in runs], [[], ["2"]], "".join(r.err() for r in runs))


@case("while the daemons name a rank of another node, no launcher kills one that waits for it, however late that one is killed")
def _():
    with nodes("ab") as daemons:
        equal_killed(start_absent(daemons, (HANG_S, 3 * HANG_S)))


@case("nor while a daemon does not answer, and nobody hears that a rank was killed")
def _():
    with nodes("ab", "--peer-timeout", "60s") as daemons:
        runs = start_absent(daemons, (HANG_S, HANG_S))
        runs[0].until_err("4 ranks start at step 0")
        os.kill(daemons[0].process.pid, signal.SIGSTOP)
        killed = time.monotonic() + 3 * HANG_S
        while time.monotonic() < killed:
            expect("hangs" not in runs[0].err(), runs[0].err())
            time.sleep(0.1)
        os.kill(daemons[0].process.pid, signal.SIGCONT)
        equal_killed(runs)


@case("SIGTERM to the launchers of all nodes ends the job cleanly")
def _():
    with nodes("ab") as daemons:
        runs = start(daemons, command=(TRAIN, "--steps", 1000000, "--save-storage-every", 0))
        runs[0].until_err("4 ranks start at step 0")
        for r in runs:
            r.child.send_signal(signal.SIGTERM)
        for r in runs:
            r.wait()
        final(runs[0].err() + runs[0].out())


@case("SIGTERM ends a launcher at once whose ranks wait for those of a node that never come")
def _():
    for options in ((), ("--min-ranks", 4)):
        with loopback_cluster("ab") as daemons:
            here, there = (Run("--nodes", 2, *(() if options else ("--node-rank", k)), "-n", 2, "--socket", d.socket, *options, "--", *command)
                           for k, (d, command) in enumerate(zip(daemons.values(), ((TRAIN, "--save-storage-every", 0), ("sleep", 1000)))))
            try:
                until(lambda a=daemons["a"]: [rank["waits"] for rank in (a.job("default") or {"ranks": []})["ranks"]] == ["join", "join"], "its ranks wait to join")
                begun = time.monotonic()
                here.child.send_signal(signal.SIGTERM)
                here.child.wait()
                expect(time.monotonic() - begun < 30, "the grace of 60 s was waited for", here.err())
                has(here.err(), "SIGTERM: the ranks get SIGTERM")
            finally:
                there.child.kill()
                there.child.wait()


@case("a rank knows its world, its place on its node, and where it is reached")
def _():
    script = "echo $CKPT_RANK $CKPT_WORLD $LOCAL_RANK $LOCAL_WORLD_SIZE $CKPT_ADDRESS >&2"
    with nodes("ab") as daemons:
        for k, r in enumerate(start(daemons, command=sh(script)[1:])):
            r.wait()
            for local in range(2):
                line = rf"^\[{2 * k + local}\] {2 * k + local} 4 {local} 2 127\.0\.\d+\.{k + 1}$"  # loopback_cluster.py chooses the net
                expect(re.search(line, r.err(), re.M), line, r.err())
        r = start(daemons[:1], "--address", "127.0.0.9", command=sh(script)[1:])[0]
        expect("127.0.0.9" not in r.wait().err(), "one node needs no address", r.err())


@case("Slurm says how many nodes there are, and which one this is")
def _():
    with nodes("ab") as daemons:
        runs = [Run("--nodes", "slurm", "-n", 1, "--socket", d.socket, *sh("echo $CKPT_RANK of $CKPT_WORLD"), SLURM_NNODES="2",
                    SLURM_NODEID=str(k)) for k, d in enumerate(daemons)]
        for k, r in enumerate(runs):
            has(r.wait().out(), f"[{k}] {k} of 2")


@case("what is wrong is said")
def _():
    for args, text in ((("--nodes", "x"), "--nodes x: a number, slurm, or two hosts or more"), (("--nodes", "2"), "SLURM_NODEID, which Slurm sets"),
                       (("--nodes", "2", "--node-rank", "2"), "--node-rank 2 of --nodes 2: they are counted from 0"),
                       (("--node-rank", "0"), "--node-rank is for --nodes"),
                       (("--nodes", "2", "--min-ranks", "3"), "--min-ranks 3: at most all of them, 2"),
                       (("--spare",), "--spare is for --nodes"),
                       (("--nodes", "5000", "--node-rank", "0", "-n", "64"), "at most 262144 ranks")):
        has(Run(*args, "true").wait(2).err(), text)
    has(Run("--nodes", "2", "--node-rank", "0", "--socket", "/nowhere", "true").wait(12).err(), "/nowhere")


@case("a daemon in no cluster cannot be a node of several")
def _():
    d = Daemon(store=False)
    try:
        d.start()
        r = Run("--nodes", 2, "--node-rank", 0, "--socket", d.socket, "true").wait(1)
        has(r.err(), "in no cluster: set cluster and cluster-key")
    finally:
        d.close()


sys.exit(cases.end())
