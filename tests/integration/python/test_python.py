"""The Python package: its wheel is made from this tree, is good for manylinux_2_34 and carries the libraries; it is typed, and its own tests pass.
timeout: 900"""

import pathlib
import re
import sys
import tempfile
import zipfile

import packages
from tap import BIN, Cases, expect, has

packages.need("cffi", "pytest", "scikit_build_core", "auditwheel", "mypy", "numpy")
import wheel  # noqa: E402 - it wants the packages

# What any Python has, and cffi: no NumPy.
TRY = """
import array
import sys

import ckpt

numbers, flags = array.array("d", range(1000)), bytearray(b"flags")
with ckpt.Session() as s:
    s.register("numbers", numbers)
    s.register_blob("flags", flags)
    s.join()
    snapshot = s.begin(7)
    snapshot.fence()
    snapshot.wait(ckpt.DURABLE, 60)
    numbers[:], flags[:] = array.array("d", bytes(8000)), bytes(5)
    s.join()
    assert s.restore().step == 7 and numbers[999] == 999 and flags == b"flags"
with ckpt.Reader(sys.argv[1], "others", 7) as r:
    found = array.array("d", bytes(8000))
    r.read_into({"numbers": found})
    assert found == numbers and r.blob("flags") == b"flags"
print("Python %d.%d" % sys.version_info[:2])
"""
TOP = pathlib.Path(tempfile.mkdtemp())
TREE, run = wheel.TREE, wheel.run
cases = Cases()
made = None


@cases.case("the wheel is made from this tree, for every Python from 3.11 on")
def _():
    global made
    made = wheel.make(TOP)
    has(made.name, "cp311-abi3")
    inside = set(zipfile.ZipFile(made).namelist())
    expect({"ckpt/_ckpt.abi3.so", "ckpt/libckpt.so.0", "ckpt/libckptreader.so.0", "ckpt/py.typed", "ckpt/torch/checkpointer.py"} <= inside, inside)
    expect("ckpt/_build.py" not in inside, "what builds the module is in the wheel")


@cases.case("auditwheel finds it good for manylinux_2_34")
def _():
    has(re.sub(r"\s+", " ", run("auditwheel", "show", made)), 'constrains the platform tag to "manylinux_2_3')
    run("auditwheel", "repair", "-w", TOP / "repaired", "--plat", "manylinux_2_34_x86_64", made)


@cases.case("the package is typed")
def _():
    run(sys.executable, "-m", "mypy", "--cache-dir", TOP / "mypy", cwd=TREE / "python")


@cases.case("its tests pass with what was repaired")
def _():
    repaired = next((TOP / "repaired").glob("*.whl"))
    site = wheel.install(repaired, TOP)
    said = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", TREE / "python/pyproject.toml", "--ignore",
               TREE / "python/tests/with_torch", "--ignore", TREE / "python/tests/with_frameworks", TREE / "python/tests", cwd=TOP, env={"PYTHONPATH": str(site)})
    passed = re.search(r"(\d+) passed", said)
    expect(passed and int(passed[1]) >= 80, said)


def serves(env, site=TOP / "site"):
    """The environment is one of tests/pythons.py, or None."""
    if env is None:
        return "this machine has no other Python from 3.11 on"
    if (env / "why-not").exists():
        return (env / "why-not").read_text().strip()
    name = env.name.replace("venv-", "Python ").rstrip("t")
    (TOP / "try.py").write_text(TRY)
    store = TOP / name.replace(" ", "-")
    said = run("ckpt", "run", "-n", 1, "--job", "others", "--store", store, "--", env / "bin" / "python", TOP / "try.py", store, cwd=TOP,
               env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"})
    has(said, name)
    return None


def serves_without_gil(env):
    """It builds its own wheel. The stable ABI is none of it."""
    if env is None:
        return "this machine has no Python without a GIL"
    if (env / "why-not").exists():
        return (env / "why-not").read_text().strip()
    top, python = TOP / env.name, env / "bin" / "python"
    top.mkdir()
    own, minor = wheel.make(top, python), env.name.removeprefix("venv-3.").removesuffix("t")
    has(own.name, f"cp3{minor}-cp3{minor}t-")
    site = wheel.install(own, top, python)
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", TREE / "python/pyproject.toml", TREE / "python/tests/test_threads.py", cwd=TOP,
               env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"})
    expect(re.search(r"(\d+) passed", said) and "skipped" not in said, said)
    return serves(env, site)


for other in sorted(BIN.parents[1].glob("venv-3.*[0-9]")) or [None]:
    cases.run(f"{other.name.replace('venv-', 'Python ') if other else 'another Python'} saves, restores and reads with the same wheel", serves, other)
for other in sorted(BIN.parents[1].glob("venv-3.*t")) or [None]:
    cases.run(f"{other.name.replace('venv-', 'Python ') if other else 'a Python without a GIL'} saves, restores and reads with its own wheel",
              serves_without_gil, other)

sys.exit(cases.end())
