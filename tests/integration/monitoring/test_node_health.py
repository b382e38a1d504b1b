"""What a node tells of itself: a daemon on a machine that the test plays. What is wrong is found before anybody can connect, told with what to do about it, and
no longer when it is over."""

import json
import re
import sys
import urllib.request

import prometheus
from played_machine import PlayedMachine
from single_node import Daemon
from tap import DEADLINE, Cases, equal, expect, has, until

cases = Cases()
case = cases.case
machine = PlayedMachine()
daemon = Daemon(options=("--http", "127.0.0.1:0", "--check-interval", "100ms"))


def get(path):
    address = re.search(r"metrics at http://([^/]+)/", until(lambda: "metrics at" in daemon.text() and daemon.text(), "http"))[1]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
        return answer.read().decode()


def findings():
    return {found["code"]: found for found in json.loads(get("/healthz"))["findings"] if found["code"].startswith("NODE_")}


def metric(name, **labels):
    return prometheus.parse(get("/metrics"))[name].value(**labels)


@case("a node that is well has no finding, and its readings are metrics")
def _():
    daemon.start(**machine.variables)
    equal(findings(), {})
    equal(metric("ckpt_node_fit"), 1)
    equal(metric("ckpt_node_memory_errors_total", kind="uncorrected"), 0)
    equal(metric("ckpt_node_gpu_up", gpu="00000000:1B:00.0"), 1)
    expect(metric("ckpt_node_disk_seconds") > 0, "disk")
    equal([path.name for path in daemon.store.iterdir() if path.name.startswith(".check")], [])


@case("an uncorrected error of the memory is told while the daemon runs, with what to do")
def _():
    machine.memory(corrected=12, uncorrected=1)
    found = until(lambda: findings().get("NODE_MEMORY_UNCORRECTED"), "the finding")
    equal(found["severity"], "degraded")
    has(found["text"], "memory: 1 uncorrected error")
    has(found["remedy"], "ckpt drain")
    equal(metric("ckpt_node_fit"), 0)
    equal(metric("ckpt_node_memory_errors_total", kind="corrected"), 12)
    has(daemon.text(), "warn ckptd: this node: memory: 1 uncorrected error")


@case("a flood of corrected ones is a notice")
def _():
    machine.memory(corrected=5000)
    until(lambda: "NODE_MEMORY_CORRECTED" in findings() and "NODE_MEMORY_UNCORRECTED" not in findings(), "the notice")
    equal(metric("ckpt_node_fit"), 1)
    equal(json.loads(get("/healthz"))["status"], "ok")


@case("ckpt status --json has it, too")
def _():
    (found,) = [found for found in daemon.status()["health"]["findings"] if found["code"].startswith("NODE_")]
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


daemon.close()
sys.exit(cases.end())
