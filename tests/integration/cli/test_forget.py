"""ckpt forget and gc: what goes and what stays and why, protection, hard links counted once, locks, interrupted deletions, litter."""

import fcntl
import os
import shutil
import sys
import time

from offline import FAILED, LOCKED, NO_REPO, PARTIAL, USAGE, cases, case, ckpt, data, equal, has, make, top

number = 0


def store(*steps, healthy=()):
    """A repository with these checkpoints of job "gpt"."""
    global number
    number += 1
    repo = top / f"repo{number}"
    for step in steps:
        make(repo, step, "--job", "gpt", *(["--healthy"] if step in healthy else []))
    return repo


def left(repo):
    return [c["step"] for c in data("list", "--repo", repo)["checkpoints"]]


def states(document):
    return {c["step"]: c["state"] for c in document["checkpoints"]}


def whys(document):
    return {c["step"]: c["why"] for c in document["checkpoints"]}


def hidden(repo):
    return sorted(p.name for p in (repo / "gpt").glob(".*"))


def old(path, seconds=7200):
    past = time.time() - seconds
    os.utime(path, (past, past))


@case("rules keep, everything else goes, and a dry run says the same and removes nothing")
def _():
    repo = store(100, 200, 300, 400, 500, 600)
    before = sorted(str(p) for p in repo.rglob("*"))
    dry = data("forget", "--keep-last", 2, "--keep-every", 300, "--dry-run", "--repo", repo)
    equal(sorted(str(p) for p in repo.rglob("*")), before, "a dry run writes nothing")
    equal(states(dry), {100: "goes", 200: "goes", 300: "stays", 400: "goes", 500: "stays", 600: "stays"})
    equal(whys(dry), {100: [], 200: [], 300: ["every"], 400: [], 500: ["last"], 600: ["newest", "last", "every"]})
    equal((dry["goes"], dry["removed"], dry["dry_run"]), (3, 0, True))
    text = ckpt("forget", "--keep-last", 2, "--keep-every", 300, "--dry-run", "--repo", repo)[0]
    has(text, "step-000000000100.e0001", "goes", "kept by no rule", "stays", "newest, last, every", "3 of 6 checkpoints would go")
    done = data("forget", "--keep-last", 2, "--keep-every", 300, "--repo", repo)
    equal(states(done), {100: "removed", 200: "removed", 300: "stays", 400: "removed", 500: "stays", 600: "stays"})
    equal((done["removed"], done["freed"]), (3, dry["freed"]), "the sum of the dry run was true")
    equal(left(repo), [300, 500, 600])
    equal(hidden(repo), [], "nothing of the removed ones is left")
    equal(ckpt("verify", "--all", "--repo", repo)[1].count("damaged"), 0)
    has(ckpt("forget", "--keep-last", 2, "--keep-every", 300, "--repo", repo)[0], "0 of 3 checkpoints removed")


@case("pinned, tagged, the newest, and the newest that was verified stay whatever the rules say")
def _():
    repo = store(1, 2, 3, 4, 5, healthy=(2, 3))
    ckpt("pin", "1", "--repo", repo)
    ckpt("tag", "4", "best", "--repo", repo)
    document = data("forget", "--keep-every", 1000, "--repo", repo)
    equal(whys(document), {1: ["pinned"], 2: [], 3: ["newest verified"], 4: ["tagged"], 5: ["newest"]})
    equal(left(repo), [1, 3, 4, 5])


@case("time rules")
def _():
    repo = store(1, 2, 3)
    for step, hours in ((1, 50), (2, 5)):
        old(repo / "gpt" / f"step-{step:012d}.e0001" / "MANIFEST.json", hours * 3600)
    equal(states(data("forget", "--keep-within", "10h", "--dry-run", "--repo", repo)), {1: "goes", 2: "stays", 3: "stays"})
    equal(states(data("forget", "--keep-within", "3d", "--dry-run", "--repo", repo)), {1: "stays", 2: "stays", 3: "stays"})
    equal(whys(data("forget", "--keep-hourly", 2, "--dry-run", "--repo", repo)), {1: [], 2: ["hourly"], 3: ["newest", "hourly"]})
    equal(states(data("forget", "--keep-daily", 30, "--dry-run", "--repo", repo))[1], "stays")
    equal(left(repo), [1, 2, 3])


