"""The programs as a Python distribution: `pip install libckpt[daemon]` alone is enough to train, with nothing else of this tree on the PATH.
timeout: 600"""

import pathlib
import re
import sys
import sysconfig
import tempfile
import zipfile

import packages
from tap import Cases, equal, expect, has

packages.need("cffi", "scikit_build_core", "auditwheel", "numpy")
import wheel  # noqa: E402 - it wants the packages

TOP = pathlib.Path(tempfile.mkdtemp())
ENV = TOP / "env"
STEPS = 40
TRAIN = f"""
import time
import ckpt
import numpy

half = numpy.zeros(500)
with ckpt.Session("gpt") as s:
    s.register("weight", ckpt.Piece(half, start=500 * s.rank), shape=(1000,))
    s.join()
    try:
        first = s.restore().step + 1
    except ckpt.NoCheckpoint:
        first = 1
    print("goes on with step", first, flush=True)
    for step in range(first, {STEPS} + 1):
        s.beat(step)
        time.sleep(0.02)  # the step
        half += step
        snapshot = s.begin(step)
        snapshot.fence()
    snapshot.wait(ckpt.DURABLE, 60)
print("sum", int(half[0]))
"""
cases = Cases()
run = wheel.run


def in_env(*words):
    """With the environment's programs alone, and those of the system."""
    return run(*words, cwd=TOP, env={"PATH": f"{ENV}/bin:/usr/bin:/bin"})


@cases.case("its wheel carries both programs, and auditwheel takes in the libraries that they need")
def _():
    made = wheel.make_programs(TOP / "programs")
    has(made.name, "libckpt_daemon-", "-py3-none-linux_")
    scripts = {pathlib.PurePath(name).name for name in zipfile.ZipFile(made).namelist() if ".data/scripts/" in name}
    equal(scripts, {"ckpt", "ckptd"})
    run("auditwheel", "repair", "-w", TOP / "repaired", made)
    inside = zipfile.ZipFile(next((TOP / "repaired").glob("*.whl"))).namelist()
    expect(any("liburing" in name for name in inside), inside)


@cases.case("libckpt[daemon] brings the package and the programs")
def _():
    wheel.make(TOP)
    run(sys.executable, "-m", "venv", "--without-pip", ENV)
    site = ENV / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "others.pth").write_text(sysconfig.get_path("platlib") + "\n")  # cffi and NumPy, which no test downloads
    run(sys.executable, "-m", "pip", "--python", ENV / "bin" / "python", "install", "-q", "--no-index", "--find-links", TOP / "repaired", "--find-links",
        TOP / "wheels", "libckpt[daemon]")
    has(in_env(ENV / "bin" / "ckpt", "--version"), "ckpt ")
    has(in_env(ENV / "bin" / "ckptd", "--version"), "ckptd ")


@cases.case("two ranks train with them, one of which is killed, and the checkpoint stands")
def _():
    (TOP / "train.py").write_text(TRAIN)
    said = in_env(ENV / "bin" / "ckpt", "run", "-n", 2, "--job", "gpt", "--store", TOP / "store", "--inject", "kill:rank=1@step=10", "--", ENV / "bin" / "python",
                  TOP / "train.py")
    firsts = [int(step) for step in re.findall(r"goes on with step (\d+)", said)]
    expect(firsts.count(1) == 2 and max(firsts) > 1, said)
    equal(re.findall(r"sum (\d+)", said), [str(STEPS * (STEPS + 1) // 2)] * 2, said)
    in_env(ENV / "bin" / "ckpt", "verify", "latest", "--repo", TOP / "store", "--job", "gpt")
    has(in_env(ENV / "bin" / "ckpt", "list", "--repo", TOP / "store"), "gpt", f" {STEPS} ")


sys.exit(cases.end())
