"""ckpt list beside a daemon that has noted what lists say: it says the same as one that looks at everything, whatever became of the store."""

import contextlib
import shutil
import sqlite3
import time

import offline
from single_node import Daemon
from offline import CORRUPT, case, cases, ckpt, data, make
from tap import equal, until

OLD = 2.5  # seconds: what changed less than two seconds before it was noted is looked at
store = offline.top / "store"
make(store, 1, "--count", 6, "--rows", 4, "--cols", 4)
make(store, 7, "--rows", 4, "--cols", 4, "--verdict", "healthy")


def changed():
    return max(path.stat().st_ctime for path in store.glob("main/step-*"))


def noted():
    with contextlib.closing(sqlite3.connect(f"file:{store}/catalog.sqlite?mode=ro", uri=True)) as catalog:
        return catalog.execute("SELECT count(*) FROM listing").fetchone()[0]


def states():
    return {row["step"]: row["state"] for row in data("list", "--repo", store)["checkpoints"]}


def folder(step):
    return next(store.glob(f"main/step-{step:012d}.*"))


@case("what was noted is what a look says")
def _():
    looked = data("list", "--repo", store)["checkpoints"]
    until(lambda: time.time() - changed() > OLD, "the store is old enough")
    d = Daemon(top=offline.top)
    d.start()
    until(lambda: noted() == 7, "the catalog is filled")
    d.stop()
    equal(data("list", "--repo", store)["checkpoints"], looked)
    equal([row["verdict"] for row in looked], [None] * 6 + ["healthy"])


@case("of what has not changed nothing is opened")
def _():
    for step in (1, 2, 3):
        (folder(step) / "MANIFEST.json").write_text("{}")  # in place: to find that is for verify
    equal(states(), {step: "committed" for step in range(1, 8)})


@case("what has changed is looked at: a pin, a check, a removal, a new one")
def _():
    ckpt("pin", "1", "--repo", store)
    ckpt("verify", "2", "--mark", "--repo", store, code=CORRUPT)
    shutil.rmtree(folder(4))
    (folder(5) / "MANIFEST.json").unlink()
    make(store, 9, "--rows", 4, "--cols", 4)
    equal(states(), {1: "damaged", 2: "damaged", 3: "committed", 6: "committed", 7: "committed", 9: "committed"})


@case("without the catalog everything is looked at")
def _():
    (store / "catalog.sqlite").unlink()
    equal(states(), {1: "damaged", 2: "damaged", 3: "damaged", 6: "committed", 7: "committed", 9: "committed"})


shutil.rmtree(offline.top, ignore_errors=True)
raise SystemExit(cases.end())
