"""ckpt bench: figures of this machine and this store, an estimate that follows from them, and a store that is as it was."""

import contextlib
import os
import platform
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time

from offline import BIN, CANCELLED, FAILED, NO_REPO, OK, USAGE, case, cases, ckpt, data, equal, has, make, top
from seccomp import EINVAL, forbid
from tap import DEADLINE, expect, until

repo = top / "repo"
make(repo, 1000, "--world", 2)
MIB = 1 << 20


def contents(folder=repo):
    return {str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}


before = contents()


def start(*args, **more):
    return subprocess.Popen([BIN / "ckpt", "bench", "--repo", repo, *map(str, args)], stdin=subprocess.DEVNULL, text=True,
                            **dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE) | more)


def temporaries():
    return [p for p in repo.iterdir() if p.name.startswith(".tmp-bench-")]


@case("figures, and nothing is left behind")
def _():
    began = time.monotonic()
    found = data("bench", "--repo", repo, "--size", "24M")
    took = time.monotonic() - began
    equal(contents(), before)
    equal((found["bytes"], found["estimate"]), (24 * MIB, None))
    rates = found["rates"]
    equal(set(rates), {"write", "read", "copy_one", "copy_all", "digest_one", "digest_all", "touch_huge", "touch_ordinary"})
    for name, rate in rates.items():
        expect(name == "touch_huge" and rate is None or rate > MIB, name, rate)
    expect(24 * MIB / rates["write"] + 24 * MIB / rates["read"] < took, "faster than it was", rates, took)
    equal(set(found["latencies"]), {"fsync", "link", "fsync_dir"})
    for name, times in found["latencies"].items():
        expect(0 < times["median_ns"] <= times["worst_ns"] < took * 1e9, name, times)
    expect(found["processors"] == min(len(os.sched_getaffinity(0)), 64), found["processors"])


@case("an estimate is the figures, for a state of that size")
def _():
    found = data("bench", "--repo", repo, "--size", "16M", "--state", "4G", "-n", 4)
    rates, e, size = found["rates"], found["estimate"], 4 << 30
    equal((e["state"], e["ranks"], e["arena_bytes"]), (size, 4, 3 * size))

    def near(name, due):
        expect(abs(e[name] - due) < 0.001 * due, name, e[name], due, rates)

    captured = sum(size / min(4 * rates[f"{what}_one"], rates[f"{what}_all"]) for what in ("copy", "digest"))
    small = {name: times["median_ns"] / 1e9 for name, times in found["latencies"].items()}
    near("captured_s", captured)
    near("durable_s", captured + size / min(rates["write"], rates["digest_all"]) + 3 * small["fsync"] + 4 * small["fsync_dir"] + small["link"])
    near("verified_s", e["durable_s"] + size / min(rates["read"], rates["digest_all"]))
    near("restored_s", captured + size / min(rates["read"], rates["digest_all"], rates["touch_huge"] or rates["touch_ordinary"]))
    out, _ = ckpt("bench", "--repo", repo, "--size", "16M", "--state", "400T")
    has(out, "write", "fsync of a directory", "A state of 400.0 TiB", "captured", "durable", "verified", "restored", "1.2 PiB")


@case("what is wrong is said")
def _():
    has(ckpt("bench", code=NO_REPO)[1], "--repo", "CKPT_REPO")
    has(ckpt("bench", "--repo", top / "none", code=NO_REPO)[1], str(top / "none"))
    for option, value in (("--size", "many"), ("--size", "4K"), ("--state", "0"), ("--ranks", 0), ("--ranks", 5000)):
        has(ckpt("bench", "--repo", repo, option, value, code=USAGE)[1], option)
    free = os.statvfs(repo)
    too_much = free.f_bavail * free.f_frsize // 2 // MIB + 1024
    has(ckpt("bench", "--repo", repo, "--size", f"{too_much}M", code=FAILED)[1], "are free", "--size")
    equal(contents(), before)


@case("a store that cannot be written to")
def _():
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        return "setpriv is not installed"
    closed = top / "closed"
    make(closed, 1)
    mode = stat.S_IMODE(closed.stat().st_mode)
    closed.chmod(0o555)
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    done = subprocess.run([*prefix, BIN / "ckpt", "bench", "--repo", closed, "--size", "1M"], capture_output=True, text=True)
    closed.chmod(mode)
    equal(done.returncode, FAILED, done.stderr)
    has(done.stderr, str(closed), "create", "Permission denied")
    return None


@case("a store without O_DIRECT: said, since the page cache is no storage")
def _():
    if platform.machine() != "x86_64":
        return "the numbers of system calls in here are those of x86_64"
    filtered = dict(preexec_fn=forbid("openat", EINVAL, os.O_DIRECT), env={"CKPT_DISK_ENGINE": "threads"})
    found = data("bench", "--repo", repo, "--size", "4M", **filtered)
    equal((found["direct"], found["engine"]), (False, "threads"))
    has(ckpt("bench", "--repo", repo, "--size", "4M", **filtered)[0], "no O_DIRECT here")
    equal(contents(), before)
    return None


def large():
    """As much as it may take, at most 4 GiB: so that there is time to meet it."""
    free = os.statvfs(repo)
    return f"{min(free.f_bavail * free.f_frsize // 3 // MIB, 4096)}M"


@case("a terminal sees progress, and an interrupt ends it cleanly")
def _():
    terminal, end = pty.openpty()
    run = start("--size", large(), stderr=end)
    os.close(end)
    seen = b""
    with open(terminal, "rb", buffering=0) as shown:
        while b" written, " not in seen:
            seen += shown.read(4096)  # its end, without a line of progress, is an error
        run.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            while part := shown.read(4096):
                seen += part
    out, _ = run.communicate(timeout=DEADLINE)
    equal((run.returncode, out), (CANCELLED, ""), seen)
    has(seen.decode(), "\r", " of ", "/s", "interrupted")
    equal(contents(), before)


@case("what a killed one leaves is no checkpoint, and is collected")
def _():
    run = start("--size", large())
    until(temporaries, "it has begun to write")
    run.kill()
    run.communicate(timeout=DEADLINE)
    left = temporaries()
    equal(len(left), 1)
    equal([c["step"] for c in data("list", "--repo", repo)["checkpoints"]], [1000])
    ckpt("verify", "--repo", repo, code=OK)
    hour_ago = time.time() - 7200
    os.utime(left[0], (hour_ago, hour_ago))
    collected = data("gc", "--repo", repo)
    equal([(x["kind"], x["path"], x["state"]) for x in collected["litter"]], [("temporary", left[0].name, "removed")])
    equal(contents(), before)


sys.exit(cases.end())
