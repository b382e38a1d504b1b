"""The Python package: its wheel, made of this tree and of the libraries of the release build."""

import os
import pathlib
import subprocess
import sys

from tap import BIN, expect

TREE = pathlib.Path(__file__).resolve().parents[2]


def run(*words, **options):
    """What it says; a failure is told with that."""
    env = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", CKPT_BUILD=str(BIN)) | options.pop("env", {})
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=env, check=False, **options)
    expect(done.returncode == 0, *words, "ends with", done.returncode, done.stdout[-6000:], done.stderr[-3000:])
    return done.stdout


def make(top):
    """The wheel. Nightly the libraries are built anew, as somebody who installs the package does."""
    given = [] if os.environ.get("CKPT_NIGHTLY") else ["-C", f"cmake.define.CKPT_LIBRARIES={BIN.parent / 'lib'}"]
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", top / "wheels", TREE / "python", "-C",
        f"build-dir={top / 'build'}", *given)
    return next((top / "wheels").glob("libckpt-*.whl"))


def install(wheel, top):
    """Into a folder for PYTHONPATH."""
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", top / "site", wheel)
    return top / "site"
