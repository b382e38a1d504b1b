"""What ckpt writes to whom: hostile stores, which neither block nor mislead it; terminals, pipes and full disks."""

import os
import pty
import subprocess
import sys

from offline import CORRUPT, FAILED, NO_REPO, OK, case, cases, ckpt, data, make, states, steps, top
from tap import BIN, DEADLINE, equal, has
from terminal import drained

repo = top / "repo"
steps(repo)


@case("pipes, links, loops and giants in a store neither block nor mislead")
def _():
    bad = top / "bad"
    make(bad, "1")
    make(bad, "2")
    here = bad / "main" / "step-000000000002.e0001"
    for target in ("MANIFEST.json", "node-node0.json", "HEALTH.json"):
        path = here / target
        aside = path.read_bytes() if path.exists() else None
        for kind in (os.mkfifo, lambda p: os.symlink("/etc/passwd", p), lambda p: os.symlink(p, p), os.mkdir):
            path.unlink(missing_ok=True)
            kind(path)
            out, err = ckpt("list", "--repo", bad)
            code = OK if target == "HEALTH.json" else CORRUPT
            ckpt("verify", "--repo", bad, code=code)
            assert "root:" not in out + err, "a link was followed"
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        with open(path, "wb") as f:
            f.truncate(1 << 40)
        ckpt("list", "--repo", bad)
        ckpt("verify", "--repo", bad, code=code)
        path.unlink()
        if aside is not None:
            path.write_bytes(aside)
    os.symlink("/etc", bad / "etc")
    os.mkfifo(bad / "pipe")
    os.symlink(bad, bad / "main" / "step-000000000009.e0001")
    equal(states(bad), [("main", 1, 1, "committed"), ("main", 2, 1, "committed")])


@case("what a store says does not drive the terminal or break JSON")
def _():
    evil = top / os.fsdecode(b"ev\x1b[31mil\n\xff")
    make(evil, "1")
    (evil / "\x1b[2Jjob").mkdir()
    for command in ("list", "show", "ls", "verify"):
        out, err = ckpt(command, "--repo", evil)
        assert "\x1b" not in out + err, command
        data(command, "--repo", evil)
    _, err = ckpt("list", "--repo", str(evil) + "x", code=NO_REPO)
    assert "\x1b" not in err


def on_terminal(*args, env=None):
    """stdout of ckpt on a terminal."""
    master, slave = pty.openpty()
    done = subprocess.run([BIN / "ckpt", *map(str, args)], stdout=slave, stderr=subprocess.DEVNULL, timeout=DEADLINE,
                          env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    equal(done.returncode, OK)
    return drained(master)


@case("colour only on a terminal, and not with NO_COLOR")
def _():
    has(on_terminal("list", "--repo", repo), "\x1b[", "verified")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("list", "--repo", repo, env=env), env
    assert "\x1b" not in ckpt("list", "--repo", repo, env={"TERM": "xterm"})[0]


@case("a reader that goes away is no error, a full disk is one")
def _():
    for command in (["list"], ["ls", "--json"], ["help"], ["verify"]):
        args = [BIN / "ckpt", *command, *([] if command == ["help"] else ["--repo", repo])]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(args, stdout=writer, stderr=subprocess.PIPE, timeout=DEADLINE)
        os.close(writer)
        assert b"stdout" not in done.stderr and b"ipe" not in done.stderr, done.stderr
        equal(done.returncode, OK, f"closed pipe: {command}")
        with open("/dev/full", "w") as full:
            done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE)
        equal(done.returncode, FAILED, f"full: {command}")
        has(done.stderr.decode(), "stdout")


@case("a stdout that is closed is an error where something was to be said")
def _():
    for command, code in ((["list", "--repo", repo], FAILED), (["help"], FAILED), (["list", "--repo", top / "none"], NO_REPO)):
        done = subprocess.run([BIN / "ckpt", *command], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, timeout=DEADLINE)
        equal(done.returncode, code, f"{command}: {done.stderr}")
    has(subprocess.run([BIN / "ckpt", "help"], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE).stderr.decode(), "stdout")


sys.exit(cases.end())
