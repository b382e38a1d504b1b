"""ckpt list, show and ls on stores without a daemon."""

import json
import os
import resource
import shutil
import subprocess
import sys

from offline import FAILED, NONE_RESTORABLE, OK, STEP1000, USAGE, case, cases, ckpt, data, make, states, steps, top
from tap import BIN, NIGHTLY, equal, has

repo = top / "repo"
steps(repo)


@case("list orders by epoch and step, and leaves out what was not committed")
def _():
    due = [("gpt", 1000, 1, "committed"), ("gpt", 2000, 1, "verified"), ("gpt", 900, 2, "committed")]
    equal(states(repo), due)
    equal(states(repo, "--all"), due + [("gpt", 950, 2, "partial")])
    equal(states(repo, "--last", "1"), due[-1:])
    equal(states(repo, "--last", "0"), [])
    out, err = ckpt("list", "--repo", repo)
    equal(len(out.splitlines()), 4)
    has(err, "1 directory without a commit")
    equal(ckpt("list", "--repo", repo, "-q")[1], "")
    has(ckpt("list", "--repo", repo, "--all")[0], "partial")
    equal(data("list", "--repo", repo)["partial"], 1)


@case("list, show and ls agree with the files")
def _():
    for entry in data("list", "--repo", repo)["checkpoints"]:
        files = list((repo / "gpt" / entry["name"]).glob("*.safetensors"))
        shown = data("show", "--repo", repo, entry["name"])
        for facts in (entry, shown):
            equal(facts["bytes"], sum(f.stat().st_size for f in files), "bytes")
            equal(facts["files"], len(files), "files")
        equal(shown["ranks"], entry["ranks"])
        equal(sum(g["bytes"] for g in shown["groups"]), entry["bytes"])
        equal(sum(n["files"] for n in shown["nodes"]), entry["files"])
        for tensor in data("ls", "--repo", repo, entry["name"])["tensors"]:
            equal(sum(p["to"] - p["from"] for p in tensor["pieces"]), tensor["bytes"], tensor["name"])
            for piece in tensor["pieces"]:
                assert piece["to"] <= (repo / "gpt" / entry["name"] / piece["file"]).stat().st_size
    pinned = [c for c in data("list", "--repo", repo)["checkpoints"] if c["pinned"]]
    equal([c["step"] for c in pinned], [2000])
    equal(data("show", "--repo", repo, "2000")["pin"]["note"], "paper")


@case("ls shows names, types, shapes and pieces")
def _():
    out, _ = ckpt("ls", "--repo", repo, "1000")
    row = next(line.split() for line in out.splitlines() if line.startswith("rowwise"))
    equal(row, ["rowwise", "tensor", "F32", "[64,", "48]", "12288", "4"])
    out, _ = ckpt("ls", "--repo", repo, "1000", "--pieces")
    equal(sum(line.startswith("rowwise") for line in out.splitlines()), 4)
    has(out, "rank-00003-of-00004.params.safetensors", "flat ")


