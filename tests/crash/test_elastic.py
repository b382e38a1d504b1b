"""ckpt run with a world that changes: what is not replaced is done without, in the processes that are left."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from launcher import CKPT, TRAIN, Run, listed, run, sh, tidy, top
from tap import Cases, equal, expect, has

STEPS = 40
SMALL = "--layers", "1", "--width", "16", "--seq", "16", "--batch", "6"
cases = Cases(tidy)
case = cases.case


def train(*args, steps=STEPS, ranks=3, every=18, **env):
    """ckpt run of ckpt-train; returns (its document, the loss at the end, what it said, its store)."""
    store = tempfile.mkdtemp(dir=top)
    r = run("-n", ranks, "--json", "--store", store, *args, "--", TRAIN, *SMALL, "--steps", steps, "--save-memory-every", 5,
            "--save-storage-every", every, "--report", f"{store}.jsonl", **env)
    loss = float(re.search(r"final step=%d loss=(\S+)" % steps, r.err()).group(1))
    return json.loads(r.out()), loss, r.err(), store


def worlds(store):
    """How many ranks each checkpoint in the store has, the newest last."""
    done = subprocess.run([CKPT, "list", "--repo", store, "--json"], capture_output=True, check=True)
    return [checkpoint["ranks"] for checkpoint in json.loads(done.stdout)["checkpoints"]]


def saves(store, rank):
    """The steps that the first process of the rank has told to be copied. It may have died before it told of one more, and where the daemon
    is late no slot was free: those are no saves."""
    events = [json.loads(line) for line in pathlib.Path(f"{store}.jsonl").read_text().splitlines()]
    pid = next(e["pid"] for e in events if e["event"] == "start" and e["rank"] == rank)
    return [e["step"] for e in events if e["event"] == "save" and e["pid"] == pid and e["result"] == "ok"]


undisturbed = None


@case("a rank that is not replaced is done without: the others go on, and lose next to nothing")
def _():
    global undisturbed
    _, undisturbed, _, _ = train()
    document, loss, said, store = train("--min-ranks", 2, "--max-restarts", 0, "--inject", "kill:rank=0@step=27")
    equal([document["world"], document["retired"], document["restarts"], document["exit"]], [2, 1, 0, 0])
    equal([(rank["rank"], rank["starts"], rank["ok"]) for rank in document["ranks"]], [(r, 1, True) for r in range(2)])
    has(said, "rank 2: is rank 0 of 2 from now on", "the job goes on with 2 ranks, 2 of them here")
    has(said, "rank 0 was killed by signal 9", "and is not started again")
    # What was newest in memory went to storage first: the last save but one at worst.
    step, told = int(re.search(r"2 ranks go on from storage at step (\d+)", said).group(1)), saves(store, 0)
    expect(step >= told[-2] and (step % 5 == 0 or step % 18 == 0), "they go on from step", step, "with these saves", told)
    expect(step in listed(store), step, listed(store))
    equal([worlds(store)[0], worlds(store)[-1]], [3, 2])
    expect(abs(loss - undisturbed) < 1e-3, loss, "undisturbed", undisturbed)


@case("what is newest in memory is not given up for a smaller world")
def _():
    store = tempfile.mkdtemp(dir=top)
    r = run("-n", 2, "--min-ranks", 1, "--max-restarts", 0, "--store", store, "--inject", "kill:rank=0@step=12", "--", TRAIN, *SMALL, "--steps",
            5000, "--save-memory-every", 5, "--save-storage-every", 0, code=1, CKPT_FAILPOINTS="commit.name=error:EIO@1")
    has(r.err(), "is in memory only, and cannot be written (Input/output error): another world would have lost it")
    equal(listed(store), [])


@case("one after the other is done without, down to the least; then the job ends")
def _():
    document, loss, said, _ = train("--min-ranks", 1, "--max-restarts", 0, "--inject", "kill:rank=2@step=10,kill:rank=0@step=27")
    equal([document["world"], document["retired"], [rank["ok"] for rank in document["ranks"]]], [1, 2, [True]])
    has(said, "the job goes on with 2 ranks", "the job goes on with 1 ranks", "rank 1: is rank 0 of 1 from now on")
    expect(abs(loss - undisturbed) < 1e-3, loss, "undisturbed", undisturbed)
    r = run("-n", 2, "--min-ranks", 2, "--max-restarts", 0, "--store", tempfile.mkdtemp(dir=top), "--inject", "kill:rank=0@step=20",
            "--", TRAIN, "--steps", 5000, code=1)
    has(r.err(), "all 0 restarts that --max-restarts allows are spent: giving up")


@case("restarts come first; only then a rank is done without")
def _():
    document, loss, said, _ = train("--min-ranks", 1, "--max-restarts", 1, "--inject", "kill:rank=2@step=10,kill:rank=2@step=27")
    equal([document["world"], document["restarts"], document["retired"]], [2, 1, 1])
    has(said, "restart 1 of 1", "3 ranks go on from memory", "2 ranks go on from storage")
    expect(abs(loss - undisturbed) < 1e-3, loss, "undisturbed", undisturbed)


@case("a daemon that is killed in the smaller world takes its ranks in again")
def _():
    document, loss, said, _ = train("--min-ranks", 2, "--max-restarts", 0, "--inject", "kill:rank=1@step=12,kill-daemon@step=28")
    equal([document["world"], document["daemon_starts"], document["fired"]], [2, 2, 2])
    expect(abs(loss - undisturbed) < 1e-3, loss, "undisturbed", undisturbed)


@case("rank and daemon lost together leave a smaller world as well")
def _():
    document, loss, _, _ = train("--min-ranks", 2, "--max-restarts", 0, "--inject", "kill:rank=1@step=27,kill-daemon@step=27")
    equal([document["world"], document["daemon_starts"], document["retired"]], [2, 2, 1])
    expect(abs(loss - undisturbed) < 1e-3, loss, "undisturbed", undisturbed)


@case("a rank that never comes to work is done without")
def _():
    r = run("-n", 3, "--min-ranks", 2, "--json", "--store", tempfile.mkdtemp(dir=top), *sh(
        'if test $CKPT_RANK = 1 && test $CKPT_WORLD = 3; then exit 7; fi; exec "$0" --steps 20 --save-storage-every 10'), TRAIN)
    document = json.loads(r.out())
    equal([document["world"], document["retired"], document["exit"]], [2, 1, 0])
    has(r.err(), "2 ranks start at step 0")


@case("without a store there is nothing to cut anew, and the least is no more than all")
def _():
    has(Run("-n", 2, "--min-ranks", 1, "true").wait(2).err(), "--min-ranks needs a --store")
    has(Run("-n", 2, "--min-ranks", 3, "--store", "x", "true").wait(2).err(), "--min-ranks 3: at most all of them, 2")


sys.exit(cases.end())
