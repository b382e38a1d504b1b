"""The Python package with PyTorch itself, on the host: every layout from every world to every world, trainings that are killed, hostile documents.
Where there is a Python with torch (CKPT_TORCH): nightly and CKPT_TORCH=1 make one. Without these two, what needs one process runs, within a minute.
timeout: 1800"""

import os
import pathlib
import re
import sys
import tempfile

import packages
from tap import Cases, expect, has

packages.need("cffi", "scikit_build_core", "numpy")
import wheel  # noqa: E402 - it wants the packages

TOP = pathlib.Path(tempfile.mkdtemp())
TESTS = wheel.TREE / "python" / "tests" / "with_torch"
cases = Cases()
site = None
ALL = bool(os.environ.get("CKPT_TORCH_ALL"))  # nightly, or somebody has asked for it
SHORT = ("codecs", "convert_frameworks", "elements", "fs", "generators", "held", "layout", "rolled_back", "saves")
NONE = "CKPT_TORCH names no Python that has torch (CKPT_TORCH=1 and nightly make one, of 5 GB)"
LONG = "CKPT_TORCH=1 and nightly run it"


def pytest(*names):
    said = wheel.run(os.environ["CKPT_TORCH"], "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", wheel.TREE / "python/pyproject.toml",
                     *(TESTS / f"{name}.py" for name in names), cwd=TOP,
                     env={"PYTHONPATH": str(site), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"})
    expect(re.search(r"(\d+) passed", said), said)


def why_not():
    """Makes what the cases need, once."""
    global site
    if os.environ.get("CKPT_TORCH") and not site:
        site = wheel.install(wheel.make(TOP), TOP)
    return None if site and ALL else LONG if site else NONE


@cases.case("what needs one process passes")
def _():
    why_not()
    if not site:
        return NONE
    if ALL:
        return "each file has a case of its own"
    pytest(*(f"test_{name}" for name in SHORT))


@cases.case("the package is typed with PyTorch's types, too")
def _():
    if why := why_not():
        return why
    wheel.run(os.environ["CKPT_TORCH"], "-m", "mypy", "--cache-dir", TOP / "mypy", cwd=wheel.TREE / "python")


for _name in sorted(p.stem for p in TESTS.glob("test_*.py")):
    @cases.case(f"with_torch/{_name}")
    def _(name=_name):
        if why := why_not():
            return why
        pytest(name)


@cases.case("what is run on a GPU passes on the host")
def _():
    if why := why_not():
        return why
    said = wheel.run(os.environ["CKPT_TORCH"], wheel.TREE / "tests/gpu/test_torch.py", "cpu", cwd=TOP,
                     env={"PYTHONPATH": f"{wheel.TREE / 'tests/lib'}:{site}", "CUDA_VISIBLE_DEVICES": ""})
    has(said, "# cpu: a save of 100 MB blocks for ", "1..7")


@cases.case("scripts/demo --torch shows that nothing was lost")
def _():
    if why := why_not():
        return why
    has(wheel.run(wheel.TREE / "scripts" / "demo", "--torch", "--steps", "30", env={"CUDA_VISIBLE_DEVICES": ""}), "ok  all parameters have the same bits",
        "out of memory", "restore after a kill: dcp.load from the disk")


sys.exit(cases.end())
