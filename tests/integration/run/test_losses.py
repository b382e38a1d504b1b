"""Ranks that end as soon as the epoch moves on, as workers of torchrun do: one loss ends them all, and counts once for --max-restarts."""

import json
import os
import re
import signal
import sys

from launcher import BIN, Run, sh, tidy, until_gone
from tap import DEADLINE, Cases, equal, expect, has

RANKS = 8
PAUSE_MS = 40  # of a step: the launcher of a busy machine sees one of the next 30 steps, whatever it misses
cases = Cases(tidy)
case = cases.case


def quitters(*args, steps=120, code=0):
    """ckpt run of eight such ranks; its report, and what was said."""
    run = Run("-n", RANKS, "--json", *args, "--", BIN / "drive", "--quit", "--steps", steps, "--pause", PAUSE_MS, "--storage", 0, "--elements", 64)
    run.wait(code)
    return json.loads(run.out()), run.err()


def ended_stale(said):
    return set(re.findall(r"rank (\d) \(process \d+\) exited with status 5", said))


@case("one death is one restart, however many ranks end of it")
def _():
    report, said = quitters("--inject", "kill:rank=3@step=30")
    equal([report["fired"], report["restarts"], [rank["ok"] for rank in report["ranks"]]], [1, 1, [True] * RANKS], said)
    expect(len(ended_stale(said)) > RANKS / 2, "few ranks have ended of it", said)
    has(said, "rank 3 (process", "was killed by signal 9 (Killed): restart 1 of 10", "exited with status 5: started again, for the same loss")


@case("deaths one after the other count each")
def _():
    report, said = quitters("--inject", "kill:rank=3@step=30,kill:rank=6@step=60,kill:rank=3@step=90")
    equal([report["fired"], report["restarts"]], [3, 3], said)


@case("a job that is ended again and again by a rank of it is given up")
def _():
    report, said = quitters("--max-restarts", 2, "--inject", "kill:rank=5@step=30,kill:rank=5@step=60,kill:rank=5@step=90", code=1)
    equal([report["fired"], report["restarts"]], [3, 2], said)
    has(said, "restart 2 of 2", "rank 5 was killed by signal 9 (Killed), and all 2 restarts that --max-restarts allows are spent: giving up")


@case("the rank that was killed is named, also where all others have ended of its loss before the launcher looks")
def _():
    drive = f"exec {BIN / 'drive'} --quit --until-file end --pause {PAUSE_MS} --storage 0 --elements 64 --log log.$RANK"
    run = Run("-n", RANKS, "--max-restarts", 0, *sh(f"echo $$ > pid.$RANK; {drive}"))
    logs = [run.folder / f"log.{rank}" for rank in range(RANKS)]
    try:
        run.until("the work of all ranks", lambda: all(log.exists() and "captured" in log.read_text() for log in logs))
        pids = [int((run.folder / f"pid.{rank}").read_text()) for rank in range(RANKS)]
        run.child.send_signal(signal.SIGSTOP)
        os.kill(pids[5], signal.SIGKILL)
        until_gone(*pids)
        run.child.send_signal(signal.SIGCONT)
        run.wait(1)
    finally:
        run.child.kill()
    has(run.err(), "rank 5 was killed by signal 9 (Killed), and all 0 restarts that --max-restarts allows are spent: giving up")


@case("who is started for the loss before the world is another one is started again for that: the environment tells the place")
def _():
    first = f"> began.$RANK; exec {BIN / 'drive'} --quit --steps 400 --pause {PAUSE_MS} --storage 0 --elements 64"
    then = f"case $WORLD_SIZE in 3) [ ! -e began.$RANK ] || exec sleep {DEADLINE}; {first};; esac; echo place $RANK of $WORLD_SIZE"
    said = Run("-n", 3, "--min-ranks", 2, "--max-restarts", 0, "--store", "store", "--inject", "kill:rank=0@step=30", *sh(then)).wait()
    equal(sorted(re.findall(r"place \d of \d", said.out())), ["place 0 of 2", "place 1 of 2"], said.err())
    has(said.err(), "has not joined yet as rank 2 of 3: started again, as rank 0", "has not joined yet as rank 1 of 3: started again, as rank 1")


@case("a death while the daemon is away is one restart")
def _():
    report, said = quitters("--inject", "kill-daemon@step=30,kill:rank=3@step=30")
    equal([report["fired"], report["daemon_starts"], report["restarts"]], [2, 2, 1], said)


sys.exit(cases.end())
