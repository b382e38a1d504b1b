"""ckpt verify on stores without a daemon: what it finds, marks and shows, and how it is stopped."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

from offline import CANCELLED, CORRUPT, OK, REPAIRABLE, STEP1000, case, cases, ckpt, data, flip, make, states, steps, top
from tap import BIN, DEADLINE, equal, expect, has
from terminal import drained

TRIES = 10
repo = top / "repo"
steps(repo)
newest = repo / "gpt" / "step-000000000900.e0002"


def tree(where):
    return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_size) for p in where.rglob("*"))


@case("verify finds an intact store intact, and writes nothing")
def _():
    before = tree(repo)
    for depth in ("--read-data", "--quick", "--read-data-subset=30%"):
        for entry in data("verify", "--repo", repo, "--all", depth)["checkpoints"]:
            equal((entry["result"], entry["findings"], entry["error"]), ("ok", [], None))
    equal(data("verify", "--repo", repo)["checkpoints"][0]["depth"], "data", "the default")
    has(ckpt("verify", "--repo", repo)[0], "ok", newest.name)
    equal(tree(repo), before)


@case("verify names file, tensor and bytes of damage, and goes on to the others")
def _():
    hurt = top / "hurt"
    shutil.copytree(repo, hurt)
    name = "rank-00002-of-00004.params.safetensors"
    piece = next(p for t in data("ls", "--repo", hurt, "1000")["tensors"] if t["name"] == "rowwise"
                 for p in t["pieces"] if p["file"] == name)
    flip(hurt / "gpt" / STEP1000 / name, piece["from"] + 5)
    # The other steps have the same bytes: integration/test_repair.py.
    out, _ = ckpt("verify", "--repo", hurt, "1000", code=REPAIRABLE)
    has(out, name, "tensor rowwise", f"bytes {piece['from']} to {piece['to']}")
    ckpt("verify", "--repo", hurt, "1000", "--quick")
    document = data("verify", "--repo", hurt, "--all", code=REPAIRABLE)
    equal([c["result"] for c in document["checkpoints"]], ["damaged", "ok", "ok"])
    finding = document["checkpoints"][0]["findings"][0]
    equal((finding["file"], finding["tensor"], finding["from"], finding["to"]),
          (name, "rowwise", piece["from"], piece["to"]))
    equal(states(hurt)[0][3], "committed", "verify alone leaves no mark")
    ckpt("verify", "--repo", hurt, "--all", "--mark", code=REPAIRABLE)
    equal([s[3] for s in states(hurt)], ["damaged", "verified", "verified"])
    has(ckpt("list", "--repo", hurt)[1], f"gpt/{STEP1000}: {name}, tensor rowwise")
    has(data("show", "--repo", hurt, "1000")["health"]["detail"], name, "rowwise")
    flip(hurt / "gpt" / STEP1000 / name, piece["from"] + 5)
    ckpt("verify", "--repo", hurt, "1000", "--quick", "--mark")
    equal(states(hurt)[0][3], "damaged", "a quick look does not acquit")
    ckpt("verify", "--repo", hurt, "1000", "--mark")
    equal(states(hurt)[0][3], "verified")


@case("a broken manifest is listed as damaged, and is code 21 elsewhere")
def _():
    broken = top / "broken"
    make(broken, "1")
    make(broken, "2")
    manifest = broken / "main" / "step-000000000002.e0001" / "MANIFEST.json"
    flip(manifest, 30)
    equal([s[3] for s in states(broken)], ["committed", "damaged"])
    for command in ("show", "ls", "verify"):
        out, err = ckpt(command, "--repo", broken, code=CORRUPT)
        has(out + err, "MANIFEST.json")
    ckpt("show", "--repo", broken, "1")
    out, _ = ckpt("verify", "--repo", broken, code=CORRUPT)
    expect(re.match(r"damaged  MANIFEST.json: ckpt.manifest: damaged", out), "the finding names its file once", out)
    manifest.write_text("")
    equal([s[3] for s in states(broken)], ["committed", "damaged"])


def catches(pid, sig):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) >> (sig - 1) & 1


def interrupted(store, sig):
    child = subprocess.Popen([BIN / "ckpt", "verify", "--all", "--json", "--repo", str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    limit = time.monotonic() + DEADLINE
    while not catches(child.pid, sig) and child.poll() is None and time.monotonic() < limit:
        time.sleep(0.001)
    child.send_signal(sig)
    out, err = child.communicate(timeout=DEADLINE)
    return child.returncode, out, err


@case("an interrupted verify stops cleanly with code 130")
def _():
    long = top / "long"
    make(long, "1", "--count", 150, "--rows", 400, "--cols", 300)
    for sig in (signal.SIGINT, signal.SIGTERM):
        for _ in range(TRIES):
            code, out, err = interrupted(long, sig)
            if code != OK:  # else it was at its end when the signal came
                break
        equal(code, CANCELLED, f"{sig!r}: {err}")
        assert len(json.loads(out)["checkpoints"]) < 150


@case("progress is shown on a terminal, and silenced by --quiet")
def _():
    for quiet in (False, True):
        master, slave = pty.openpty()
        args = [BIN / "ckpt", "verify", "--all", "--repo", top / "long"] + (["-q"] if quiet else [])
        done = subprocess.run(args, stdout=subprocess.DEVNULL, stderr=slave, timeout=DEADLINE)
        os.close(slave)
        equal(done.returncode, OK)
        shown = drained(master)
        if quiet:
            equal(shown, "")
        else:
            has(shown, "of 150: ", "verified", "\r")


sys.exit(cases.end())
