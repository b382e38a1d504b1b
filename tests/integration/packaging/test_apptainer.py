"""Apptainer, as docs/howto/run-in-containers.md says: ckptd and ranks in containers of a user without rights, through a lost rank and a request to stop; and
with PID namespaces of their own. Nightly: a root file system is made for it."""
# timeout: 1200

import json
import os
import re
import signal
import subprocess
import sys

import apptainer
import podman
from launcher import BIN, TRAIN, Run, final
from pages import at, commands
from tap import NIGHTLY, Cases, equal, expect, has, until

USER = 54321
FOREVER = 1000000
why = None if NIGHTLY else "nightly: it makes a root file system of Debian's newest release"
why = why or podman.lacks(podman.ROOTLESS) or apptainer.lacks()
if why:
    print(why)
    sys.exit(77)
cases = Cases()
case = cases.case
containers = podman.Podman(USER)
folder = containers.top / "home"
(folder / "run").mkdir(mode=0o700)
(folder / "store").mkdir(mode=0o700)
for path in (folder / "run", folder / "store"):
    os.chown(path, USER, USER)
SOCKET = folder / "run" / "ckptd.sock"
its = apptainer.Apptainer(USER, folder)
running = []


def typed(words, **options):
    """The page's command that has these words, with our places. options: {word of the page: ours}."""
    (found,) = [command for command in commands("run-in-containers.md") if words in command and ("apptainer" in command or "docker save" in command)]
    return at(found, {"docker ": f"{containers.docker} ", "/run/ckpt/ckptd.sock": SOCKET, "/run/ckpt": folder / "run", "/ckpt": folder / "store",
                      **options})


def start(name, words, **options):
    log = folder / f"{name}.log"
    with open(log, "wb") as stream:
        running.append(its.spawn(f"exec {typed(words, **options)}" if words == "ckptd --socket" else typed(words, **options), stdout=stream))
    return running[-1], log


def rank(name, number, steps, **options):
    return start(name, "CKPT_RANK=0", **{"CKPT_RANK=0": f"CKPT_RANK={number}", "--steps 400": f"--steps {steps} --stopped-status 75", **options})


def ranks():
    """Their processes, as ckptd knows them."""
    done = its(f"apptainer --quiet exec --bind {folder}/run train.sif ckpt status --json --socket {SOCKET} 2>/dev/null")
    return {each["rank"]: each["pid"] for job in json.loads(done)["jobs"] for each in job["ranks"]}


@case("an image is made of that of docker")
def _():
    containers.programs("train", BIN / "ckptd", BIN / "ckpt", BIN / "ckpt-train", folders=["/usr/share/common-licenses"])
    done = subprocess.run(typed("docker save", **{"train.tar": folder / "train.tar"}), shell=True, capture_output=True, text=True, timeout=300)
    equal(done.returncode, 0, done.stderr)
    its(typed("apptainer build"))
    has(its("apptainer exec train.sif ckpt-train --help"), "--stopped-status")


@case("ckptd and ranks as the page starts them: a killed rank comes back to memory, and one that is asked to stop saves")
def _():
    _, daemon = start("ckptd", "ckptd --socket")
    until(SOCKET.exists, "ckptd listens")
    (_, first), _ = rank("rank0", 0, FOREVER), rank("rank1", 1, FOREVER)
    until(lambda: "durable" in daemon.read_text(), lambda: f"something is durable: {daemon.read_text()} {first.read_text()}")
    os.kill(ranks()[1], signal.SIGKILL)
    until(lambda: "has died" in daemon.read_text(), "the loss is seen")
    again, _ = rank("again", 1, FOREVER)
    until(lambda: "2 ranks go on from memory" in first.read_text(), "both go on")
    os.kill(ranks()[0], signal.SIGTERM)
    equal([running[1].wait(180), again.wait(180)], [75, 75])
    step = int(re.search(r"final step=(\d+)", first.read_text()).group(1))
    (zero, text), (one, _) = rank("last0", 0, step + 50), rank("last1", 1, step + 50)
    equal([zero.wait(180), one.wait(180)], [0, 0])
    has(text.read_text(), f"at step {step}")
    equal(final(text.read_text()), final(Run("-n", 2, "--", TRAIN, "--steps", step + 50).wait().out()))


@case("with a PID namespace and nothing of the environment (--containall), which the page says, it is the same")
def _():
    closed = {"CKPT_SOCKET=": "APPTAINERENV_CKPT_SOCKET=", "CKPT_JOB=gpt": "APPTAINERENV_CKPT_JOB=apart",
              "CKPT_WORLD=": "APPTAINERENV_CKPT_WORLD=", "apptainer exec": "apptainer exec --containall"}
    started = [rank(f"apart{number}", number, FOREVER, **closed, **{"CKPT_RANK=0": f"APPTAINERENV_CKPT_RANK={number}"}) for number in range(2)]
    daemon = folder / "ckptd.log"
    until(lambda: "job apart: step" in daemon.read_text() and "durable" in daemon.read_text().split("job apart: step", 1)[1], "something is durable")
    here = os.readlink("/proc/self/ns/pid")
    for pid in ranks().values():
        expect(os.readlink(f"/proc/{pid}/ns/pid") != here, "it has no PID namespace of its own")
        os.kill(pid, signal.SIGTERM)
    equal([process.wait(180) for process, _ in started], [75, 75])
    until(lambda: "job apart: ended" in daemon.read_text(), daemon.read_text)


if cases.failed:
    print("".join(f"# {path.name}: {line}\n" for path in folder.glob("*.log") for line in path.read_text(errors="replace")[-2000:].splitlines()))
status = cases.end()
for process in running:
    process.kill()
    process.wait()
its.close()
containers.close()
sys.exit(status)
