"""Metrics, health, status and the span log of a daemon whose job runs, loses a rank, and goes on."""

import functools
import json
import pathlib
import re
import socket
import sys
import tempfile
import urllib.error
import urllib.request

import single_node
import prometheus
from etcd import etcd
from packages import need
from launcher import TRAIN, Run, run, top
from loopback_cluster import loopback_cluster
from played_machine import PlayedMachine
from tap import DEADLINE, Cases, equal, expect, has, until

need("yaml")
import yaml  # noqa: E402  after need(), which finds the Python that has it

cases = Cases()
case = cases.case


def get(address, path):
    """(status, content type, text)"""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


class Watched:
    """Two ranks under ckpt run; the second is killed at step 60."""

    def __init__(self, *args, store=None, steps=100000):
        self.store = store or tempfile.mkdtemp(dir=top)
        self.spans = f"{self.store}.spans"
        self.run = Run("-n", 2, "--job", "gpt", "--store", self.store, *args, "--", TRAIN, "--steps", steps,
                       "--save-memory-every", 5, "--save-storage-every", 20, CKPT_HTTP="127.0.0.1:0", CKPT_SPAN_LOG=self.spans,
                       CKPT_LOG="info", **PlayedMachine(top).variables)
        self.run.until_err("status page and metrics at")
        self.address = re.search(r"metrics at http://([^/]+)/", self.run.err())[1]

    def metrics(self):
        return prometheus.parse(get(self.address, "/metrics")[2])

    def job(self):
        jobs = json.loads(get(self.address, "/status.json")[2])["jobs"]
        return jobs[0] if jobs else None

    def until(self, what, condition):
        return until(lambda: (lambda job: job and condition(job))(self.job()), what, pause=0.1)

    def end(self):
        self.run.child.terminate()
        self.run.child.wait(DEADLINE)


watched = None


@case("a job that lost a rank: metrics keep to the format and to the conventions")
def _():
    global watched
    watched = Watched("--inject", "kill:rank=1@step=60")
    watched.until("a verified checkpoint after the loss",
                  lambda job: job["epoch"] == 2 and (job["saves"]["verified"]["epoch"] or 0) >= 2)
    status, kind, _ = get(watched.address, "/metrics")
    equal([status, kind], [200, "text/plain; version=0.0.4; charset=utf-8"])
    families = watched.metrics()
    prometheus.lint(families, "ckpt_")


def in_tables(page, column):
    """Names in backquotes of that column of the page's tables."""
    rows = [line.split("|") for line in page.splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row[column])}


def address_of(daemon):
    return re.search(r"metrics at http://([^/]+)/", until(lambda: "metrics at" in daemon.text() and daemon.text(), "http"))[1]


@functools.cache
def served_in_a_cluster():
    with etcd() as members:
        registry = ["--registry", members.url("ckpt")]
        return served_with(registry)


def served_with(registry):
    often = ["--check-interval", "100ms", *registry]
    with loopback_cluster("ab", a=["--http", "127.0.0.1:0", *often], b=often) as daemons:
        until(lambda: "the registry is followed" in daemons["a"].text(), "the registry")
        until(lambda: "ckpt_node_round_trip_seconds{" in get(address_of(daemons["a"]), "/metrics")[2], "clocks are compared")
        families = prometheus.parse(get(address_of(daemons["a"]), "/metrics")[2])
        prometheus.lint(families, "ckpt_")
        equal(families["ckpt_node_up"].value("ckpt_node_up", node="b"), 1)
        equal(families["ckpt_registry_synced"].value("ckpt_registry_synced"), 1)
        return families


@case("metrics and codes are those of the page")
def _():
    page = (pathlib.Path(__file__).parents[3] / "docs" / "reference" / "monitoring.md").read_text()
    served = set(watched.metrics()) | set(served_in_a_cluster())
    equal({name for name in in_tables(page, 1) if name.startswith("ckpt_")}, served, "metrics")
    code = (pathlib.Path(__file__).parents[3] / "ckptd" / "observe" / "health.c").read_text()
    equal({name for name in in_tables(page, 1) if name.isupper()}, set(re.findall(r'=\s*\{"([A-Z_]+)",', code)), "codes")


@case("they tell what the job has done")
def _():
    families = watched.metrics()

    def value(name, part="", **labels):
        return families[name].value(name + part, **labels)

    expect(value("ckpt_saves_captured_total", job_name="gpt") >= value("ckpt_saves_durable_total", job_name="gpt") > 0, "saves")
    expect(value("ckpt_saves_verified_total", job_name="gpt") > 0, "verified")
    expect(value("ckpt_written_bytes_total", job_name="gpt") > 100000, "bytes")
    expect(value("ckpt_save_durable_seconds", "_count", job_name="gpt") == value("ckpt_saves_durable_total", job_name="gpt"), "durable")
    equal(value("ckpt_restore_seconds", "_count", job_name="gpt", source="memory"), 1)
    equal(value("ckpt_recovery_gather_seconds", "_count", job_name="gpt"), 1)
    equal(value("ckpt_job_epoch", job_name="gpt"), 2)
    for rank in ("0", "1"):
        expect(value("ckpt_step_seconds", "_count", job_name="gpt", rank=rank) > 5, "steps of rank", rank)
        equal(value("ckpt_rank_joined", job_name="gpt", rank=rank), 1)
    expect(value("ckpt_last_durable_timestamp_seconds", job_name="gpt") > 1.7e9, "timestamp")
    expect(value("ckpt_store_free_bytes") > 0, "store")


