"""A rank that is late again and again is named, with what it costs, wherever one looks; those who wait for it are not."""

import json
import sqlite3
import subprocess
import sys
import urllib.request

import prometheus
import re
import single_node
from launcher import Run, tidy
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

STEP_MS = 50
cases = Cases(tidy)
case = cases.case
daemon = single_node.Daemon(options=["--http", "127.0.0.1:0"])
daemon.start()
address = re.search(r"metrics at http://([^/]+)/", until(lambda: "metrics at" in daemon.text() and daemon.text(), "http"))[1]
slow = daemon.top / "slow"  # from when it is there
job = Run("-n", 3, "--job", "gpt", "--socket", daemon.socket, "--", BIN / "paced", STEP_MS, slow, 1, 1)


def get(path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
        return answer.read().decode()


def compared():
    found = daemon.job("gpt")
    return found and all(rank.get("straggler") for rank in found["ranks"]) and found


@case("ranks that wait for each other alike are compared, and none is named")
def _():
    found = until(compared, "a round", pause=0.2)
    equal([rank["straggler"]["is"] for rank in found["ranks"]], [False] * 3)
    equal(found["stragglers"], [])


@case("the late one is named in status, health, metrics and log, with about what it costs")
def _():
    slow.touch()

    def named():
        found = daemon.job("gpt")
        return found["stragglers"] and found["stragglers"][0]["cost_ms"] > 20000 and found
    found = until(named, "the straggler", pause=0.5)
    (episode,) = found["stragglers"]
    equal([episode["rank"], episode["until_ns"]], [1, None])
    has(episode["text"], "rank 1 is a straggler")
    equal([rank["straggler"]["is"] for rank in found["ranks"]], [False, True, False])
    # It computes for 0.9 of a step and 0.05 lie between two, the others for a third of it.
    expect(1.8 < found["ranks"][1]["straggler"]["ratio"] < 3, found["ranks"][1]["straggler"])
    expect(0.35 < found["ranks"][1]["straggler"]["cost"] < 0.65, found["ranks"][1]["straggler"])
    findings = [f for f in json.loads(get("/healthz"))["findings"] if f["code"] == "STRAGGLER"]
    equal([f["severity"] for f in findings], ["notice"])
    has(findings[0]["text"], "rank 1 is a straggler")
    has(daemon.text(), "job gpt: rank 1 is a straggler")
    families = prometheus.parse(get("/metrics"))
    equal(families["ckpt_job_stragglers"].value(job_name="gpt"), 1)
    values = {r: families["ckpt_rank_straggler"].value(job_name="gpt", rank=r) for r in "012"}
    equal(values, {"0": 0, "1": 1, "2": 0})
    expect(families["ckpt_rank_straggler_cost_ratio"].value(job_name="gpt", rank="1") > 0.35, "cost")
    waited = [families["ckpt_rank_collective_seconds_total"].value(job_name="gpt", rank=r) for r in "012"]
    expect(waited[1] < waited[0] and waited[1] < waited[2], waited)


@case("ckpt ranks shows it")
def _():
    done = subprocess.run([BIN / "ckpt", "ranks", "--socket", daemon.socket], capture_output=True, text=True, timeout=DEADLINE)
    rows = [line for line in done.stdout.splitlines() if re.match(r" +\d", line)]
    equal([("yes, costs" in row) for row in rows], [False, True, False])


@case("it ends with the epoch, and the catalog has both")
def _():
    job.child.terminate()
    job.wait(0)
    until(lambda: not daemon.job("gpt"), "the job is over")
    has(daemon.text(), "job gpt: rank 1 is no straggler any more")
    daemon.stop()
    with sqlite3.connect(daemon.store / "catalog.sqlite") as catalog:
        kinds = [kind for (kind,) in catalog.execute("SELECT kind FROM event WHERE kind LIKE 'straggler%' ORDER BY id")]
    equal(kinds, ["straggler", "straggler-over"])


daemon.close()
sys.exit(cases.end())
