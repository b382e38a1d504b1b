"""For tests of commands that work on the files of a repository alone: stores from make_store, ckpt with its exit code and its JSON."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from fleet import BIN, Cases, Failure

OK, FAILED, USAGE, PARTIAL, DIFFERENT, NO_REPO, LOCKED = 0, 1, 2, 3, 4, 10, 11
CORRUPT, NONE_RESTORABLE, CANCELLED = 21, 22, 130
for _name in ("CKPT_REPO", "CKPT_JOB", "NO_COLOR"):
    os.environ.pop(_name, None)

cases = Cases()
top = pathlib.Path(tempfile.mkdtemp())


def packages(*names):
    """Goes on in the Python that has the packages of tests/requirements.txt; skips the script where it lacks one."""
    python = os.environ.get("CKPT_PYTHON")
    if not python:
        print(os.environ.get("CKPT_PYTHON_WHY", "CKPT_PYTHON is not set"))
        sys.exit(77)
    if sys.executable != python and "CKPT_TEST_CHILD" not in os.environ:
        os.environ["CKPT_TEST_CHILD"] = "1"
        os.execv(python, [python, *sys.argv])
    for name in names:
        try:
            __import__(name)
        except ImportError as error:
            print(f"{python}: {error}")
            sys.exit(77)


def case(name):
    """Runs the function below as the case of that name; a text that it returns is the reason why it was skipped."""
    def run(test):
        cases.run(name, test)
        return test
    return run


def equal(is_, due, what=""):
    if is_ != due:
        raise Failure(f"{what}: {is_!r}, not {due!r}")


def has(text, *parts):
    for part in parts:
        if part not in text:
            raise Failure(f"{part!r} is not in {text[:2000]!r}")


def make(where, *args):
    """make_store: `make(repo, 1000, "--world", 4)`."""
    steps = [str(a) for a in args[:1]]
    subprocess.run([BIN / "make_store", *map(str, args[1:]), where, *steps], check=True)


def run(*args, code=OK, env=None, **more):
    """Runs ckpt; the code must be `code`. Returns stdout as bytes, and stderr."""
    done = subprocess.run([BIN / "ckpt", *map(str, args)], capture_output=True, timeout=60, env=dict(os.environ, **(env or {})), **more)
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


def flip(path, at, bit=0):
    """Damages one bit of a file."""
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1 << bit]))