@case("named ones go; protected ones only by force, and nothing goes when one of them is refused")
def _():
    repo = store(1, 2, 3, 4, healthy=(3,))
    ckpt("pin", "1", "--repo", repo)
    ckpt("tag", "2", "best", "--repo", repo)
    for step, word in (("1", "pinned"), ("best", "tagged"), ("3", "newest verified")):
        has(ckpt("forget", "4", step, "--repo", repo, code=FAILED)[1], word, "--force")
    equal(left(repo), [1, 2, 3, 4])
    document = data("forget", "4.e0001", "--repo", repo)
    equal((states(document)[4], document["removed"], left(repo)), ("removed", 1, [1, 2, 3]), "an older one is known to be good")
    has(ckpt("forget", "1", "1", "--force", "--repo", repo)[0], "step-000000000001.e0001", "named", "1 of 3 checkpoints removed")
    equal(left(repo), [2, 3])
    has(ckpt("forget", "77", "--repo", repo, code=FAILED)[1], "no checkpoint 77")


@case("the newest is protected while none was ever read back")
def _():
    repo = store(1, 2)
    has(ckpt("forget", "latest", "--repo", repo, code=FAILED)[1], "newest", "--force")
    ckpt("forget", "1", "--repo", repo)
    ckpt("forget", "2", "--force", "--repo", repo)
    equal(left(repo), [])


@case("a damaged tag protects everything; a damaged checkpoint takes no place")
def _():
    repo = store(1, 2, 3)
    (repo / "gpt" / "tag-lost.json").write_text("?")
    out, err = ckpt("forget", "--keep-last", 1, "--repo", repo)
    has(err, "cannot be read")
    equal(left(repo), [1, 2, 3])
    (repo / "gpt" / "tag-lost.json").unlink()
    make(repo, 4, "--job", "gpt", "--damaged", "params")
    equal(whys(data("forget", "--keep-last", 2, "--repo", repo)), {1: [], 2: ["last"], 3: ["last"], 4: ["newest"]})


@case("a file that another checkpoint has, too, is counted once and stays whole")
def _():
    repo = store(1, 2, 3)
    dirs = [repo / "gpt" / f"step-{s:012d}.e0001" for s in (1, 2, 3)]
    shared = sorted(p.name for p in dirs[0].glob("*.safetensors"))[0]
    size = (dirs[0] / shared).stat().st_blocks * 512
    for other in dirs[1:]:
        (other / shared).unlink()
        os.link(dirs[0] / shared, other / shared)
    content = (dirs[2] / shared).read_bytes()
    whole = sum(p.stat().st_blocks * 512 for p in dirs[0].iterdir())
    document = data("forget", "--keep-last", 1, "--repo", repo)
    equal(document["freed"], 2 * (whole - size), "two checkpoints without what the third has, too")
    equal((dirs[2] / shared).read_bytes(), content)
    document = data("forget", "3", "--force", "--repo", repo)
    equal(document["freed"], whole, "the last name takes the bytes along")


@case("what it does not understand is refused before anything is done")
def _():
    repo = store(1)
    ckpt("forget", "--repo", repo, code=USAGE)
    ckpt("forget", "1", "--keep-last", 1, "--repo", repo, code=USAGE)
    ckpt("forget", "--keep-last", "x", "--repo", repo, code=USAGE)
    for text in "yesterday", "24":
        has(ckpt("forget", "--keep-within", text, "--repo", repo, code=USAGE)[1], f'"{text}"', "with its unit", "7d")
    ckpt("forget", "../x", "--repo", repo, code=USAGE)
    ckpt("forget", "--keep-last", 1, "--repo", top / "none", code=NO_REPO)
    make(repo, 1, "--job", "other")
    has(ckpt("forget", "--keep-last", 1, "--repo", repo, code=USAGE)[1], "gpt, other")
    equal(data("forget", "--keep-last", 1, "--repo", repo, "--job", "other")["job"], "other")
    has(ckpt("forget", "--keep-last", 1, "--repo", repo, "--job", "nobody", code=FAILED)[1], "no job nobody")


