"""Of one job on two nodes a rank is late again and again, of another one all ranks of a node: each node names what is late, with what it costs."""

import contextlib
import json
import re
import subprocess
import sys
import urllib.request

import prometheus
from launcher import Run, tidy
from loopback_cluster import loopback_cluster
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

STEP_MS = 50
NODES = "ab"  # two ranks of each job on each
cases = Cases(tidy)
case = cases.case


class Job:
    """Ranks `first` to `last` are late from the beginning."""

    def __init__(self, daemons, name, first, last):
        self.name, self.daemons = name, daemons
        self.runs = [Run("--nodes", 2, "--node-rank", k, "-n", 2, "--job", name, "--socket", d.socket, "--", BIN / "paced", STEP_MS, "/", first, last)
                     for k, d in enumerate(daemons.values())]

    def named(self, daemon):
        """Those that are late now; once the first one is known for a while."""
        found = (daemon.job(self.name) or {}).get("stragglers")
        return found and found[0]["cost_ms"] > 20000 and found

    def close(self):
        for run in self.runs:
            run.child.terminate()
        for run in self.runs:
            run.wait(0)


def get(daemon, path):
    address = re.search(r"metrics at http://([^/]+)/", daemon.text())[1]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
        return answer.read().decode()


def ranks(daemon, job):
    done = subprocess.run([BIN / "ckpt", "ranks", "--socket", daemon.socket, "--job", job], capture_output=True, text=True, timeout=DEADLINE)
    return done.stdout


def findings(daemon, job):
    return [f["text"] for f in json.loads(get(daemon, "/healthz"))["findings"] if f["code"] == "STRAGGLER" and f["job"] == job]


http = {name: ["--http", "127.0.0.1:0"] for name in NODES}
with loopback_cluster(NODES, **http) as daemons, contextlib.ExitStack() as stack:
    one, whole = Job(daemons, "one", 2, 2), Job(daemons, "whole", 2, 3)
    stack.callback(one.close)
    stack.callback(whole.close)

    @case("a rank that is late is named on both nodes, and nobody else")
    def _():
        for daemon in daemons.values():
            (episode,) = until(lambda d=daemon: one.named(d), "the straggler", pause=0.5)
            equal([episode["rank"], episode["node"], episode["until_ns"]], [2, "b", None])
            expect(0.35 < episode["cost"] < 0.65, episode)  # it computes for 0.9 of a step, the others for a third
            expect(1.8 < episode["ratio"] < 3, episode)
            equal(re.findall(r"job one: (.*) is a straggler", daemon.text()), ["rank 2 on node b"])

    @case("a node that is late is named on both nodes, and none of its ranks")
    def _():
        for daemon in daemons.values():
            (episode,) = until(lambda d=daemon: whole.named(d), "the straggler", pause=0.5)
            equal([episode["rank"], episode["node"], episode["until_ns"]], [None, "b", None])
            expect(0.35 < episode["cost"] < 0.65, episode)
            expect(1.8 < episode["ratio"] < 3, episode)
            equal(re.findall(r"job whole: (.*) is a straggler", daemon.text()), ["node b"])

    @case("health and ckpt ranks tell it on both nodes")
    def _():
        for name, daemon in daemons.items():
            equal([text.split(" is a straggler")[0] for text in findings(daemon, "one")], ["rank 2 on node b"])
            equal([text.split(" is a straggler")[0] for text in findings(daemon, "whole")], ["node b"])
            has(ranks(daemon, "whole"), "node b is a straggler")
            rows = [line for line in ranks(daemon, "one").splitlines() if re.match(r" +\d", line)]
            equal(["yes, costs" in row for row in rows], {"a": [False, False], "b": [True, False]}[name])
        has(ranks(daemons["a"], "one"), "rank 2 on node b is a straggler")
        equal([rank["straggler"]["is"] for rank in daemons["b"].job("whole")["ranks"]], [False, False])

    @case("metrics: all nodes have how many are late, and each has its ranks and itself")
    def _():
        for name, daemon in daemons.items():
            families = prometheus.parse(get(daemon, "/metrics"))
            for job in "one", "whole":
                equal(families["ckpt_job_stragglers"].value(job_name=job), 1)
            late = {job: families["ckpt_node_straggler"].value(job_name=job) for job in ("one", "whole")}
            equal(late, {"one": 0, "whole": int(name == "b")})
            expect((families["ckpt_node_straggler_cost_ratio"].value(job_name="whole") > 0.35) == (name == "b"), name)
        equal(families["ckpt_rank_straggler"].value(job_name="one", rank="2"), 1)
        equal(families["ckpt_rank_straggler"].value(job_name="one", rank="3"), 0)

    @case("it is over with the job, on both nodes")
    def _():
        stack.close()
        for daemon in daemons.values():
            until(lambda d=daemon: not d.job("one") and not d.job("whole"), "the jobs are over")
            has(daemon.text(), "job one: rank 2 on node b is no straggler any more", "job whole: node b is no straggler any more")


sys.exit(cases.end())
