"""For tests of commands that work on the files of a repository alone: stores from make_store, ckpt with its exit code and its JSON."""

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from packages import need
from tap import BIN, DEADLINE, Cases, equal, has

OK, FAILED, USAGE, PARTIAL, DIFFERENT, NO_REPO, LOCKED = 0, 1, 2, 3, 4, 10, 11
REPAIRABLE, CORRUPT, NONE_RESTORABLE, CANCELLED = 20, 21, 22, 130
for _name in ("CKPT_REPO", "CKPT_JOB", "NO_COLOR"):
    os.environ.pop(_name, None)

cases = Cases()
case = cases.case
top = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, top, ignore_errors=True)


def packages(*modules):
    """packages.need(), which may begin the program anew: without what this one has made."""
    top.rmdir()
    need(*modules)
    top.mkdir(mode=0o700)


def make(where, *args):
    """make_store: `make(repo, 1000, "--world", 4)`."""
    steps = [str(a) for a in args[:1]]
    subprocess.run([BIN / "make_store", *map(str, args[1:]), where, *steps], check=True)


def run(*args, code=OK, env=None, **more):
    """Runs ckpt; the code must be `code`. Returns stdout as bytes, and stderr."""
    done = subprocess.run([BIN / "ckpt", *map(str, args)], capture_output=True, timeout=DEADLINE, env=dict(os.environ, **(env or {})), **more)
    err = done.stderr.decode(errors="surrogateescape")
    equal(done.returncode, code, f"exit code of {args}: {done.stdout[:2000]!r}{err}")
    if code == USAGE:
        equal(done.stdout, b"", f"stdout of {args}")
    return done.stdout, err


def ckpt(*args, **more):
    """The same, stdout as text."""
    out, err = run(*args, **more)
    return out.decode(errors="surrogateescape"), err


def data(*args, **more):
    """The JSON document of a command, whose head is checked."""
    out, _ = ckpt(*args, "--json", **more)
    equal(out.count("\n"), 1, "one line")
    document = json.loads(out)
    equal(document["schema"], 1)
    return document


STEP1000 = "step-000000001000.e0001"


def steps(repo):
    """Three checkpoints of two epochs, and one that was never committed, of a job "gpt"."""
    make(repo, "1000", "--world", 4, "--job", "gpt")
    make(repo, "2000", "--world", 4, "--job", "gpt", "--healthy", "--pin", "paper")
    make(repo, "900.2", "--world", 2, "--job", "gpt")
    make(repo, "950.2", "--world", 2, "--job", "gpt", "--partial")


def states(where, *args):
    return [(c["job"], c["step"], c["epoch"], c["state"]) for c in data("list", "--repo", where, *args)["checkpoints"]]


def flip(path, at, bit=0):
    """Damages one bit of a file."""
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1 << bit]))