@case("whoever else removes is waited for, then it is said: pins and tags, too")
def _():
    repo = store(1, 2)
    with open(repo / ".gc-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["forget", "--keep-last", 1], ["pin", "1"], ["tag", "1", "x"]):
            has(ckpt(*command, "--repo", repo, code=LOCKED)[1], ".gc-lock")
        equal(data("forget", "--keep-last", 1, "--dry-run", "--repo", repo)["goes"], 1, "a dry run needs no lock")
    ckpt("forget", "--keep-last", 1, "--repo", repo)
    equal(left(repo), [2])


@case("a running daemon's lock is no obstacle")
def _():
    repo = store(1, 2)
    with open(repo / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ckpt("forget", "--keep-last", 1, "--repo", repo)
    equal(left(repo), [2])


@case("a directory in a checkpoint is left, with a word: part is done")
def _():
    repo = store(1, 2)
    mine = repo / "gpt" / "step-000000000001.e0001" / "mine"
    mine.mkdir()
    (mine / "notes").write_text("precious")
    has(ckpt("forget", "--keep-last", 1, "--repo", repo, code=PARTIAL)[1], "cannot delete", "ckpt gc")
    equal(left(repo), [2])
    trash = next((repo / "gpt").glob(".trash-*"))
    equal((trash / "mine" / "notes").read_text(), "precious")
    equal(sorted(p.name for p in trash.iterdir()), ["mine"])
    ckpt("gc", "--repo", repo, code=FAILED)
    shutil.rmtree(trash / "mine")
    equal(data("gc", "--repo", repo)["removed"], 1)
    equal(hidden(repo), [])


@case("what a deletion that was cut short leaves is no checkpoint, and gc deletes the rest")
def _():
    repo = store(1, 2, 3)
    for step, gone in ((1, ()), (2, ("MANIFEST.json",))):
        trash = repo / "gpt" / f".trash-step-{step:012d}.e0001.{step}"
        (repo / "gpt" / f"step-{step:012d}.e0001").rename(trash)
        for name in gone:
            (trash / name).unlink()
    equal(left(repo), [3])
    has(ckpt("gc", "--dry-run", "--repo", repo)[0], "trash", "due", "2 of 2 would go")
    document = data("gc", "--repo", repo)
    equal((document["removed"], [entry["state"] for entry in document["litter"]]), (2, ["removed", "removed"]))
    equal(document["freed"] > 0, True)
    equal((left(repo), hidden(repo)), ([3], []))


@case("gc deletes what is old enough, and no checkpoint")
def _():
    repo = store(1, 2)
    job = repo / "gpt"
    (job / f".abandoned-step-000000000009.e0001.{time.time_ns():x}").mkdir()
    ancient = job / f".abandoned-step-000000000008.e0001.{time.time_ns() - 7200 * 10**9:x}"
    ancient.mkdir()
    (ancient / "rank-00000-of-00002.params.safetensors").write_bytes(b"x" * 10000)
    (job / ".trash-step-000000000007.e0001.1").mkdir()
    young, stale = job / ".tmp-tag-a.json.0", job / "step-000000000001.e0001" / ".tmp-PINNED.0"
    for path in (young, stale, repo / ".tmp-ckpt-repository.0", job / ".mine"):
        path.write_text("x")
    old(stale)
    document = data("gc", "--repo", repo, "--dry-run")
    equal({(e["kind"], e["path"].split("/")[-1][:14], e["state"]) for e in document["litter"]},
          {("abandoned", ".abandoned-ste", "young"), ("abandoned", ".abandoned-ste", "due"), ("trash", ".trash-step-00", "due"),
           ("temporary", ".tmp-tag-a.jso", "young"), ("temporary", ".tmp-PINNED.0", "due"), ("temporary", ".tmp-ckpt-repo", "young")})
    equal(ancient.exists() and stale.exists(), True, "a dry run removes nothing")
    document = data("gc", "--repo", repo)
    equal(document["removed"], 3)
    equal(document["freed"] >= 10000, True)
    equal(ancient.exists() or stale.exists(), False)
    equal(data("gc", "--repo", repo, "--older-than", "0")["removed"], 1, "the young directory; temporary files have their minute")
    equal(young.exists(), True)
    for path in (young, repo / ".tmp-ckpt-repository.0"):
        old(path)
    equal(data("gc", "--repo", repo, "--job", "gpt", "--older-than", "90m")["removed"], 1, "of one job")
    equal(data("gc", "--repo", repo)["removed"], 1)
    equal(data("gc", "--repo", repo)["litter"], [])
    equal((left(repo), (job / ".mine").exists()), ([1, 2], True))
    ckpt("verify", "--all", "--repo", repo)
    for text in "x", "1":
        ckpt("gc", "--older-than", text, "--repo", repo, code=USAGE)
    ckpt("gc", "1", "--repo", repo, code=USAGE)


shutil.rmtree(top)
sys.exit(cases.end())
