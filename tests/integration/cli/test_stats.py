"""ckpt stats: the numbers are those of the files; what several checkpoints share is counted once."""

import os
import sys

from offline import NONE_RESTORABLE, NO_REPO, case, cases, ckpt, data, equal, has, make, top

repo = top / "repo"
make(repo, 100, "--world", 4, "--rows", 512, "--job", "gpt")
make(repo, "200", "--world", 4, "--rows", 512, "--job", "gpt")
make(repo, "500", "--world", 4, "--rows", 512, "--job", "gpt")
make(repo, "50.2", "--world", 4, "--rows", 512, "--job", "gpt")
make(repo, "60.2", "--world", 2, "--job", "gpt", "--partial")


def directory(step, epoch=1):
    return repo / "gpt" / f"step-{step:012}.e{epoch:04}"


def blocks(*folders):
    return sum(s.st_blocks * 512 for s in {(s.st_dev, s.st_ino): s for f in folders for s in (p.stat() for p in f.iterdir())}.values())


@case("one checkpoint: groups, types and ranks add up to what ls lists")
def _():
    stats, tensors = data("stats", 100, "--repo", repo), data("ls", 100, "--repo", repo)["tensors"]
    equal(stats["bytes"], sum(t["bytes"] for t in tensors))
    equal((stats["tensors"], stats["blobs"]), (7, 5))
    equal(stats["pieces"], sum(len(t["pieces"]) for t in tensors))
    for key in ("groups", "dtypes", "ranks"):
        equal(sum(x["bytes"] for x in stats[key]), stats["bytes"], key)
        equal(sum(x["pieces"] for x in stats[key]), stats["pieces"], key)
    for line in stats["dtypes"]:
        same = [t for t in tensors if t["dtype"] == line["name"]]
        equal((line["bytes"], line["tensors"]), (sum(t["bytes"] for t in same), len(same)), line["name"])
    for line in stats["ranks"]:
        held = [p["to"] - p["from"] for t in tensors for p in t["pieces"] if p["rank"] == line["rank"]]
        files = len(list(directory(100).glob(f"rank-{line['rank']:05}-of-*.safetensors")))
        equal((line["bytes"], line["pieces"], line["files"]), (sum(held), len(held), files), line["rank"])
    equal({g["name"] for g in stats["groups"]}, {"params", "optimizer"})
    equal([r["rank"] for r in stats["ranks"]], [0, 1, 2, 3])
    files = list(directory(100).iterdir())
    equal(stats["usage"], {"files": len(files), "apparent": sum(p.stat().st_size for p in files), "real": blocks(directory(100)),
                           "shared_files": 0})
    has(ckpt("stats", 100, "--repo", repo)[0], "7 tensors and 5 blobs", "GROUP", "DTYPE", "RANK")


@case("a job: number, cadence in steps and in time, space")
def _():
    for n, (step, epoch) in enumerate(((100, 1), (200, 1), (500, 1), (50, 2))):
        os.utime(directory(step, epoch) / "MANIFEST.json", ns=(0, (1_000_000 + 3600 * n + 600 * (n == 3)) * 10**9))
    stats = data("stats", "--repo", repo)
    equal((stats["job"], stats["committed"], stats["partial"], stats["abandoned"]), ("gpt", 4, 1, 0))
    equal((stats["first"]["step"], stats["last"]["step"], stats["last"]["epoch"]), (100, 50, 2))
    equal(stats["steps_between"], {"min": 100, "median": 300, "max": 300}, "an epoch begins anew")
    equal(stats["interval_ns"], {"min": 3600 * 10**9, "median": 3600 * 10**9, "max": 4200 * 10**9})
    committed = [directory(100), directory(200), directory(500), directory(50, 2)]
    equal(stats["usage"]["real"], blocks(*committed))
    equal(stats["waste"]["real"], blocks(directory(60, 2)))
    equal(stats["bytes_per_day"], int(blocks(*committed) * 3 / 4 * 86400 / 11400))
    room = os.statvfs(repo)
    equal(stats["total_bytes"], room.f_blocks * room.f_frsize)
    has(ckpt("stats", "--repo", repo)[0], "4 committed, 1 partial", "median 300", "per day", "no checkpoints")


@case("hard-linked files are counted once, in the checkpoint that brought them")
def _():
    before = data("stats", "--repo", repo)
    for name in ("rank-00000-of-00004.params.safetensors", "rank-00000-of-00004.params.xxh"):
        (directory(200) / name).unlink()
        os.link(directory(100) / name, directory(200) / name)
        os.link(directory(100) / name, top / f"elsewhere-{name}")
    after = data("stats", "--repo", repo)
    equal(after["usage"]["apparent"], before["usage"]["apparent"])
    equal(after["usage"]["real"], blocks(directory(100), directory(200), directory(500), directory(50, 2)))
    equal(after["usage"]["real"] < before["usage"]["real"], True)
    equal(after["usage"]["shared_files"], 4)
    equal(after["bytes_added"]["min"] < after["bytes_added"]["max"], True)
    equal(data("stats", 200, "--repo", repo)["usage"]["shared_files"], 2)
    has(ckpt("stats", 200, "--repo", repo)[0], "2 of them shared")


@case("what a crash left is waste; a job without checkpoints has numbers, too")
def _():
    directory(60, 2).rename(repo / "gpt" / ".abandoned-step-000000000060.e0002.1234")
    stats = data("stats", "--repo", repo)
    equal((stats["partial"], stats["abandoned"]), (0, 1))
    equal(stats["waste"]["real"] > 0, True)
    (repo / "none").mkdir()  # all that it had was removed
    stats = data("stats", "--repo", repo, "--job", "none")
    equal((stats["committed"], stats["first"], stats["steps_between"], stats["bytes_per_day"]), (0, None, None, None))
    ckpt("stats", "--repo", repo, "--job", "none")
    make(top / "empty", 1, "--partial")
    equal(data("stats", "--repo", top / "empty")["partial"], 1)
    ckpt("stats", "latest", "--repo", top / "empty", code=NONE_RESTORABLE)
    ckpt("stats", "--repo", top / "nowhere", code=NO_REPO)


sys.exit(cases.end())
