"""Every command that reads checkpoints reads every kind of store: packed files, files that several checkpoints share, several jobs,
replicas in files of their own and of several nodes. What it says and writes is what it says and writes of the plain one."""

import filecmp
import os
import shutil
import sys

from offline import CORRUPT, DIFFERENT, REPAIRABLE, case, cases, ckpt, data, equal, flip, has, make, run, top
from tap import expect

SIZE = ("--rows", 700, "--cols", 300, "--weights")  # several leaves and chunks, which pack
SAME, OTHER, AGAIN = 1, 3, 4  # steps: 1, 2 and 4 hold the same
TENSORS = ("embed", "rowwise", "colwise", "moment", "bias", "scale", "empty", "loader", "rng@00001")
# Commands that are offered --repo and say nothing of what a checkpoint holds.
NO_READERS = {"bench", "rollback"}


def share(repo, job, old, new):
    """What incremental checkpoints do: a file that did not change is a link to that of an earlier checkpoint."""
    linked = 0
    for path in sorted((repo / job / f"step-{new:012}.e0001").iterdir()):
        donor = repo / job / f"step-{old:012}.e0001" / path.name
        if path.suffix in (".safetensors", ".ckptz") and donor.exists() and filecmp.cmp(donor, path, shallow=False):
            path.unlink()
            os.link(donor, path)
            linked += 1
    expect(linked > 2, "nothing is shared")


def kind(name, *options, jobs=("main",), world=(), links=False):
    repo = top / name
    for job in jobs:
        for step in (SAME, 2, OTHER, AGAIN):
            seed = 9 if step == OTHER else 5
            make(repo, step, "--job", job, "--seed", seed, *SIZE, *options, *(world or ("--world", 2)))
        if links:
            share(repo, job, SAME, 2)
    return repo, jobs[-1], world


KINDS = {
    "packed": lambda: kind("packed", "--packed"),
    "linked": lambda: kind("linked", links=True),
    "packed and linked": lambda: kind("both", "--packed", links=True),
    "several jobs": lambda: kind("jobs", jobs=("aaa", "gpt", "main")),
    "replicas of two nodes, files in parts": lambda: kind("parts", "--file-max", 100000, world=("--world", 4, "--nodes", 2)),
    "all of it": lambda: kind("all", "--packed", "--file-max", 100000, jobs=("aaa", "main"), world=("--world", 4, "--nodes", 2), links=True),
}
done = set()


class Store:
    """Commands on one of the stores, all of the same job."""

    def __init__(self, made):
        self.repo, self.job, self.world = made
        self.at = ("--repo", self.repo, "--job", self.job)

    def data(self, command, *args, **more):
        done.add(command)
        return data(command, *args, *self.at, **more)

    def run(self, command, *args, **more):
        done.add(command)
        return run(command, *args, *self.at, **more)[0]


def plain(world):
    """The same contents in files that are neither packed nor shared nor cut."""
    repo = top / f"plain{len(world)}"
    return Store(kind(repo.name, world=world) if not repo.exists() else (repo, "main", world))