def named(where, *names):
    """A checkpoint of one-byte tensors with these names."""
    folder = top / "named"
    folder.mkdir()
    header = json.dumps({n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(len(names)))
    ckpt("import", folder, "--format", "hf", "--repo", where)
    shutil.rmtree(folder)


@case("one long name does not make every row of a table wide; where most are long they are in line")
def _():
    long, short = "x" * 400, [f"layer.{i}.weight" for i in range(9)]
    named(top / "one-long", long, *short)
    for option in ((), ("--pieces",)):
        lines = ckpt("ls", "--repo", top / "one-long", *option)[0].splitlines()
        equal(len(lines), 11)
        equal(max(len(line) for line in lines if long not in line) < 120, True, option)
        has("\n".join(lines), f"\n{long}  ")
        ends = {line.index("  ") for line in lines if line.startswith("layer")}
        column = {len(line) - len(line[max(ends):].lstrip()) for line in lines if line.startswith("layer")}
        equal(len(column), 1, "the others are in line")
    named(top / "most-long", *(c * n for c, n in zip("abcd", (70, 80, 90, 100))), "short")
    lines = ckpt("ls", "--repo", top / "most-long")[0].splitlines()
    equal({line.index("tensor") for line in lines[1:]}, {102})


@case("a step is named in four ways")
def _():
    for text, due in (("latest", "step-000000000900.e0002"), ("1000", STEP1000), ("1000.e0001", STEP1000),
                      ("1000.e1", STEP1000), (STEP1000, STEP1000)):
        equal(data("show", "--repo", repo, text)["name"], due, text)
    equal(data("show", "--repo", repo)["name"], "step-000000000900.e0002")
    both = top / "both"
    make(both, "5.1")
    make(both, "5.3")
    equal(data("show", "--repo", both, "5")["epoch"], 3, "the newest epoch of that step")


@case("a step that is not there is code 1, and its neighbours are named")
def _():
    has(ckpt("show", "--repo", repo, "1500", code=FAILED)[1], STEP1000, "step-000000002000.e0001")
    has(ckpt("show", "--repo", repo, "1000.e0009", code=FAILED)[1], "1000.e0009")
    has(ckpt("show", "--repo", repo, "950", code=FAILED)[1], "never committed")


@case("latest of none is code 22")
def _():
    none = top / "none-committed"
    make(none, "7", "--partial")
    for command in ("show", "ls", "verify"):
        ckpt(command, "--repo", none, code=NONE_RESTORABLE)
    ckpt("verify", "--repo", none, "--all", code=NONE_RESTORABLE)
    has(ckpt("show", "--repo", repo, "--job", "other", code=FAILED)[1], "no job other", "gpt")
    out, err = ckpt("list", "--repo", none)
    equal(out, "")
    has(err, "no checkpoints")


@case("several jobs want one to be named")
def _():
    many = top / "many"
    make(many, "1", "--job", "a")
    make(many, "2", "--job", "b")
    equal([s[0] for s in states(many)], ["a", "b"])
    has(ckpt("show", "--repo", many, code=USAGE)[1], "a, b")
    equal(data("show", "--repo", many, "--job", "b")["step"], 2)
    equal(data("show", "--repo", many, env={"CKPT_JOB": "a"})["step"], 1)
    equal(data("show", "--repo", many, "--job", "b", env={"CKPT_JOB": "a"})["step"], 2, "the option wins")
    equal(len(data("verify", "--repo", many, "--all")["checkpoints"]), 2)


@case("list: a manifest that cannot be read says nothing of its checkpoint")
def _():
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        return "setpriv is not installed"
    closed = top / "closed"
    make(closed, 1000)
    make(closed, 2000)
    manifest = next(closed.glob("*/step-000000001000.*/MANIFEST.json"))
    manifest.chmod(0)
    prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, BIN / "ckpt", "list", "--repo", closed, "--json"], capture_output=True, text=True)
    equal(done.returncode, OK, done.stderr)
    first, second = json.loads(done.stdout)["checkpoints"]
    equal((first["state"], first["bytes"], second["state"]), ("unreadable", None, "committed"))
    has(first["detail"], "Permission denied")
    has(done.stderr, "Permission denied")
    manifest.chmod(0o644)
    manifest.write_text("{}")
    equal(data("list", "--repo", closed)["checkpoints"][0]["state"], "damaged")
    return None


@case("list: what is wrong with a mark is said with its job and step")
def _():
    marked = top / "marked"
    make(marked, 1000)
    (marked / "main" / "step-000000001000.e0001" / "VERDICT.json").write_text("garbage!")
    has(ckpt("list", "--repo", marked)[1], "main/step-000000001000.e0001: VERDICT.json: ckpt.verdict: ")
    has(data("list", "--repo", marked)["checkpoints"][0]["detail"], "main/step-000000001000.e0001: VERDICT.json: ")


def processor_time():
    """Seconds of it that ended children had: other processes do not make them many more."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def listing(where, n):
    """The seconds of two lists of n checkpoints."""
    began = processor_time()
    equal(len(states(where)), n)
    equal(len(ckpt("list", "--repo", where)[0].splitlines()), n + 1)
    return processor_time() - began


@case("a list of ten times as many checkpoints takes some ten times as long")
def _():
    few = 1000 if NIGHTLY else 200
    took = []
    for n in (few, 10 * few):
        make(top / f"list-of-{n}", "1", "--count", n, "--world", 1, "--rows", 4, "--cols", 4)
        took.append(min(listing(top / f"list-of-{n}", n) for _ in range(3)))
    print(f"# two lists of {few} and of {10 * few}: {took[0]:.3f} s, {took[1]:.3f} s")
    assert took[1] < 25 * took[0], f"seconds of processor time: {took}"  # a hundred times as long: it is quadratic


sys.exit(cases.end())
