"""The seams of frameworks with the frameworks themselves, on the host: the programs of the pages train, ranks are killed, and the end has the same bits.
Where there is a Python with them (CKPT_FRAMEWORKS): nightly makes one.
timeout: 1800"""

import os
import pathlib
import re
import sys
import tempfile

import packages
from tap import Cases, expect

packages.need("cffi", "scikit_build_core", "numpy")
import wheel  # noqa: E402 - it wants the packages

TOP = pathlib.Path(tempfile.mkdtemp())
TESTS = wheel.TREE / "python" / "tests" / "with_frameworks"
WITHOUT = "CKPT_FRAMEWORKS names no Python that has frameworks (nightly makes one, of 6 GB)"
PYTHON = os.environ.get("CKPT_FRAMEWORKS")
cases = Cases()
site = None


@cases.case("the package is typed beside the frameworks, too")
def _():
    global site
    if not PYTHON:
        return WITHOUT
    site = wheel.install(wheel.make(TOP), TOP)
    wheel.run(PYTHON, "-m", "mypy", "--cache-dir", TOP / "mypy", cwd=wheel.TREE / "python")


for _name in sorted(p.stem for p in TESTS.glob("test_*.py")):
    @cases.case(f"with_frameworks/{_name}")
    def _(name=_name):
        if not site:
            return WITHOUT
        said = wheel.run(PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-c", wheel.TREE / "python/pyproject.toml", TESTS / f"{name}.py",
                         cwd=TOP, env={"PYTHONPATH": str(site), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"})
        expect(re.search(r"(\d+) passed", said), said)


sys.exit(cases.end())