def tree(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def written(store, command, *args):
    """What a command writes into --to, by name."""
    to = top / "out"
    shutil.rmtree(to, ignore_errors=True)
    answer = store.data(command, *args, "--to", to)
    return {k: answer[k] for k in ("step", "tensors", "files", "bytes", "passed_over")}, tree(to)


def check_lists(s, p):
    mine, due = (x.data("list")["checkpoints"] for x in (s, p))
    for key in ("step", "ranks", "nodes", "state"):
        equal([c[key] for c in mine], [c[key] for c in due], key)
    for key in ("state", "ranks"):
        equal(s.data("show", SAME)[key], p.data("show", SAME)[key], key)
    for option in ((), ("--pieces",)):
        s.run("ls", SAME, *option)
    mine, due = ([(t["name"], t["kind"], t["dtype"], t["shape"], t["bytes"], sum(x["to"] - x["from"] for x in t["pieces"]))
                  for t in x.data("ls", SAME)["tensors"]] for x in (s, p))
    equal(mine, due)
    mine, due = (x.data("stats", SAME) for x in (s, p))
    for key in ("bytes", "tensors", "blobs"):
        equal(mine[key], due[key], key)
    equal(s.data("stats")["committed"], 4)
    equal(set(s.data("completion", "steps")["text"].split()), set(p.data("completion", "steps")["text"].split()))


def check_verify(s):
    for options in ((), ("--quick",), ("--read-data-subset", "30%", "--seed", 1)):
        results = s.data("verify", "--all", *options)["checkpoints"]
        equal([c["result"] for c in results], ["ok"] * 4, options)


def check_written(s, p):
    for args in (("restore", SAME), ("restore", "latest", "--world", 3), ("export", SAME, "--format", "hf", "--group", "params"),
                 ("export", SAME, "--format", "dcp-hf", "--world", 2), ("export", SAME, "--format", "safetensors", "--tensor", "*wise")):
        mine, due = written(s, *args), written(p, *args)
        equal(mine[0], due[0], args)
        equal(mine[1], due[1], args)
    for name in TENSORS:
        equal(s.run("dump", SAME, name, "--output", "-"), p.run("dump", SAME, name, "--output", "-"), name)
    equal(s.run("dump", SAME, "colwise", "--slice", "3:400,-7:", "--output", "-"), p.run("dump", SAME, "colwise", "--slice", "3:400,-7:", "--output", "-"))


def check_diff(s, p):
    same = s.data("diff", SAME, AGAIN)
    equal((same["different"], same["bytes_read"]), (False, 0))
    mine, due = (x.data("diff", SAME, OTHER, code=DIFFERENT) for x in (s, p))
    for key in ("changed", "unchanged", "added", "removed", "bytes", "bytes_read", "tensors"):
        equal(mine[key], due[key], key)


def check_cuts(s):
    """Against checkpoints of other files and of another number of ranks in the same job."""
    make(s.repo, 7, "--job", s.job, "--seed", 5, *SIZE, *(s.world or ("--world", 2)))
    equal(s.data("diff", SAME, 7)["different"], False)
    make(s.repo, 8, "--job", s.job, "--seed", 9, *SIZE, *(s.world or ("--world", 2)))
    mine, due = (s.data("diff", SAME, b, code=DIFFERENT) for b in (OTHER, 8))
    equal(mine["tensors"], due["tensors"])
    make(s.repo, 9, "--job", s.job, "--seed", 9, *SIZE, "--world", 3)
    cut = {t["name"]: t for t in s.data("diff", SAME, 9, code=DIFFERENT)["tensors"]}
    for t in due["tensors"]:
        if not t["name"].startswith("rng@"):
            equal(cut[t["name"]], t, t["name"])


def check_import(s):
    """What was written out goes in again, and is the same."""
    to = top / "again"
    shutil.rmtree(to, ignore_errors=True)
    s.data("export", SAME, "--format", "safetensors", "--to", to)
    s.data("import", to, "--format", "safetensors", "--step", 50, "--epoch", 1)
    equal([t["name"] for t in s.data("diff", SAME, 50, code=DIFFERENT)["tensors"]], ["loader"])  # a blob that comes back as a tensor


def check_marks(s):
    s.data("pin", SAME, "--note", "kept")
    s.data("tag", 2, "best")
    listed = {c["step"]: c for c in s.data("list")["checkpoints"]}
    equal((listed[SAME]["pinned"], listed[2]["tags"]), (True, ["best"]))
    equal(s.data("show", "best")["step"], 2)
    equal(s.data("forget", "--keep-last", 1, "--dry-run")["job"], s.job)
    s.data("unpin", SAME)
    s.data("tag", "--delete", "best")
    s.data("gc", "--older-than", "1s")


def check_damage(s):
    """A flipped bit is damage for all that read it, and an intact copy mends it."""
    folder = s.repo / s.job / f"step-{SAME:012}.e0001"
    path = max((p for p in folder.iterdir() if p.suffix in (".safetensors", ".ckptz")), key=lambda p: p.stat().st_size)
    flip(path, path.stat().st_size - 5000)
    has(ckpt("diff", SAME, OTHER, *s.at, code=CORRUPT)[1], path.name, "of step 1, tensor", "damaged")
    ckpt("restore", SAME, "--to", top / "never", *s.at, code=CORRUPT)
    equal(s.data("verify", SAME, code=REPAIRABLE)["checkpoints"][0]["result"], "damaged")
    equal(s.data("verify", SAME, "--repair")["checkpoints"][0]["repair"]["state"], "repaired")
    equal([c["result"] for c in s.data("verify", "--all")["checkpoints"]], ["ok"] * len(s.data("list")["checkpoints"]))


def check_forget(s, p):
    """Of files that two checkpoints share the other one keeps its own."""
    due = written(p, "restore", 2)[1]
    s.data("forget", SAME, "--force")  # repaired, so the newest that was read back
    equal(written(s, "restore", 2)[1], due)


def check(make_kind):
    s = Store(make_kind())
    p = plain(s.world)
    check_lists(s, p)
    check_verify(s)
    check_written(s, p)
    check_diff(s, p)
    check_marks(s)
    check_cuts(s)
    check_damage(s)
    check_import(s)
    check_forget(s, p)


for what, make_kind in KINDS.items():
    cases.run(what, check, make_kind)


@case("no command that reads a store was left out")
def _():
    known = {c["name"] for c in data("help")["commands"] if c["repository"]}
    equal(done, known - NO_READERS)


sys.exit(cases.end())
