"""ckpt verify --repair, on stores without a daemon."""
import os
import sys

from offline import CORRUPT, OK, REPAIRABLE, USAGE, cases, case, ckpt, data, flip, make, top
from tap import equal, has

NAME = "rank-00000-of-00002.params.safetensors"
FIRST, SECOND = (f"main/step-00000000000{i}.e0001" for i in (1, 2))


def store(name, **more):
    """Two checkpoints; those of one seed have the same bytes."""
    where = top / name
    for step, seed in ((1, 7), (2, more.get("seed", 7))):
        make(where, step, "--world", 2, "--seed", seed)
    return where


def result(where, *args, code=OK):
    return data("verify", "--repo", where, "1", *args, code=code)["checkpoints"][0]


@case("damage of which an intact copy exists is code 20, and nothing is written")
def _():
    where = store("possible")
    flip(where / FIRST / NAME, 4096)
    found = result(where, code=REPAIRABLE)
    equal((found["result"], found["repair"]["state"], found["repair"]["mended"]), ("damaged", "possible", 1))
    has(ckpt("verify", "--repo", where, "1", code=REPAIRABLE)[0], "repairable")
    equal(result(where, code=REPAIRABLE)["result"], "damaged")


@case("--repair puts it in place, marks the checkpoint, and leaves the donor alone")
def _():
    where = store("mended")
    donor = os.stat(where / SECOND / NAME)
    flip(where / FIRST / NAME, 4096)
    ckpt("verify", "--repo", where, "1", "--mark", code=REPAIRABLE)
    equal(data("show", "--repo", where, "1")["health"]["damaged"], True)
    found = result(where, "--repair")
    equal((found["result"], found["repair"]["state"], found["repair"]["leaves"]), ("ok", "repaired", 1))
    equal(data("show", "--repo", where, "1")["health"]["damaged"], False)
    after = os.stat(where / SECOND / NAME)
    equal((donor.st_ino, donor.st_mtime_ns), (after.st_ino, after.st_mtime_ns))
    ckpt("verify", "--repo", where, "--all")


@case("a checkpoint that shares the damaged file is mended with it")
def _():
    where = store("shared")
    make(where, 3, "--world", 2, "--seed", 7)
    (where / SECOND / NAME).unlink()
    os.link(where / FIRST / NAME, where / SECOND / NAME)
    flip(where / FIRST / NAME, 4096)
    ckpt("verify", "--repo", where, "--all", code=REPAIRABLE)
    equal(result(where, "--repair")["repair"]["siblings"], 1)
    ckpt("verify", "--repo", where, "--all")
    equal(os.stat(where / FIRST / NAME).st_ino, os.stat(where / SECOND / NAME).st_ino)


@case("without an intact copy it stays damaged: code 21")
def _():
    where = store("lost", seed=8)
    flip(where / FIRST / NAME, 4096)
    before = (where / FIRST / NAME).read_bytes()
    found = result(where, "--repair", code=CORRUPT)
    equal((found["result"], found["repair"]["state"]), ("damaged", "impossible"))
    has(found["repair"]["error"], "nobody has", NAME)
    equal((where / FIRST / NAME).read_bytes(), before)
    has(ckpt("verify", "--repo", where, "1", "--repair", code=CORRUPT)[0], "not repairable")


@case("a part of the data is no ground for a repair")
def _():
    where = store("partial")
    for part in ("--quick", "--read-data-subset=5%"):
        has(ckpt("verify", "--repo", where, "--repair", part, code=USAGE)[1], "--repair reads everything")


sys.exit(cases.end())
