"""A loss that goes wrong is found by ckptd, whatever training thinks of it: no number, a spike, a lasting rise. A job is halted if its policy says so."""

import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import pathlib
import urllib.request

import prometheus
import single_node
from launcher import TRAIN, Run, tidy
from loopback_cluster import loopback_cluster
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

AT, WRONG = 100, 40  # the step at which it goes wrong, and for how many: as of tools/lossy.c
cases = Cases(tidy)
case = cases.case
top = pathlib.Path(tempfile.mkdtemp())
(top / "ckptd.conf").write_text("[job halted-*]\nloss-policy = halt\n")
daemon = single_node.Daemon(top, options=["--http", "127.0.0.1:0", "--config", top / "ckptd.conf"])
daemon.start()
address = re.search(r"metrics at http://([^/]+)/", until(lambda: "metrics at" in daemon.text() and daemon.text(), "http"))[1]


def get(path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
        return answer.read().decode()


def train(job, kind, at=AT):
    return Run("-n", 2, "--job", job, "--socket", daemon.socket, "--", BIN / "lossy", kind, at)


def end(training):
    training.child.terminate()
    training.wait(0)


def episodes(job):
    found = daemon.job(job)
    return found and found["loss"] and found["loss"]["episodes"]


def finding(code):
    return [f for f in json.loads(get("/healthz"))["findings"] if f["code"] == code]


@case("of a good training the loss is told, and nobody complains")
def _():
    training = train("good", "none")
    def told():
        job = daemon.job("good")
        return job and job["loss"] and all(rank["loss"] and rank["loss"]["step"] > 150 for rank in job["ranks"]) and job
    found = until(told, "150 steps", pause=0.1)
    loss = found["loss"]
    equal([loss["trouble"], loss["episodes"]], [None, []])
    expect(1.7 < loss["loss"] < 2.6 and 1.7 < loss["median"] < 2.6 and 0.8 < loss["gradient_norm"] < 1.2, loss)
    expect(loss["best"] <= loss["smoothed"] < 2.6 and 0 < loss["noise"] < 0.3, loss)
    families = prometheus.parse(get("/metrics"))
    expect(1.7 < families["ckpt_job_loss"].value(job_name="good") < 2.6, "ckpt_job_loss")
    expect(0.8 < families["ckpt_job_gradient_norm"].value(job_name="good") < 1.2, "ckpt_job_gradient_norm")
    text = subprocess.run([BIN / "ckpt", "ranks", "--socket", daemon.socket], capture_output=True, text=True, timeout=DEADLINE).stdout
    expect(re.search(r"STRAGGLER +LOSS\n.* +(1\.|2\.)\d+\n", text), text)
    end(training)


@case("no number on one rank is found at once, told everywhere, and over when training goes on")
def _():
    training = train("broken", "nan")
    episode = until(lambda: episodes("broken"), "the episode", pause=0.02)[0]
    equal([episode["kind"], episode["rank"]], ["not-finite", 1])
    expect(AT <= episode["step"] < AT + WRONG, episode)
    has(daemon.text(), f"warn ckptd: job broken: the loss of step {episode['step']} is NaN, as rank 1 says")
    families = prometheus.parse(get("/metrics"))
    counts = [families["ckpt_loss_troubles_total"].value(job_name="broken", kind=kind) for kind in ("not-finite", "spike", "diverged")]
    equal(counts, [1, 0, 0])
    until(lambda: episodes("broken")[0]["until_ns"], "it is over", pause=0.1)
    equal(daemon.job("broken")["stopping"], False, "its policy is to warn")
    end(training)


@case("a spike is found, and halts no job")
def _():
    training = train("halted-never", "spike")
    episode = until(lambda: episodes("halted-never"), "the episode", pause=0.02)[0]
    equal([episode["kind"], episode["rank"]], ["spike", None])
    expect(AT + 2 <= episode["step"] < AT + WRONG, episode)
    has(episode["text"], "the third in a row that is far above the median")
    until(lambda: episodes("halted-never")[0]["until_ns"], "it is over", pause=0.1)
    job = daemon.job("halted-never")
    equal([job["stopping"], job["policy"]["loss-policy"]], [False, "halt"])
    end(training)


@case("a lasting rise is found, and is in health and the table of ranks as long as it lasts")
def _():
    training = train("worse", "rise")
    found = until(lambda: finding("LOSS_DIVERGED"), "the finding", pause=0.2)[0]
    equal([found["severity"], found["job"]], ["degraded", "worse"])
    has(found["text"], "the loss rises for good")
    text = subprocess.run([BIN / "ckpt", "ranks", "--socket", daemon.socket], capture_output=True, text=True, timeout=DEADLINE).stdout
    has(text, "\nthe loss rises for good: smoothed it is ")
    end(training)
    until(lambda: not finding("LOSS_DIVERGED"), "the job is over")


@case("a job whose policy says so is asked to end: by no number, and by a lasting rise")
def _():
    for job, kind in (("halted-1", "nan"), ("halted-2", "rise")):
        train(job, kind).wait(0)
        has(daemon.text(), f"job {job}: it is asked to end, as its loss-policy says")


@case("of a job on two nodes, the one that finds it ends the job on both")
def _():
    with loopback_cluster("ab", b=["--loss-policy", "halt"]) as daemons:
        for run in [Run("--nodes", 2, "--node-rank", k, "-n", 1, "--job", "spread", "--socket", d.socket, "--", BIN / "lossy", "nan", AT)
                    for k, d in enumerate(daemons.values())]:
            run.wait(0)
        has(daemons["b"].text(), "as rank 1 says", "it is asked to end, as its loss-policy says")
        has(daemons["a"].text(), "job spread: asked to stop")
        expect("NaN" not in daemons["a"].text(), "rank 1 is not on a")


@case("what the fault nan does to ckpt-train is found by ckptd, too, and over when it has gone back")
def _():
    training = Run("-n", 2, "--job", "gpt", "--socket", daemon.socket, "--inject", "nan:rank=1@step=60", "--", TRAIN, "--steps", 1000000,
                   "--save-memory-every", 5, "--save-storage-every", 20)
    until(lambda: (found := episodes("gpt")) and found[0]["until_ns"], "an episode that is over", pause=0.1)
    job = daemon.job("gpt")
    equal([(e["kind"], e["step"]) for e in job["loss"]["episodes"]], [("not-finite", 62)])
    expect(job["epoch"] > 1, "it has gone back by itself")
    end(training)


@case("the catalog has all of it")
def _():
    daemon.stop()
    with sqlite3.connect(daemon.store / "catalog.sqlite") as catalog:
        rows = catalog.execute("SELECT job, kind FROM event WHERE kind LIKE 'loss%' ORDER BY id").fetchall()
    kinds = {job: [kind for of, kind in rows if of == job] for job, _ in rows}
    equal(kinds["broken"], ["loss-not-finite", "loss-over"])
    equal(kinds["halted-never"], ["loss-spike", "loss-over"])
    equal(kinds["halted-1"], ["loss-not-finite", "loss-halt"])
    equal(kinds["halted-2"][-2:], ["loss-diverged", "loss-halt"])
    expect("good" not in kinds, kinds)


daemon.close()
sys.exit(cases.end())
