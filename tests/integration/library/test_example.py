"""docs/examples/train.c, built against the library, does what docs/tutorial/training-loop.md says of it: it goes on when a rank is killed, calls checkpoints
healthy, goes back to one, and goes on from the store."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from launcher import CKPT, Run, tidy
from tap import BIN, Cases, equal, expect, has

SOURCE = pathlib.Path(__file__).resolve().parents[3]
cases = Cases(tidy)
top = pathlib.Path(tempfile.mkdtemp())
train = top / "train"


def ends_right(run, steps):
    """Both ranks, with the same bits."""
    ends = re.findall(r"parameter \d+ after step (\d+): (\S+)", run.out())
    expect(len(ends) == 2 and len(set(ends)) == 1 and ends[0][0] == str(steps), ends, run.out(), run.err())
    return ends[0][1]


def listed(store):
    out = subprocess.run([CKPT, "list", "--repo", store, "--json"], check=True, capture_output=True, text=True).stdout
    return {(row["epoch"], row["step"]): row["verdict"] for row in json.loads(out)["checkpoints"]}


@cases.case("it is built as its first lines say")
def _():
    library = BIN.parent / "lib"
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", SOURCE / "docs/examples/train.c", "-I", SOURCE / "libckpt", "-L", library,
                    "-lckpt", f"-Wl,-rpath,{library}", "-o", train], check=True)


@cases.case("a killed rank is replaced, and the end is the same")
def _():
    undisturbed = Run("-n", 2, "--store", top / "a", "--", train, 1000).wait()
    disturbed = Run("-n", 2, "--store", top / "b", "--inject", "kill:rank=1@step=333", "--", train, 1000).wait()
    has(disturbed.err(), "rank 1 is lost")
    equal(ends_right(disturbed, 1000), ends_right(undisturbed, 1000))
    expect(any(verdict == "healthy" for verdict in listed(top / "b").values()), listed(top / "b"))


@cases.case("a bad loss leads back to a healthy checkpoint, which is then the newest")
def _():
    run = Run("-n", 2, "--store", top / "c", "--", train, 1000, 620).wait()
    ends_right(run, 1000)
    went = {tuple(map(int, m)) for m in re.findall(r"epoch (\d+): step (\d+)", run.out())}
    expect(went <= {(1, 0)} | {(2, step) for step in range(0, 601, 100)} and len(went) == 2, went)
    back, there = dict(went)[2], listed(top / "c")
    # What it went back to, and the save that makes that last, may have given way to later saves where the disk is slow.
    expect(max(there) == (2, 1000) and there.get((1, back), "healthy") == "healthy", back, there)


@cases.case("the same command once more goes on from the store")
def _():
    run = Run("-n", 3, "--store", top / "a", "--", train, 1200).wait()
    has(run.out(), "rank 2 of 3, epoch 2: step 1000", "rank 0 of 3, epoch 2: step 1000")


sys.exit(cases.end())
