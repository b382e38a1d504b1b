"""A store that is lost while a job runs: half removed, moved away, or another directory in its place. What is saved then would be found
by nobody: no save may be called durable, and whoever looks is told what is missing and what to do."""

import os
import signal
import subprocess
import sys

import single_node
from launcher import CKPT, ENVIRONMENT, PACED, Run, listed, tidy
from tap import DEADLINE, Cases, equal, expect, has, until

cases = Cases(tidy)
case = cases.case

MARK = "ckpt-repository"
EVERY = ("--save-memory-every", 0, "--save-storage-every", 5)


def ckpt(*args, code=0):
    done = subprocess.run([CKPT, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def start(d, steps):
    d.start()
    run = Run("-n", 2, "--job", "gpt", "--socket", d.socket, "--", *PACED, "--steps", steps, *EVERY)
    run.until("a checkpoint", lambda: saves(d)["committed"] > 1)
    return run


def saves(d):
    return d.job("gpt") or {"committed": 0, "failed": 0}


def missing(d):
    """What health says of the store; None: nothing."""
    health = d.status()["health"]
    found = [finding["text"] for finding in health["findings"] if finding["code"] == "STORE_MISSING"]
    expect(not found or health["status"] == "failing", "a store is missing, and health says", health["status"])
    return found[0] if found else None


def command(text):
    """What a message says is to be typed."""
    return text.partition("Make it again: ")[2].splitlines()[0]


@case("without the mark no save is durable; with the mark as the message says it saves go on")
def _():
    with single_node.daemon() as d:
        run = start(d, 1000000)
        (d.store / MARK).unlink()
        run.until("health says so", lambda: missing(d))
        text, before = missing(d), saves(d)
        has(text, str(d.store), MARK, "Make it again: ")
        run.until("failed saves", lambda: saves(d)["failed"] > before["failed"] + 2)
        equal(saves(d)["committed"], before["committed"], "a save without a repository was called durable")
        subprocess.run(["sh", "-c", command(text)], check=True)
        run.until("saves go on", lambda: saves(d)["committed"] > before["committed"] + 1)
        run.until("health is good again", lambda: not missing(d))
        ckpt("halt", "--now", "--socket", d.socket)
        run.wait(0)
        d.verify_all()


def move(store, away):
    store.rename(away)


def replace(store, away):
    store.rename(away)
    store.mkdir()


def loses(how, *words):
    with single_node.daemon() as d:
        away = d.top / "away"
        run = start(d, 800)
        how(d.store, away)
        run.until("health says so", lambda: missing(d))
        has(missing(d), str(d.store), *words)
        count, there = saves(d)["committed"], listed(away)
        run.wait(1)
        has(run.err(), "exited with status 3: it has finished, but not all is saved", *words)
        equal(listed(away), there, "a save went where the store no longer is")
        equal(d.text().count(" durable, "), count, "a save was called durable")
        equal(os.listdir(d.store) if d.store.exists() else [], [], "something was made in the place of the store")


@case("a store that was moved away")
def _():
    loses(move, "is gone: no such directory")


@case("another directory in the place of the store")
def _():
    loses(replace, "is another directory")


@case("a store without its mark is not taken for an empty one: what is missing is said, and how to make it again")
def _():
    with single_node.daemon() as d:
        run = Run("-n", 1, "--job", "gpt", "--store", d.store, "--", *PACED, "--steps", 10, *EVERY).wait(0)
        mark = (d.store / MARK).read_bytes()
        (d.store / MARK).unlink()
        run = Run("-n", 1, "--job", "gpt", "--store", d.store, "--", *PACED, "--steps", 15, *EVERY).wait(12)
        has(run.err(), f"{d.store} has checkpoints, but its file {MARK} is missing")
        said = ckpt("list", "--repo", d.store, code=10)
        equal(command(said), command(run.err()))
        subprocess.run(["sh", "-c", command(said)], check=True)
        equal((d.store / MARK).read_bytes(), mark)
        run = Run("-n", 1, "--job", "gpt", "--store", d.store, "--", *PACED, "--steps", 15, *EVERY).wait(0)
        equal(listed(d.store)[-1], 15)
        has(run.err(), "go on from storage at step 10")


def beside(d):
    """Another daemon of the same store, on another socket."""
    other = single_node.Daemon(options=["--store", d.store])
    other.options = other.options[2:]
    return other.start()


@case("a lock file that somebody deletes is locked anew, and saves go on")
def _():
    with single_node.daemon() as d:
        run = start(d, 1000000)
        (d.store / ".lock").unlink()
        run.until("it is locked anew", lambda: f"somebody has deleted {d.store}/.lock" in d.text())
        other = beside(d)
        equal(other.process.wait(DEADLINE), 11)
        has(other.text(), "another ckptd has the store")
        before = saves(d)["committed"]
        run.until("saves go on", lambda: saves(d)["committed"] > before)
        ckpt("halt", "--now", "--socket", d.socket)
        run.wait(0)


@case("a daemon whose lock file was deleted ends where another one has come in meanwhile")
def _():
    with single_node.daemon() as d:
        d.start()
        d.process.send_signal(signal.SIGSTOP)
        (d.store / ".lock").unlink()
        other = beside(d)
        expect(other.alive(), other.text())
        d.process.send_signal(signal.SIGCONT)
        equal(d.process.wait(DEADLINE), 11)
        has(d.text(), f"another ckptd has the store {d.store}", "deleted the lock file")
        expect(other.alive(), other.text())
        other.kill()


@case("a directory with other things in it is refused as before")
def _():
    with single_node.daemon() as d:
        (d.store / "gpt" / "notes").mkdir(parents=True)
        run = Run("-n", 1, "--store", d.store, "--", *PACED, "--steps", 1).wait(12)
        has(run.err(), "is not empty and not a repository")


sys.exit(cases.end())
