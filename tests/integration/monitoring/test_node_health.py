"""What a node tells of itself: a daemon on a machine that the test plays. What is wrong is found before anybody can connect, told with what to do about it, and
no longer when it is over. And what nodes of a cluster tell of each other's clocks."""

import contextlib
import json
import re
import subprocess
import sys
import urllib.request

import prometheus
from launcher import CKPT, ENVIRONMENT, PACED, Run
from loopback_cluster import loopback_cluster
from played_machine import PlayedMachine
from single_node import Daemon
from tap import DEADLINE, Cases, equal, expect, has, until

cases = Cases()
case = cases.case
machine = PlayedMachine()
daemon = Daemon(options=("--http", "127.0.0.1:0", "--check-interval", "100ms"))


def get(path, daemon=daemon):
    address = re.search(r"metrics at http://([^/]+)/", until(lambda: "metrics at" in daemon.text() and daemon.text(), "http"))[1]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
        return answer.read().decode()


def findings(daemon=daemon):
    return {found["code"]: found for found in json.loads(get("/healthz", daemon))["findings"] if found["code"].startswith("NODE_")}


def metric(name, daemon=daemon, **labels):
    return prometheus.parse(get("/metrics", daemon))[name].value(**labels)


@case("a node that is well has no finding, and its readings are metrics")
def _():
    daemon.start(**machine.variables)
    equal(findings(), {})
    equal(metric("ckpt_node_fit"), 1)
    equal(metric("ckpt_node_memory_errors_total", kind="uncorrected"), 0)
    equal(metric("ckpt_node_gpu_up", gpu="00000000:1B:00.0"), 1)
    expect(metric("ckpt_node_disk_seconds") > 0, "disk")
    until(lambda: not list(daemon.store.glob(".check*")), "what it looks at the store with is deleted")


@case("an uncorrected error of the memory is told while the daemon runs, with what to do")
def _():
    machine.memory(corrected=12, uncorrected=1)
    found = until(lambda: findings().get("NODE_MEMORY_UNCORRECTED"), "the finding")
    equal(found["severity"], "degraded")
    has(found["text"], "memory: 1 uncorrected error")
    has(found["remedy"], "ckpt drain")
    until(lambda: metric("ckpt_node_fit") == 0, "a page of metrics that was made since")
    equal(metric("ckpt_node_memory_errors_total", kind="corrected"), 12)
    has(daemon.text(), "warn ckptd: this node: memory: 1 uncorrected error")


@case("a flood of corrected ones is a notice")
def _():
    machine.memory(corrected=5000)
    until(lambda: "NODE_MEMORY_CORRECTED" in findings() and "NODE_MEMORY_UNCORRECTED" not in findings(), "the notice")
    until(lambda: metric("ckpt_node_fit") == 1, "it is fit, once the disk of this machine answers in time, too")
    until(lambda: json.loads(get("/healthz"))["status"] == "ok", "the same")


@case("ckpt status --json has it, too")
def _():
    (found,) = [found for found in daemon.status()["health"]["findings"] if found["code"].startswith("NODE_MEMORY")]
    has(found["text"], "errors were corrected within an hour")


@case("what was there before the start is known when the daemon listens")
def _():
    daemon.stop()
    daemon.log.unlink()
    daemon.start(**{**machine.variables, "NVML_FAKE": "ecc=2,xid=79"})
    equal({code for code in findings()}, {"NODE_GPU_ECC", "NODE_GPU_XID"})
    equal(metric("ckpt_node_gpu_ecc_errors_total", gpu="00000000:1B:00.0"), 2)
    equal(metric("ckpt_node_gpu_xids_total", gpu="00000000:1B:00.0"), 1)


@case("a driver that hangs keeps the daemon from nothing")
def _():
    daemon.stop()
    daemon.log.unlink()
    daemon.start(**{**machine.variables, "NVML_FAKE": "hang"})
    expect(metric("ckpt_node_disk_seconds") > 0, "the store is looked at")
    equal(daemon.stop(), 0)


OPTIONS = ("--http", "127.0.0.1:0", "--check-interval", "100ms", "--faults")
DAY = 86400
ROUND_TRIP_MAX = 10  # seconds: of a busy machine; by half of it clocks may seem to differ


def end(child):
    child.terminate()
    child.wait(DEADLINE)


@contextlib.contextmanager
def jumped(node, by="24h"):
    """A node whose clock is so far ahead until its daemon ends, with a job that trains there."""
    with contextlib.ExitStack() as children:
        run = Run("-n", 1, "--socket", node.socket, "--", *PACED, "--steps", 1000000, "--save-memory-every", 2)
        children.callback(end, run.child)
        until(lambda: step(node), "the job trains")
        fault = ["fault", "clock-jump", "--for", "600s", "--by", by, "--job", "default", "--socket", node.socket]
        children.callback(end, subprocess.Popen([CKPT, *fault], env=ENVIRONMENT))
        yield
        before = step(node)
        until(lambda: step(node) > before, "the job trains and saves on")


def step(node):
    return next((job["saves"]["replicated"]["step"] or 0 for job in node.status()["jobs"]), 0)


def unharmed(node):
    equal(metric("ckpt_node_fit", node), 1)
    equal([found for found in findings(node).values() if found["severity"] != "notice"], [])
    expect(not re.search("is lost|set aside", node.text()), node.text())


def ahead(node):
    return metric("ckpt_node_clock_ahead_seconds", node)


@case("a clock that is off is told by its own node, and changes nothing else")
def _():
    with loopback_cluster("abc", a=OPTIONS, b=OPTIONS, c=OPTIONS) as nodes:
        a, b, c = nodes.values()
        for node in (a, b, c):
            until(lambda n=node: "ckpt_node_clock_ahead_seconds" in get("/metrics", n), "clocks are compared")
            expect(abs(ahead(node)) < ROUND_TRIP_MAX / 2, ahead(node))
        until(lambda: get("/metrics", a).count("\nckpt_node_round_trip_seconds{") == 2, "both have answered")
        expect(0 < metric("ckpt_node_round_trip_seconds", a, peer="c") < ROUND_TRIP_MAX, "a round trip")
        with jumped(b):
            found = until(lambda: findings(b).get("NODE_CLOCK"), "the notice")
            has(found["text"], "the clock of this node is ", " s ahead of that of 2 other nodes (median)")
            has(found["remedy"], "time service")
            equal(found["severity"], "notice")
            expect(abs(ahead(b) - DAY) < ROUND_TRIP_MAX / 2, ahead(b))
            for node in (a, c):
                before = metric("ckpt_node_round_trip_seconds", node, peer="b")
                until(lambda n=node, v=before: metric("ckpt_node_round_trip_seconds", n, peer="b") != v, "b was asked again")
                expect("NODE_CLOCK" not in findings(node), "one of two that lies")
                expect(abs(ahead(node)) < ROUND_TRIP_MAX / 2, ahead(node))
            for node in (a, b, c):
                unharmed(node)


@case("of two nodes both tell it; none is unfit, and no session ends")
def _():
    with loopback_cluster("ab", a=OPTIONS, b=OPTIONS) as nodes:
        a, b = nodes.values()
        with jumped(a, "-1h"):
            for node, word in ((a, "behind"), (b, "ahead of")):
                until(lambda n=node: findings(n).get("NODE_CLOCK"), "the notice")
                has(findings(node)["NODE_CLOCK"]["text"], word)
                unharmed(node)


daemon.close()
sys.exit(cases.end())
