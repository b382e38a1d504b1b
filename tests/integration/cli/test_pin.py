"""ckpt pin, unpin and tag: marks in the store, durable, hostile ones refused; a tag names a checkpoint in every command."""

import os
import shutil
import sys

from offline import CORRUPT, FAILED, NO_REPO, USAGE, cases, case, ckpt, data, equal, flip, has, make, top

repo = top / "repo"
make(repo, 1000, "--job", "gpt")
make(repo, "1000.2", "--job", "gpt")
make(repo, 2000, "--job", "gpt")
first = repo / "gpt" / "step-000000001000.e0001"


def pins():
    return {(c["step"], c["epoch"]) for c in data("list", "--repo", repo)["checkpoints"] if c["pinned"]}


@case("a pin and its note come back, and go")
def _():
    equal(pins(), set())
    has(ckpt("pin", "1000.e0001", "--repo", repo, "--note", "vor dem Umbau: größer")[0], "gpt/step-000000001000.e0001 is pinned")
    equal(pins(), {(1000, 1)})
    equal(data("show", "1000.e0001", "--repo", repo)["pin"]["note"], "vor dem Umbau: größer")
    document = data("pin", "1000.e1", "--repo", repo)
    equal((document["step"], document["epoch"], document["pinned"], document["note"]), (1000, 1, True, ""), "pinned again")
    equal(data("show", "1000.e0001", "--repo", repo)["pin"]["note"], "")
    document = data("unpin", "1000.e1", "--repo", repo)
    equal((document["pinned"], document["changed"]), (False, True))
    equal(pins(), set())
    equal(data("unpin", "1000.e1", "--repo", repo)["changed"], False, "nothing to unpin")
    equal(sorted(p.name for p in first.glob(".*")), [], "no temporary stays")


@case("pin refuses what is no checkpoint, and writes nothing then")
def _():
    before = sorted(str(p) for p in repo.rglob("*"))
    has(ckpt("pin", "77", "--repo", repo, code=FAILED)[1], "no checkpoint 77")
    has(ckpt("pin", "../x", "--repo", repo, code=USAGE)[1], "is no checkpoint")
    has(ckpt("pin", "--repo", repo, code=USAGE)[1], "STEP|latest is missing")
    has(ckpt("pin", "1000", "--note", "x" * 1024, "--repo", repo, code=USAGE)[1], "1024 bytes")
    ckpt("pin", "1000", "--note", "x" * 1023, "--repo", repo)
    equal(data("show", "1000", "--repo", repo)["pin"]["note"], "x" * 1023)
    ckpt("unpin", "1000", "--repo", repo)
    ckpt("pin", "1000", "--repo", top / "none", code=NO_REPO)
    equal(sorted(str(p) for p in repo.rglob("*")), before)


@case("a link in the place of the mark is replaced, not followed")
def _():
    target = top / "target"
    target.write_text("mine")
    (first / "PINNED").symlink_to(target)
    ckpt("pin", "1000.e1", "--repo", repo)
    equal(target.read_text(), "mine")
    equal((first / "PINNED").is_symlink(), False)
    ckpt("unpin", "1000.e1", "--repo", repo)


@case("a tag names a checkpoint in every command")
def _():
    document = data("tag", "1000.e0001", "best", "--repo", repo)
    equal((document["tag"], document["step"], document["epoch"], document["changed"]), ("best", 1000, 1, True))
    equal(data("tag", "1000.e0001", "best", "--repo", repo)["changed"], False)
    ckpt("tag", "best", "paper", "--repo", repo)
    for command in (["show", "best"], ["ls", "paper"], ["show", "paper"]):
        equal(data(*command, "--repo", repo)["name"], "step-000000001000.e0001", command)
    equal(data("verify", "best", "--repo", repo)["checkpoints"][0]["epoch"], 1)
    equal(data("show", "best", "--repo", repo)["tags"], ["best", "paper"])
    equal([c["tags"] for c in data("list", "--repo", repo)["checkpoints"]], [["best", "paper"], [], []])
    has(ckpt("list", "--repo", repo)[0], "best, paper")
    has(ckpt("show", "best", "--repo", repo)[0], "best", "paper")
    ckpt("pin", "best", "--repo", repo)
    equal(pins(), {(1000, 1)})
    ckpt("unpin", "best", "--repo", repo)
    equal([(t["tag"], t["step"], t["damaged"]) for t in data("tag", "--repo", repo)["tags"]],
          [("best", 1000, False), ("paper", 1000, False)])


