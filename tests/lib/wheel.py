"""The Python package and the programs: their wheels, made of this tree and of what the release build has."""

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


def build(top, folder, name, given, python=sys.executable):
    """The wheel of a project. Nightly all is built anew, as somebody who installs the package does."""
    given = [] if os.environ.get("CKPT_NIGHTLY") else ["-C", f"cmake.define.{given}"]
    run(python, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", top / "wheels", folder, "-C", f"build-dir={top / 'build' / name}",
        *given)
    return next((top / "wheels").glob(f"{name}-*.whl"))


def make(top, python=sys.executable):
    """Of the package. ``python`` builds it."""
    return build(top, TREE / "python", "libckpt", f"CKPT_LIBRARIES={BIN.parent / 'lib'}", python)


def make_programs(top):
    """Of ckpt and ckptd."""
    return build(top, TREE / "python" / "daemon", "libckpt_daemon", f"CKPT_PROGRAMS={BIN}")


def install(wheel, top, python=sys.executable):
    """Into a folder for PYTHONPATH."""
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", top / "site", wheel)
    return top / "site"
