"""ckpt ranks: where each rank of a job is, which one the others wait for, and a live table."""

import json
import subprocess
import sys

import single_node
from launcher import PACED, Run, tidy
from loopback_cluster import loopback_cluster
from tap import BIN, DEADLINE, Cases, equal, expect, has, until
from terminal import ROWS, Terminal

cases = Cases(tidy)
case = cases.case
daemon = single_node.Daemon()


def ranks(*args, of=daemon, code=0):
    done = subprocess.run([BIN / "ckpt", "ranks", "--socket", of.socket, *args], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done.stdout, done.stderr


def told(*args, of=daemon):
    return json.loads(ranks("--json", *args, of=of)[0])


def train(*options, job="gpt"):
    return Run("-n", 3, "--job", job, "--socket", daemon.socket, *options, "--", *PACED, "--steps", 1000000, "--save-memory-every", 5,
               "--save-storage-every", 0)


def end(training):
    training.child.terminate()
    training.wait(0)


@case("without a daemon it ends with 12")
def _():
    has(ranks(code=12)[1], "ckpt ranks:", str(daemon.socket))


daemon.start()


@case("a daemon without a job has no ranks")
def _():
    equal(told()["jobs"], [])
    has(ranks()[0], "no jobs")


@case("of each rank it tells step, phase, collective, heartbeat and step time")
def _():
    training = train()
    try:
        def known():
            document = told()
            jobs = document["jobs"]
            return jobs and all(rank["deviation"] is not None for rank in jobs[0]["ranks"]) and document
        document = until(known, "step times", pause=0.1)
        job = document["jobs"][0]
        equal([document["node"], job["name"], job["state"], job["world"], job["epoch"]], ["n0", "gpt", "running", 3, 1])
        equal([rank["rank"] for rank in job["ranks"]], [0, 1, 2])
        for rank in job["ranks"]:
            expect(rank["step"] > 0 and rank["step_ms"] > 0 and rank["beat_age_ms"] >= 0, rank)
            equal([rank["state"], rank["waits"]], ["joined", None])
            expect(rank["doing"] in ("computing", "collective", "saving"), rank)
            expect(rank["collective"]["number"] > 0 and rank["collective"]["op"], rank)
        middle = sorted(rank["step_ms"] for rank in job["ranks"])[1]
        equal(job["step_ms"], middle)
        for rank in job["ranks"]:
            expect(abs(rank["deviation"] - (rank["step_ms"] / middle - 1)) < 1e-9, rank, middle)
        text, _ = ranks("--watch", "--job", "gpt")  # no terminal: one table
        has(text, "job gpt: running, epoch 1, 3 ranks", "RANK", "DOING", "COLLECTIVE", "DEVIATION", "ms ago")
        expect("\033" not in text, "sequences for a terminal", repr(text))
    finally:
        end(training)


@case("a rank that stays away from a collective is in none, and the others wait in it")
def _():
    training = train("--inject", "absent:rank=1@step=200", job="late")
    try:
        def waited_for():
            of = {rank["rank"]: rank for job in told("--job", "late")["jobs"] for rank in job["ranks"]} if daemon.job("late") else {}
            long = of and of[1]["step"] == 200 and of[1]["beat_age_ms"] > 500
            return long and all(of[r]["collective"]["in"] and of[r]["collective"]["entered_ms"] > 400 for r in (0, 2)) and of
        of = until(waited_for, "all wait for rank 1", pause=0.1)
        equal([of[r]["doing"] for r in range(3)], ["collective", "computing", "collective"])
        equal(of[0]["collective"]["number"], of[2]["collective"]["number"])
        equal(of[1]["collective"]["number"], of[0]["collective"]["number"] - 1)
        job = until(lambda: [job for job in told("--job", "late")["jobs"] if job["standstill"]], "the standstill", pause=0.1)[0]
        equal(job["standstill"]["rank"], 1)
        has(job["standstill"]["text"], "rank 1 is waited for: last at step 200, in no collective; rank 0 and others are in reduce_scatter #")
        has(ranks("--job", "late")[0], "no heartbeat for", "rank 1 is waited for")
        has(daemon.text(), "job late: no heartbeat for")
    finally:
        training.child.kill()  # what waits does not end by being asked
        training.child.wait(DEADLINE)


@case("on a terminal it goes on, fits, and q leaves it as it was")
def _():
    training = train()
    try:
        until(lambda: daemon.job("gpt"), "the job")
        terminal = Terminal("ranks", "--socket", daemon.socket, "--job", "gpt", "--watch", "--interval", "200ms")
        for _ in range(3):
            picture = terminal.picture("the job", lambda text: "job gpt: running" in text and "ms ago" in text)
        expect(picture.count("\n") < ROWS, picture)
        terminal.press(b"q")
        terminal.ended()
        _, err = ranks("--job", "other", code=1)
        has(err, "no job other", "gpt")
        ranks("--job", "a/b", code=2)
        ranks("--interval", "1ms", code=2)
    finally:
        end(training)


@case("on several nodes it says whose ranks it has")
def _():
    with loopback_cluster("ab") as daemons:
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--job", "gpt", "--socket", d.socket, "--", *PACED, "--steps", 1000000,
                    "--save-memory-every", 5, "--save-storage-every", 0) for k, d in enumerate(daemons.values())]
        try:
            d = daemons["b"]
            job = until(lambda: [job for job in told(of=d)["jobs"] if job["state"] == "running"], "the job", pause=0.1)[0]
            equal([job["world"], [rank["rank"] for rank in job["ranks"]]], [4, [2, 3]])
            has(ranks(of=d)[0], "the 2 of its 4 ranks that are on b")
        finally:
            for training in runs:
                training.child.terminate()
            for training in runs:
                training.wait(0)


daemon.close()
sys.exit(cases.end())
