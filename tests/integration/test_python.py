"""The Python package: its wheel is built from this tree, is good for manylinux_2_34 and carries the libraries; it is typed, and its own tests pass.
timeout: 900"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import packages
from tap import BIN, Cases, expect, has

packages.need("cffi", "pytest", "scikit_build_core", "auditwheel", "mypy", "numpy")
TREE = pathlib.Path(__file__).resolve().parents[2]
TOP = pathlib.Path(tempfile.mkdtemp())
TOOLS = pathlib.Path(sys.executable).parent
cases = Cases()


def run(*words, **options):
    """What it says; a failure is told with that."""
    env = dict(os.environ, PATH=f"{TOOLS}:{os.environ['PATH']}", CKPT_BUILD=str(BIN)) | options.pop("env", {})
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=env, check=False, **options)
    expect(done.returncode == 0, *words, "ends with", done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def wheel():
    return next((TOP / "wheels").glob("libckpt-*.whl"))


@cases.case("the wheel is built from this tree, for every Python from 3.11 on")
def _():
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", TOP / "wheels", TREE / "python",
        "-C", f"build-dir={TREE / 'build' / 'python'}")
    has(wheel().name, "cp311-abi3")
    inside = set(zipfile.ZipFile(wheel()).namelist())
    expect({"ckpt/_ckpt.abi3.so", "ckpt/libckpt.so.0", "ckpt/libckptreader.so.0", "ckpt/py.typed"} <= inside, inside)
    expect("ckpt/_build.py" not in inside, "what builds the module is in the wheel")


@cases.case("auditwheel finds it good for manylinux_2_34")
def _():
    has(re.sub(r"\s+", " ", run("auditwheel", "show", wheel())), 'constrains the platform tag to "manylinux_2_3')
    run("auditwheel", "repair", "-w", TOP / "repaired", "--plat", "manylinux_2_34_x86_64", wheel())


@cases.case("the package is typed")
def _():
    run(sys.executable, "-m", "mypy", "--cache-dir", TOP / "mypy", cwd=TREE / "python")


@cases.case("its tests pass with what was repaired")
def _():
    repaired = next((TOP / "repaired").glob("*.whl"))
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", TOP / "site", repaired)
    said = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", TREE / "python/pyproject.toml", TREE / "python/tests", cwd=TOP,
               env={"PYTHONPATH": str(TOP / "site")})
    passed = re.search(r"(\d+) passed", said)
    expect(passed and int(passed[1]) >= 20, said)


sys.exit(cases.end())
