"""ckpt flush and ckpt halt: what an operator asks of a job that runs."""

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile

import single_node
from launcher import CKPT, ENVIRONMENT, PACED, Run, listed, tidy, top, until_gone
from loopback_cluster import loopback_cluster
from tap import DEADLINE, Cases, equal, expect, has, until

cases = Cases(tidy)
case = cases.case


def ckpt(*args, code=0):
    done = subprocess.run([CKPT, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    expect(done.returncode == code, f"{args}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stderr


class Training:
    """A job that goes on for ever, on a daemon of its own."""

    def __init__(self, d, *options):
        self.d = d
        d.start()
        self.run = Run("-n", 2, "--job", "gpt", "--socket", d.socket, "--", *PACED, "--steps", 1000000, *options)
        self.run.until("a snapshot", lambda: any(s["in_memory"] for s in self.job()["snapshots"]))

    def job(self):
        return self.d.job("gpt") or {"snapshots": []}

    def ask(self, *args, code=0):
        return ckpt(*args, "--socket", self.d.socket, code=code)


@case("flush writes what is newest in memory and waits until it is durable")
def _():
    with single_node.daemon() as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 0)
        document = json.loads(job.ask("flush", "--json"))
        equal(document["job"], "gpt")
        equal(listed(d.store), [document["step"]])
        has(job.ask("flush", "--job", "gpt"), "gpt: step ", "is durable")
        d.verify_all()
        job.ask("halt", "--now", "--wait", 60)
        job.run.wait(0)


@case("a job that was halted makes a last checkpoint and ends well")
def _():
    with single_node.daemon() as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 100000)
        has(job.ask("halt", "--now", "--wait", 60), "job gpt is asked to make a last checkpoint and end")
        job.run.wait(0)
        equal(len(listed(d.store)), 1)
        d.verify_all()


@case("after the next checkpoint")
def _():
    with single_node.daemon() as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 40)
        has(job.ask("halt", "--after-next"), "when its next checkpoint is durable")
        job.run.wait(0)
        expect(listed(d.store), "there is no checkpoint")


@case("a node whose daemon is away when the others are asked ends with them, after the same checkpoint")
def _():
    store = tempfile.mkdtemp(dir=top)
    with loopback_cluster("ab", a=("--store", store), b=("--store", store)) as daemons:
        a, b = daemons["a"], daemons["b"]
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 1, "--job", "gpt", "--socket", d.socket, "--", *PACED, "--steps", 1000000,
                    "--save-memory-every", 5, "--save-storage-every", 40) for k, d in enumerate((a, b))]
        runs[0].until("a checkpoint", lambda: listed(store))
        b.kill()
        ckpt("halt", "--after-next", "--job", "gpt", "--socket", a.socket)
        b.start()
        for run in runs:
            run.wait(0)
        has(b.text(), "job gpt: asked to stop")


@case("before a time, which is refused when it is too near")
def _():
    with single_node.daemon() as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 40)
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        has(job.ask("halt", "--before", soon.strftime("%Y-%m-%dT%H:%M:%SZ"), code=1), "job gpt needs ", "there are ")
        at = soon + datetime.timedelta(seconds=14)
        job.ask("halt", "--before", at.strftime("%Y-%m-%dT%H:%M:%SZ"), "--wait", 60)
        expect(datetime.datetime.now(datetime.timezone.utc) <= at, "it was late")
        job.run.wait(0)


@case("what was asked for later is shown and can be taken back")
def _():
    with single_node.daemon() as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 100000)
        has(job.ask("halt", "--cancel", code=1), "has not been asked to end")
        job.ask("halt", "--after-next")
        equal(job.job()["halt"], {"when": "after-next"})
        has(job.ask("halt", "--cancel"), "job gpt goes on")
        equal(job.job()["halt"], None)
        job.ask("flush")  # would have been the next checkpoint
        equal(job.job()["stopping"], False)
        job.ask("halt", "--now")
        equal(job.job()["stopping"], True)
        job.run.wait(0)


@case("a job that was asked to end, and was killed before it had, goes on when it is started again")
def _():
    with single_node.daemon() as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 0)
        pids = [rank["pid"] for rank in job.job()["ranks"]]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        job.run.child.terminate()
        job.run.until("its being asked", lambda: job.job()["stopping"])
        job.run.child.kill()
        until_gone(*pids)
        until(lambda: not any(rank["pid"] for rank in job.job()["ranks"]), "its end is seen")
        again = Run("-n", 2, "--job", "gpt", "--socket", d.socket, "--", *PACED, "--steps", 1000000, "--save-memory-every", 5,
                    "--save-storage-every", 20)
        again.until("a checkpoint", lambda: len(listed(d.store)) > 1)
        equal(job.job()["stopping"], False)
        job.ask("halt", "--now")
        again.wait(0)
        has(d.text(), "restoring step", "from memory")


@case("mistakes are named")
def _():
    with single_node.daemon() as d:
        has(ckpt("flush", "--socket", d.socket, code=12), str(d.socket))
        has(ckpt("halt", code=2), "say when")
        has(ckpt("halt", "--now", "--after-next", code=2), "only one of --now, --after-next")
        has(ckpt("halt", "--now", "--cancel", code=2), "only one of --now, --after-next")
        has(ckpt("halt", "--before", "tomorrow", code=2), "a time is 18:30")
        d.start()
        has(ckpt("flush", "--socket", d.socket, code=1), "this daemon has no job")
        job = Training.__new__(Training)
        job.d = d
        has(job.ask("halt", "--now", "--job", "other", code=1), "there is no job 'other' here; jobs: none")


@case("without a store there is nothing to flush to")
def _():
    with single_node.daemon(store=False) as d:
        job = Training(d, "--save-memory-every", 5, "--save-storage-every", 0)
        has(job.ask("flush", code=1), "has no store")
        has(job.ask("halt", "--after-next", code=1), "no store")
        job.ask("halt", "--now")
        job.run.wait(0)


sys.exit(cases.end())
