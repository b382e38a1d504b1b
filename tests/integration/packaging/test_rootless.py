"""Rootless podman, as docs/howto/run-in-containers.md says: ckptd and ranks in containers of a user who is nobody on this machine, through a lost rank and a
request to stop; and who else may connect."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import podman
from launcher import BIN, TRAIN, Run, final
from pages import at, commands
from tap import Cases, equal, expect, has, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
USER = 54321
FOREVER = 1000000
why = podman.lacks(podman.ROOTLESS)
if why:
    print(why)
    sys.exit(77)
cases = Cases()
case = cases.case
containers = podman.Podman(USER)
top = containers.top
profile = top / "ckptd.json"
shutil.copy(ROOT / "deploy/kubernetes/seccomp/ckptd.json", profile)
profile.chmod(0o644)
for name in ("socket", "store"):
    (top / name).mkdir(mode=0o700)
    os.chown(top / name, USER, USER)
SOCKET = top / "socket" / "ckptd.sock"


def typed(words, **options):
    """The page's command that has these words, with our places. options: {word of the page: ours}."""
    (found,) = [command for command in commands("run-in-containers.md") if command.startswith("podman ") and words in command]
    places = {"podman ": f"{containers.docker} ", "$HOME/ckpt/run:": f"{top}/socket:", "$HOME/ckpt/store:": f"{top}/store:",
              "deploy/kubernetes/seccomp/ckptd.json": profile}
    found = at(found, {**places, **options})
    done = subprocess.run(found, shell=True, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    equal(done.returncode, 0, f"{found}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout


def log(name):
    return containers("logs", name)


def start(number, steps, name=None):
    typed("--name rank0", **{"rank0": name or f"rank{number}", "CKPT_RANK=0": f"CKPT_RANK={number}", "--steps 400": f"--steps {steps} --stopped-status 75"})


def wait(name):
    return int(containers("wait", name, timeout=300).strip().splitlines()[-1])


def status(*prefix):
    return subprocess.run([*prefix, BIN / "ckpt", "status", "--json", "--socket", SOCKET], capture_output=True, text=True, timeout=60)


@case("ckptd and ranks as the page starts them: a killed rank comes back to memory, and one that is asked to stop saves")
def _():
    containers.programs("ckpt", BIN / "ckptd", BIN / "ckpt")
    containers.programs("train", BIN / "ckpt-train", folders=["/usr/share/common-licenses"])
    typed("--name ckptd")
    until(SOCKET.exists, "ckptd listens")
    found = {check["name"]: check["verdict"] for check in json.loads(typed("ckpt doctor", **{"/store": "/store --json || [ $? -eq 3 ]"}))["checks"]}
    equal({name: found[name] for name in ("arenas", "pidfd", "io_uring", "store-write")}, dict.fromkeys(("arenas", "pidfd", "io_uring", "store-write"), "fine"))
    for number in range(2):
        start(number, FOREVER)
    until(lambda: "durable" in log("ckptd"), "something is durable")
    containers("kill", "rank1")
    until(lambda: "has died" in log("ckptd"), "the loss is seen")
    start(1, FOREVER, "again")
    until(lambda: "2 ranks go on from memory" in log("rank0"), "both go on")
    containers("kill", "--signal", "TERM", "rank0")
    equal([wait("rank0"), wait("again")], [75, 75])
    step = int(re.search(r"final step=(\d+)", log("rank0")).group(1))
    for number in range(2):
        start(number, step + 50, f"last{number}")
    equal([wait("last0"), wait("last1")], [0, 0])
    has(log("last0"), f"at step {step}")
    equal(final(log("last0")), final(Run("-n", 2, "--", TRAIN, "--steps", step + 50).wait().out()))


@case("what it wrote belongs to the user, and to nobody of a number that only the container knows")
def _():
    written = [*(top / "store").rglob("*")]
    expect(any(path.suffix == ".safetensors" for path in written), written)
    equal({path.stat().st_uid for path in written}, {USER})


@case("the machine's root is not known in there: he cannot be told from others, and is refused")
def _():
    done = status()
    equal(done.returncode, 12, done.stdout + done.stderr)
    has(log("ckptd"), "is refused: it is user 65534 here, as is everyone whom this user namespace does not know")


status_ = cases.end()
containers.close()
sys.exit(status_)
