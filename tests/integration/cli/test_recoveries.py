"""ckpt recoveries: what was restored, why, from where, and how long each part of the way took."""

import contextlib
import json
import subprocess
import sys
import tempfile

import single_node
from launcher import CKPT, ENVIRONMENT, PACED, Run, tidy
from loopback_cluster import loopback_cluster
from tap import DEADLINE, Cases, equal, expect, has, until

cases = Cases(tidy)
case = cases.case

PARTS = ("detect_ms", "decide_ms", "gather_ms", "choose_ms", "fetch_ms", "load_ms", "first_step_ms")


def ckpt(*args, code=0):
    done = subprocess.run([CKPT, "recoveries", *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    expect(done.returncode == code, f"{args}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def told(*args):
    return json.loads(ckpt(*args, "--json").stdout)


def known(d):
    """The jobs of a daemon: of another one there is nothing to tell, with code 1."""
    return [job["name"] for job in d.status()["jobs"]]


def damage(store):
    """A byte in each file of the newest step."""
    newest = max((store / "gpt").glob("step-*"))
    for file in newest.glob("*.safetensors"):
        data = bytearray(file.read_bytes())
        data[-8] ^= 1
        file.chmod(0o600)
        file.write_bytes(data)
    return int(newest.name[5:17])


def train(d, *options):
    return Run("-n", 2, "--job", "gpt", "--socket", d.socket, *options, "--", *PACED, "--steps", 100000, "--save-memory-every", 5,
               "--save-storage-every", 20)


def end(training):
    training.child.terminate()
    training.wait(0)


def done(d, epoch):
    """Of the epoch, once every rank has done a step."""
    def look():
        found = [r for r in told("--socket", d.socket)["recoveries"] if r["epoch"] == epoch and r["state"] == "done"]
        return found and found[-1]
    return until(look, f"the recovery of epoch {epoch}", pause=0.1)


with single_node.daemon() as daemon:
    daemon.start()

    @case("a replaced rank's recovery has all its parts, and they add up")
    def _():
        training = train(daemon, "--inject", "kill:rank=1@step=60")
        try:
            r = done(daemon, 2)
            equal([r["job"], r["node"], r["source"], r["ok"], r["passed_over"]], ["gpt", "n0", "memory", True, ""])
            has(r["reason"], "rank 1 is lost")
            for name in PARTS:
                expect(0 < r[name] < 60000, name, r[name])
            expect(abs(sum(r[name] for name in PARTS) - r["total_ms"]) < 1e-3, r)
            expect(abs(r["restore_ms"] - r["choose_ms"] - r["fetch_ms"]) < 1e-3, r)
            equal([(rank["rank"], rank["source"], rank["from"]) for rank in r["ranks"]], [(0, "memory", None), (1, "memory", None)])
            expect(all(0 < rank["load_ms"] <= r["load_ms"] for rank in r["ranks"]), r["ranks"])
            expect(r["step"] % 5 == 0 and r["step"] <= 60 and r["step_epoch"] == 1, r)
            text = ckpt("--socket", daemon.socket, "--ranks").stdout
            equal([rank["skipped"] for rank in r["ranks"]], ["", ""])
            has(text, "DETECT", "FIRST STEP", f"step {r['step']} from memory", "rank 1 is lost")
            equal(len([line for line in text.splitlines() if line.startswith("gpt")]), 3)
        finally:
            end(training)

    @case("the catalog tells of it without a daemon, and each job of its own")
    def _():
        daemon.stop()
        document = told("--store", daemon.store)
        equal([document["catalog"], [r["epoch"] for r in document["recoveries"]]], ["read", [2]])
        (daemon.store / "other").mkdir()  # a job that needed none
        equal(told("--store", daemon.store, "--job", "other")["recoveries"], [])
        has(ckpt("--socket", daemon.socket, code=12).stderr, "--store DIR")

    @case("what was passed over is named with the reason, by a daemon that knows earlier lives")
    def _():
        daemon.start()
        bad = damage(daemon.store)
        training = train(daemon)
        try:
            r = until(lambda: [r for r in told("--socket", daemon.socket)["recoveries"] if r["state"] == "done" and r["reason"] == "start"],
                      "the start", pause=0.1)[0]
            equal([r["source"], r["detect_ms"], r["decide_ms"], r["gather_ms"]], ["storage", None, None, None])
            expect(r["step"] < bad, r["step"], bad)
            has(r["passed_over"], f"step {bad} epoch")
            expect(abs(sum(r[name] or 0 for name in PARTS) - r["total_ms"]) < 1e-3, r)
            equal([(rank["source"], rank["skipped"]) for rank in r["ranks"]],
                  [("storage", "memory: it is not in this node's; peer: this node is in no cluster")] * 2)
            text = ckpt("--socket", daemon.socket).stdout
            has(text, "from memory", "from storage", "passed over: step")
            equal(len(told("--socket", daemon.socket, "--last", 1)["recoveries"]), 1)
        finally:
            end(training)

    @case("nothing to restore after a loss is told, too")
    def _():
        training = Run("-n", 2, "--job", "new", "--socket", daemon.socket, "--inject", "kill:rank=0@step=3", "--", *PACED, "--steps", 100000,
                       "--save-memory-every", 1000, "--save-storage-every", 0)
        try:
            until(lambda: "new" in known(daemon), "the job")
            r = until(lambda: [r for r in told("--socket", daemon.socket, "--job", "new")["recoveries"] if r["state"] == "done"],
                      "the new start", pause=0.1)[0]
            equal([r["epoch"], r["step"], r["source"], r["ok"]], [2, None, "none", True])
            has(ckpt("--socket", daemon.socket, "--job", "new").stdout, "nothing was there")
        finally:
            end(training)

    @case("a catalog that is gone is said")
    def _():
        daemon.stop()
        (daemon.store / "catalog.sqlite").unlink()
        done = ckpt("--store", daemon.store)
        equal(done.stdout, "")
        has(done.stderr, "no catalog", "no recoveries")
        equal(told("--store", daemon.store)["catalog"], "missing")
        ckpt("--store", "/nonexistent", code=10)
        ckpt("--job", "a/b", code=2)

@case("each node of a job tells of its own part, and the one that lost a rank of the decision")
def _():
    with loopback_cluster("ab") as daemons:
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--job", "gpt", "--socket", d.socket, "--inject", "kill:rank=3@step=22", "--",
                    *PACED, "--steps", 100000, "--save-memory-every", 5, "--save-storage-every", 0)
                for k, d in enumerate(daemons.values())]
        try:
            here, there = done(daemons["a"], 2), done(daemons["b"], 2)
            equal([[rank["rank"] for rank in r["ranks"]] for r in (here, there)], [[0, 1], [2, 3]])
            equal([(r["node"], r["source"], r["step"]) for r in (here, there)], [("a", "memory", here["step"]), ("b", "memory", here["step"])])
            equal([here["detect_ms"], here["decide_ms"]], [None, None])
            for r, parts in ((here, PARTS[2:]), (there, PARTS)):
                for name in parts:
                    expect(0 < r[name] < 60000, r["node"], name, r[name])
                expect(abs(sum(r[name] for name in parts) - r["total_ms"]) < 1e-3, r)
            equal(told("--socket", daemons["b"].socket)["catalog"], None)
        finally:
            for training in runs:
                training.child.terminate()
            for training in runs:
                training.wait(0)

@contextlib.contextmanager
def sharing(names):
    """A cluster whose nodes share a store."""
    with tempfile.TemporaryDirectory() as folder:
        with loopback_cluster(names, **{name: ["--store", f"{folder}/store"] for name in names}) as daemons:
            yield daemons, f"{folder}/store"


def noted(store, epoch):
    return sorted(r["node"] for r in told("--store", store)["recoveries"] if r["epoch"] == epoch and r["state"] == "done")


@case("what each node has recovered stands in the store when the job is over, and each of them tells of it")
def _():
    with sharing("ab") as (daemons, store):
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--job", "gpt", "--socket", d.socket, "--inject", "kill:rank=3@step=22", "--",
                    *PACED, "--steps", 100000, "--save-memory-every", 5, "--save-storage-every", 0)
                for k, d in enumerate(daemons.values())]
        try:
            for d in daemons.values():
                done(d, 2)
        finally:
            for training in runs:
                training.child.terminate()
            for training in runs:
                training.wait(0)
        until(lambda: not any(d.job("gpt") for d in daemons.values()), "the job is over on both nodes", pause=0.1)
        until(lambda: noted(store, 2) == ["a", "b"], "both are noted", pause=0.1)
        for d in daemons.values():
            found = [r for r in told("--socket", d.socket)["recoveries"] if r["epoch"] == 2]
            equal(sorted((r["node"], r["state"], r["source"], len(r["ranks"])) for r in found), [("a", "done", "memory", 2), ("b", "done", "memory", 2)])

@case("what was recovered while the first node was away is noted when it is back")
def _():
    with sharing("ab") as (daemons, store):
        daemons["a"].stop()
        training = Run("-n", 2, "--job", "gpt", "--socket", daemons["b"].socket, "--inject", "kill:rank=1@step=22", "--",
                       *PACED, "--steps", 100000, "--save-memory-every", 5, "--save-storage-every", 0)
        try:
            done(daemons["b"], 2)
            equal(noted(store, 2), [])
            daemons["a"].start()
            until(lambda: noted(store, 2) == ["b"], "it is noted", pause=0.1)
        finally:
            end(training)

sys.exit(cases.end())