@case("a tag is unique: it moves only when told to, and is deleted by name")
def _():
    has(ckpt("tag", "2000", "best", "--repo", repo, code=FAILED)[1], "step-000000001000.e0001", "--move")
    equal(data("show", "best", "--repo", repo)["step"], 1000)
    ckpt("tag", "2000", "best", "--move", "--repo", repo)
    equal(data("show", "best", "--repo", repo)["step"], 2000)
    equal(data("tag", "--delete", "best", "--repo", repo)["deleted"], True)
    has(ckpt("show", "best", "--repo", repo, code=FAILED)[1], "there is no tag best")
    has(ckpt("tag", "--delete", "best", "--repo", repo, code=FAILED)[1], "there is no tag best")
    equal(sorted(p.name for p in (repo / "gpt").glob("*tag*")), ["tag-paper.json"])


@case("hostile and misleading names are refused")
def _():
    for name in ("../x", "a/b", ".x", "-x", "1000", "1x", "latest", "step-000000001000.e0001", "step-x", "a b", "x" * 64, "\x1b[2J", "ü"):
        ckpt("tag", "1000", "--repo", repo, "--", name, code=USAGE)
        ckpt("tag", "--repo", repo, f"--delete={name}", code=USAGE)
    has(ckpt("tag", "1000", "", "--repo", repo, code=USAGE)[1], "empty")
    ckpt("tag", "1000", "--repo", repo, code=USAGE)
    ckpt("tag", "1000", "a", "--delete", "b", "--repo", repo, code=USAGE)
    ckpt("tag", "--move", "--repo", repo, code=USAGE)
    ckpt("tag", "1000", "x" * 63, "--repo", repo)
    equal(data("show", "x" * 63, "--repo", repo)["epoch"], 2)
    ckpt("tag", "--delete", "x" * 63, "--repo", repo)


@case("every flipped bit of a tag is found; it is then listed as damaged and can be set again")
def _():
    ckpt("tag", "2000", "fragile", "--repo", repo)
    path = repo / "gpt" / "tag-fragile.json"
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        flip(path, at, at % 8)
        has(ckpt("show", "fragile", "--repo", repo, code=CORRUPT)[1], "tag-fragile.json")
        path.write_bytes(whole)
    flip(path, 40)
    has(ckpt("tag", "--repo", repo, code=CORRUPT)[1], "fragile", "--move")
    has(ckpt("list", "--repo", repo)[1], "fragile")
    ckpt("tag", "2000", "fragile", "--repo", repo, code=FAILED)
    ckpt("tag", "2000", "fragile", "--move", "--repo", repo)
    equal(data("show", "fragile", "--repo", repo)["step"], 2000)
    shutil.copy(path, repo / "gpt" / "tag-copied.json")
    has(ckpt("show", "copied", "--repo", repo, code=CORRUPT)[1], "is that of tag fragile")
    path.unlink()
    os.mkfifo(path)
    ckpt("show", "fragile", "--repo", repo, code=CORRUPT)
    path.unlink()
    (repo / "gpt" / "tag-copied.json").unlink()


@case("a tag whose checkpoint is gone says so; tags of one job are not those of another")
def _():
    make(repo, 3000, "--job", "gpt")
    make(repo, 1000, "--job", "other")
    ckpt("tag", "3000", "gone", "--repo", repo, "--job", "gpt")
    shutil.rmtree(repo / "gpt" / "step-000000003000.e0001")
    has(ckpt("show", "gone", "--repo", repo, "--job", "gpt", code=FAILED)[1], "is not there any more")
    has(ckpt("show", "paper", "--repo", repo, "--job", "other", code=FAILED)[1], "no tag paper in job other")
    has(ckpt("show", "paper", "--repo", repo, code=USAGE)[1], "several jobs")
    has(ckpt("tag", "--repo", repo, code=USAGE)[1], "several jobs")
    equal(data("tag", "--repo", repo, "--job", "other")["tags"], [])


@case("without permission nothing changes and the reason is said")
def _():
    if os.geteuid() == 0:
        return "root may write everywhere"
    first.chmod(0o555)
    try:
        has(ckpt("pin", "1000.e1", "--repo", repo, "--job", "gpt", code=FAILED)[1], "Permission denied")
    finally:
        first.chmod(0o755)


sys.exit(cases.end())
