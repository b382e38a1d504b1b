"""Ranks and ckptd in containers of their own: other PID and mount namespaces, an ordinary user's rights, nothing in common but the folder of
the socket. The descriptors of arenas and the death of a rank come over it all the same."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from launcher import CKPT, ENVIRONMENT, TRAIN, Run, final
from tap import BIN, DEADLINE, Cases, equal, expect, has, until
from tree import stats

# As a pod or a rootless container has it: no capability, none to be had, and no other process in sight.
CONTAINER = ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "setpriv", "--bounding-set=-all", "--inh-caps=-all",
             "--no-new-privs")
if os.geteuid() or subprocess.run([*CONTAINER, "true"], capture_output=True).returncode:
    print("namespaces need root here")
    sys.exit(77)
release = tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
if release < (6, 9):
    print("pidfds of other PID namespaces need Linux 6.9")
    sys.exit(77)
cases = Cases()
case = cases.case
RANKS, FOREVER = 2, "1000000"


class Containers:
    def __init__(self, *under, bounds="-all"):
        """bounds: capabilities that ckptd's container may have."""
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.socket, self.children, self.bounds = self.top / "ckptd.sock", [], bounds
        self.start("ckptd", *under, "ckptd", "--socket", self.socket, "--store", self.top / "store")
        self.bounds = "-all"
        until(self.socket.exists, "the daemon listens")

    def start(self, name, *command, **env):
        """What unshare becomes is the container; its death is that of all in it."""
        with open(self.top / f"{name}.log", "ab") as log:
            place = [word.replace("set=-all", f"set={self.bounds}") if "bounding" in word else word for word in CONTAINER]
            child = subprocess.Popen([*place, *map(str, command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     env={**ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_CONFIG": "/dev/null", "CKPT_JOB": "job",
                                          "CKPT_SOCKET": str(self.socket), **env})
        self.children.append(child)
        return child

    def rank(self, number, steps, ranks=RANKS, *under):
        return self.start(f"rank{number}", *under, TRAIN, "--steps", steps, CKPT_RANK=str(number), CKPT_WORLD=str(ranks))

    def text(self, name):
        return (self.top / f"{name}.log").read_text(errors="replace")

    def until(self, name, *parts):
        until(lambda: all(part in self.text(name) for part in parts), f"{parts} in {self.top / name}.log")

    def close(self):
        for child in self.children:
            child.kill()
            child.wait()


@contextlib.contextmanager
def containers(*under, **how):
    it = Containers(*under, **how)
    try:
        yield it
    except Exception:
        for path in it.top.glob("*.log"):
            print(f"# ---- {path.name}\n" + "".join(f"# {line}\n" for line in path.read_text(errors="replace")[-1500:].splitlines()))
        raise
    finally:
        it.close()


@case("ranks in containers of their own train, and a killed one is seen at once and comes back to memory")
def _():
    with containers() as c:
        ranks = [c.rank(number, FOREVER) for number in range(RANKS)]
        c.until("ckptd", "step 50 epoch 1 durable")
        ranks[1].kill()
        c.until("ckptd", "rank 1 is lost: its process of another PID namespace has died")
        again = c.rank(1, FOREVER)
        c.until("rank0", f"epoch 2: {RANKS} ranks go on from memory")
        subprocess.run(["pkill", "-TERM", "-P", str(ranks[0].pid)], check=True)  # all end once one is asked to
        for child in (ranks[0], again):
            equal(child.wait(DEADLINE), 0)
        end = final(c.text("rank0"))
        steps = int(re.search(r"step=(\d+)", end).group(1))
        equal(end, final(Run("-n", RANKS, "--", TRAIN, "--steps", steps).wait().out()))


@case("ckpt run in the ranks' container, with the daemon of another: a rank that it kills is replaced")
def _():
    with containers() as c:
        run = c.start("run", CKPT, "run", "-n", RANKS, "--daemon", "external", "--inject", "kill:rank=1@step=40", "--", TRAIN, "--steps", "120")
        equal(run.wait(DEADLINE), 0, c.text("run"))
        has(c.text("run"), "restart 1 of 10", f"{RANKS} ranks go on from memory")
        equal(final(c.text("run")), final(Run("-n", RANKS, "--", TRAIN, "--steps", "120").wait().out()))


@case("a rank that is held by a living process of another container is refused, and the process is told of")
def _():
    with containers() as c:
        c.rank(0, FOREVER, 1)
        c.until("rank0", "start at step 0")
        equal(c.start("second", TRAIN, "--steps", "1", CKPT_RANK="0", CKPT_WORLD="1").wait(DEADLINE), 1)
        has(c.text("second"), "rank 0 of job 'job' is held by process of another PID namespace")


@case("ckpt status shows such ranks without a number")
def _():
    with containers() as c:
        c.rank(0, FOREVER, 1)
        c.until("rank0", "start at step 0")
        done = subprocess.run([CKPT, "status", "--socket", c.socket], capture_output=True, text=True, env=ENVIRONMENT)
        expect(re.search(r"^ +0  joined +0 ", done.stdout, re.M), done.stdout, done.stderr)


MEMORY = pathlib.Path("/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup")


def charged(group):
    return int(re.search(r"^shmem (\d+)$", (group / "memory.stat").read_text(), re.M).group(1))


MODEL = ("--width", "256", "--layers", "7", "--seq", "16", "--batch", "4")  # 64 MiB of state


def files(group):
    """Pages of files that no arena is."""
    found = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(found.get("cache", found.get("file"))) - charged(group)


def unpinned(group):
    """What the kernel itself holds for the group, queues and their tables of pages with it."""
    path = next(group / name for name in ("memory.kmem.usage_in_bytes", "memory.stat") if (group / name).exists())
    found = re.search(r"^(?:kernel )?(\d+)$", path.read_text(), re.M)
    return int(found.group(1)) if found else 0


def pinned(container):
    """Bytes that the kernel holds in place for its first process."""
    pid = subprocess.run(["pgrep", "-P", str(container.pid)], capture_output=True, text=True, check=True).stdout.split()[0]
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmPin:\s+(\d+) kB", status).group(1)) << 10


@case("arenas are charged to the control group that touches them first, and nothing of them a second time: neither what is pinned nor what is written")
def _():
    groups = [MEMORY / f"ckpt-test-{os.getpid()}-{who}" for who in ("ckptd", "rank")]
    try:
        for group in groups:
            group.mkdir()
            if not (group / "memory.stat").exists():
                return "control groups have no memory controller here"
    except OSError as error:
        return f"no control group can be made here: {error}"
    try:
        with containers("sh", "-c", f'echo $$ >{groups[0]}/cgroup.procs; exec "$@"', "sh", bounds="-all,+ipc_lock") as c:  # no limit of what is pinned
            c.start("rank0", "sh", "-c", f'echo $$ >{groups[1]}/cgroup.procs; exec "$@"', "sh", TRAIN, "--steps", FOREVER, "--save-storage-every", "10", *MODEL,
                    CKPT_RANK="0", CKPT_WORLD="1")
            c.until("ckptd", "step 10 epoch 1 durable", "step 20 epoch 1 durable")
            done = subprocess.run([CKPT, "status", "--json", "--socket", c.socket], capture_output=True, text=True, env=ENVIRONMENT)
            arenas = json.loads(done.stdout)["memory"]["used"]
            expect(arenas > 4 << 20, arenas)
            both = [charged(group) for group in groups]
            expect(arenas * 3 // 4 <= sum(both) < arenas * 5 // 4, both, "of", arenas)
            written = sum(stat.st_size for path, stat in stats(c.top / "store") if path.suffix == ".safetensors")
            left = [files(group) for group in groups]
            expect(written > 100 << 20 and sum(left) < written // 4, "pages of files:", left, "of", written)
            held, free = pinned(c.children[0]), sum(map(unpinned, groups))
            expect(0 < held < arenas * 5 // 4, "pinned:", held, "of arenas", arenas)
            expect(free < 16 << 20, "charged a second time:", free)
    finally:
        for group in groups:
            until(lambda g=group: not (g / "cgroup.procs").read_text(), "the end of all in the group")
            group.rmdir()
    return None


@case("a job that does not fit ckptd's control group is refused, and the group's limit is named")
def _():
    group = MEMORY / f"ckpt-test-{os.getpid()}-small"
    try:
        group.mkdir()
        limit = next((group / name for name in ("memory.max", "memory.limit_in_bytes") if (group / name).exists()), None)
        if not limit:
            return "control groups have no memory controller here"
        limit.write_text(str(64 << 20))
    except OSError as error:
        return f"no control group can be made here: {error}"
    try:
        with containers("sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh") as c:
            large = c.start("rank0", TRAIN, "--steps", "1", "--width", "512", CKPT_RANK="0", CKPT_WORLD="1")
            equal(large.wait(DEADLINE), 1)
            has(c.text("rank0"), "the limit of this node is 51.0 MiB, 80% of the 64.0 MiB of ckptd's control group")
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "the end of all in the group")
        group.rmdir()
    return None


sys.exit(cases.end())