def check_expression(expression, families):
    """Its metrics are served, and its labels are theirs."""
    served = {name: {label for _, labels in family.samples for label, _ in labels} | {"instance"} for family in families.values()
              for name in {sample for sample, _ in family.samples} or {family.name}}
    named = re.findall(r"\b(ckpt_\w+)(?:\{([^}]*)\})?", expression)
    expect(named, f"no metric in {expression}")
    labels = set()
    for name, selector in named:
        expect(name in served, f"{name} is not served: {expression}")
        labels |= served[name] | {"code", "job_name"} if name == "ckpt_health_finding" else served[name]
        expect(set(re.findall(r"(\w+)(?:=~?|!)", selector)) <= labels, f"labels of {name}: {expression}")
    for names in re.findall(r"by \(([^)]*)\)", expression):
        expect(set(names.split(", ")) <= labels, f"labels: {expression}")


@case("alert rules and dashboard name what is served")
def _():
    families = {**served_in_a_cluster(), **watched.metrics()}
    folder = pathlib.Path(__file__).parents[3] / "docs" / "monitoring"
    rules = yaml.safe_load((folder / "alerts.yml").read_text())["groups"][0]["rules"]
    for rule in rules:
        expect(rule["labels"]["severity"] in ("page", "ticket") and rule["annotations"]["summary"] and rule["annotations"]["remedy"], rule)
        if not rule["expr"].startswith("up{"):
            check_expression(rule["expr"], families)
    equal(len({rule["alert"] for rule in rules}), len(rules), "names of rules")
    dashboard = json.loads((folder / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            check_expression(target["expr"], families)
    for variable in dashboard["templating"]["list"][1:]:
        check_expression(variable["query"].replace("label_values(", ""), families)


@case("a counter never goes down")
def _():
    before = watched.metrics()
    step = watched.job()["ranks"][0]["step"]
    watched.until("more steps", lambda job: job["ranks"][0]["step"] > step + 20)
    after = watched.metrics()
    for name, family in before.items():
        if family.type == "gauge":
            continue
        for key, value in family.samples.items():
            expect(after[name].samples[key] >= value, f"{key}: {value} and then {after[name].samples[key]}")


@case("the status has levels, recoveries and step times")
def _():
    job = watched.job()
    recovery = job["recoveries"]["recent"][-1]
    equal([recovery["source"], recovery["epoch"], recovery["ok"]], ["memory", 2, True])
    has(recovery["reason"], "rank 1 is lost")
    parts = ("detect_ms", "decide_ms", "gather_ms", "choose_ms", "fetch_ms", "load_ms", "first_step_ms")
    for name in (*parts, "restore_ms", "total_ms"):
        expect(0 < recovery[name] < 60000, name, recovery[name])
    expect(abs(sum(recovery[name] for name in parts) - recovery["total_ms"]) < 1e-3, recovery)
    equal([r["source"] for r in recovery["ranks"]], ["memory", "memory"])
    saves = job["saves"]["recent"]
    expect(any(save["level"] == "verified" and save["target"] == "storage" for save in saves), "verified among", saves)
    expect(all(save["durable_ms"] >= save["captured_ms"] for save in saves if save["durable_ms"]), "times")
    steps = job["ranks"][1]["steps"]
    equal(sum(bucket["count"] for bucket in steps["buckets"]), steps["count"])
    expect(steps["recent_ms"] and steps["p50_ms"] <= steps["p99_ms"], steps)


@case("health is ok, or tells by code what to do")
def _():
    status, kind, text = get(watched.address, "/healthz")
    document = json.loads(text)
    equal([status, kind, document["status"]], [200, "application/json", "ok"])
    for finding in document["findings"]:
        expect(finding["severity"] == "notice" and len(finding["remedy"]) > 20, finding)


@case("the span log has a line for each save and the recovery")
def _():
    watched.end()
    with open(watched.spans, encoding="utf-8") as file:
        spans = [json.loads(line) for line in file]
    saves = [span for span in spans if span["span"] == "save"]
    expect(len({(s["epoch"], s["step"]) for s in saves}) == len(saves), "a save twice")
    verified = [s for s in saves if s["level"] == "verified"]
    expect(verified, "none verified")
    for s in verified:
        expect(0 < s["captured_ns"] <= s["durable_ns"] <= s["verified_ns"] and s["written_bytes"] > 0, s)
    recovery = [span for span in spans if span["span"] == "recovery"]
    equal([(r["source"], r["epoch"], r["state"]) for r in recovery], [("memory", 2, "done")])


@case("a hung rank makes health fail with its code, and going on mends it")
def _():
    daemon = single_node.Daemon(options=["--http", "127.0.0.1:0", "--hang-timeout", 1000])
    try:
        daemon.start()
        address = address_of(daemon)
        ranks = Run("-n", 2, "--socket", daemon.socket, "--inject", "stop:rank=1:for=8s@step=30", "--", TRAIN, "--steps", 100000)

        def failing():
            status, _, text = get(address, "/healthz")
            return status == 503 and [f["code"] for f in json.loads(text)["findings"] if f["severity"] == "failing"]

        equal(set(until(failing, "503", pause=0.1)), {"RANK_HUNG"})
        until(lambda: get(address, "/healthz")[0] == 200, "health is mended", pause=0.1)
        ranks.child.terminate()
        ranks.child.wait(DEADLINE)
    finally:
        daemon.close()


@case("an address that is taken keeps no job from running")
def _():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        r = run("-n", 1, "--", TRAIN, "--steps", 5, CKPT_HTTP="127.0.0.1:%d" % taken.getsockname()[1])
    has(r.err(), "no metrics and no status page", "Address already in use")


if watched and watched.run.child.poll() is None:
    watched.end()
sys.exit(cases.end())
