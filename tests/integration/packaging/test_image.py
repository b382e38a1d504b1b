"""The images of the Dockerfile: built of this tree from Debian's packages, and run in containers as docs/howto/run-in-containers.md says, through a lost
rank, a request to stop, and a limit of memory. Nightly: the build takes minutes."""
# timeout: 3600

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import podman
from launcher import TRAIN, Run, final
from pages import at, commands
from tap import NIGHTLY, Cases, equal, expect, has, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = "run-in-containers.md"
why = None if NIGHTLY else "nightly: it builds the tree in a container"
why = why or podman.lacks()
if why:
    print(why)
    sys.exit(77)
cases = Cases()
case = cases.case
docker = podman.Podman()
top = pathlib.Path(tempfile.mkdtemp())
STEPS, FOREVER = 400, 1000000


def typed(command, **options):
    """As the page has it, with our places. options: {word of the page: ours}."""
    words = at(command, {"/run/ckpt:": f"{top}/run:", "/ckpt:": f"{top}/store:", **options})
    done = subprocess.run(words, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=3000, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": f"{docker.docker.parent}:{os.environ['PATH']}"})
    equal(done.returncode, 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout


def said(what):
    """The page's command that has these words."""
    (found,) = [command for command in commands(PAGE) if what in command and command.startswith("docker ")]
    return found


def log(name):
    return docker("logs", name)


def start(number, steps, name=None):
    typed(said("--name rank0"), **{"rank0": name or f"rank{number}", "CKPT_RANK=0": f"CKPT_RANK={number}", "--steps 400": f"--steps {steps} --stopped-status 75"})


def wait(name):
    return int(docker("wait", name, timeout=300).strip().splitlines()[-1])


def charged(name):
    """(shared memory, cache of files) of a container."""
    stat = dict(line.split() for line in (docker.group(name) / "memory.stat").read_text().splitlines())
    shared, files = int(stat["shmem"]), int(stat.get("cache", stat.get("file")))
    return shared, files - shared


def pinned(name):
    """Bytes that the kernel holds in place for ckptd's queue."""
    pid = docker("inspect", "--format", "{{.State.Pid}}", name).strip()
    return int(re.search(r"VmPin:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) << 10


def status():
    return json.loads(docker("exec", "ckptd", "ckpt", "status", "--json", "--socket", "/run/ckpt/ckptd.sock"))


@case("both images are built of the tree, from Debian's packages alone")
def _():
    docker.debian()
    for command in (c for c in commands(PAGE) if c.startswith("docker build")):
        typed(command)
    has(docker("run", "--rm", "train", "ckpt-train", "--help"), "--stopped-status")
    equal(docker("run", "--rm", "ckpt", "id", "-u").strip(), "1000")


@case("ckptd and ranks as the page starts them: nothing is missing, a killed rank comes back to memory, and one that is asked to stop saves")
def _():
    for name in ("run", "store"):
        (top / name).mkdir()
        os.chown(top / name, 1000, 1000)
    top.chmod(0o755)
    typed(said("--name ckptd"))
    until(lambda: (top / "run" / "ckptd.sock").exists(), "ckptd listens")
    found = {check["name"]: check["verdict"] for check in json.loads(typed(said("ckpt doctor") + " --json || [ $? -eq 3 ]"))["checks"]}
    equal({name: found[name] for name in ("arenas", "pidfd", "io_uring", "store-write", "memory")},
          dict.fromkeys(("arenas", "pidfd", "io_uring", "store-write", "memory"), "fine"))
    for number in range(2):
        start(number, FOREVER)
    until(lambda: "durable" in log("ckptd"), "something is durable")
    daemon, ranks = charged("ckptd"), [charged(name) for name in ("rank0", "rank1")]
    arenas = status()["memory"]["used"]
    shared = daemon[0] + sum(rank[0] for rank in ranks)
    expect(arenas * 3 // 4 <= shared < arenas * 5 // 4, arenas, daemon, ranks)
    written = sum(path.stat().st_size for path in (top / "store").rglob("*.safetensors"))
    expect(daemon[1] < 32 << 20, "cache of files in ckptd's group", daemon, "of", written)
    expect(pinned("ckptd") <= arenas * 5 // 4, pinned("ckptd"), arenas)
    docker("kill", "rank1")
    until(lambda: "has died" in log("ckptd"), "the loss is seen")
    start(1, FOREVER, "again")
    until(lambda: "2 ranks go on from memory" in log("rank0"), "both go on")
    docker("kill", "--signal", "TERM", "rank0")
    equal([wait("rank0"), wait("again")], [75, 75])
    step = int(re.search(r"final step=(\d+)", log("rank0")).group(1))
    docker("rm", "rank0")
    for number in range(2):
        start(number, step + 50, f"last{number}")
    equal([wait("last0"), wait("last1")], [0, 0])
    has(log("last0"), f"at step {step}")
    equal(final(log("last0")), final(Run("-n", 2, "--", TRAIN, "--steps", step + 50).wait().out()))
    docker("rm", "--force", "--all", "--time", "0")


@case("a job that does not fit ckptd's container is refused, and the container's limit is named")
def _():
    typed(said("--name ckptd"), **{"--memory 64g": "--memory 64m"})
    until(lambda: (top / "run" / "ckptd.sock").exists(), "ckptd listens")
    docker("run", "--name", "large", "--user", "1000:1000", "-e", "CKPT_JOB=large", "-e", "CKPT_SOCKET=/run/ckpt/ckptd.sock", "-v", f"{top}/run:/run/ckpt", "train",
           "ckpt-train", "--width", "512", "--steps", "1", code=1)
    has(log("large"), "the limit of this node is 51.0 MiB, 80% of the 64.0 MiB of ckptd's control group")
    docker("rm", "--force", "--all", "--time", "0")


status_ = cases.end()
docker.close()
sys.exit(status_)
