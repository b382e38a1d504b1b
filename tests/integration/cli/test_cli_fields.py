"""Each field of the JSON documents of ckpt stands in the command's section of the pages, in code. test_command_line holds commands,
options and exit codes against the page."""

import json
import re
import subprocess
import sys

import pages
import single_node
from offline import CORRUPT, DIFFERENT, OK, PARTIAL, case, cases, ckpt, data, flip, make, top
from launcher import CKPT, ENVIRONMENT, PACED, Run
from loopback_cluster import Cluster
from tap import DEADLINE, equal, expect, until

PAGE = pages.command_line()


def names_in_code(text):
    """The words of `code` and of indented blocks."""
    code = re.findall(r"`([^`]+)`", text) + [line for line in text.splitlines() if line.startswith("    ")]
    return {word for part in code for word in re.findall(r"[A-Za-z_][A-Za-z0-9_-]*", part)}


def section(command):
    text = PAGE.split(f"\n## ckpt {command}\n")[1].split("\n## ")[0]
    other = re.search(r"^JSON: as of `(\w+)`", text, re.M)
    return text + (section(other.group(1)) if other else "")


def fields(value):
    if isinstance(value, dict):
        return set(value) | {f for v in value.values() for f in fields(v)}
    return {f for v in value for f in fields(v)} if isinstance(value, list) else set()


def documented(document):
    shown = {k: v for k, v in document.items() if k not in ("schema", "command")}
    lacking = sorted(fields(shown) - names_in_code(section(document["command"])))
    expect(not lacking, f"fields of ckpt {document['command']} that its section does not name: {lacking}")


repo = top / "repo"
make(repo, "1000", "--world", 4, "--healthy", "--pin", "paper")
make(repo, "1500", "--world", 4, "--seed", 7)
make(repo, "2000", "--world", 4, "--seed", 8)
broken = next((repo / "main" / "step-000000002000.e0001").glob("*.safetensors"))
flip(broken, broken.stat().st_size - 8)
ckpt("tag", "1500", "best", "--repo", repo)
TENSOR = data("ls", "--repo", repo)["tensors"][0]["name"]

ROWS = [
    (("list",), OK), (("show", "1000"), OK), (("ls",), OK), (("stats",), OK), (("stats", "1500"), OK),
    (("verify", "--all", "--mark"), CORRUPT), (("show", "2000"), OK), (("restore", "latest", "--to", top / "out"), PARTIAL),
    (("export", "1000", "--to", top / "hf", "--format", "safetensors"), OK), (("diff", "1000", "1500"), DIFFERENT),
    (("dump", "1000", TENSOR, "--output", top / "x"), OK), (("import", top / "hf", "--format", "safetensors", "--job", "other"), OK),
    (("pin", "1500", "--job", "main"), OK), (("unpin", "1500", "--job", "main"), OK), (("tag", "--job", "main"), OK),
    (("tag", "1000", "b", "--job", "main"), OK), (("tag", "--delete", "b", "--job", "main"), OK),
    (("forget", "--keep-last", 1, "--dry-run", "--job", "main"), OK), (("gc", "--dry-run"), OK), (("bench", "--size", "1M", "--state", "1M"), OK),
]
for row, code in ROWS:
    @case(f"ckpt {' '.join(str(a) for a in row[:2] if '/' not in str(a))}: its section names every field")
    def _(row=row, code=code):
        documented(data(*row, "--repo", repo, code=code))


@case("help, version, completion and config, too, and doctor, whatever it finds")
def _():
    documented(data("help"))
    documented(data("version"))
    documented(data("completion", "bash"))
    documented(data("config", "--socket", top / "none"))
    found = subprocess.run([CKPT, "doctor", "--store", repo, "--json"], capture_output=True, env=ENVIRONMENT, timeout=DEADLINE)
    documented(json.loads(found.stdout))


@case("of a job with a restore: status, ranks, recoveries, flush, rollback and halt, and the report of its run")
def _():
    with single_node.daemon() as d:
        d.start()
        job = Run("-n", 2, "--job", "gpt", "--socket", d.socket, "--report", top / "report", "--inject", "kill:rank=1@step=20", "--",
                  *PACED, "--steps", 100000, "--save-memory-every", 5, "--save-storage-every", 100)
        until(lambda: data("recoveries", "--socket", d.socket)["recoveries"], "a restore")
        documented(data("recoveries", "--socket", d.socket))
        documented(until(lambda: (lambda known: any(rank["collective"] for rank in known["jobs"][0]["ranks"]) and known)(
            data("ranks", "--socket", d.socket)), "a collective"))
        documented(data("flush", "--socket", d.socket))
        documented(data("rollback", "latest", "--repo", d.store, "--socket", d.socket))
        documented(data("halt", "--after-next", "--socket", d.socket))
        document = data("status", "--socket", d.socket)
        for of_job in document["jobs"]:
            of_job.pop("policy")  # names of settings
            of_job["recoveries"].pop("recent")  # those of ckpt recoveries
        documented(document)
        job.wait(0)
    documented(json.loads((top / "report").read_text()))


@case("of a cluster: each node has the fields that its section lists, whatever is known of it")
def _():
    listed = re.search(r"^JSON: `nodes`, a list of `\{(.*?)\}`", section("nodes"), re.M).group(1)
    d = Cluster(list("ab")).daemon("a")
    try:
        d.start()
        document = data("nodes", "--socket", d.socket)
    finally:
        d.close()
    documented(document)
    equal([(node["name"], node["state"]) for node in document["nodes"]], [("a", "up"), ("b", "away")])
    for node in document["nodes"]:
        equal(list(node), re.findall(r"\w+", listed))


sys.exit(cases.end())
