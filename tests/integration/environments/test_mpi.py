"""mpirun of Open MPI: its ranks find the daemon and their numbers, and the same command after the loss of one goes on from memory."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from launcher import ENVIRONMENT, TRAIN, Run, final, gone
from pages import at, commands
from tap import BIN, DEADLINE, Cases, Failure, equal, expect, has, until

if not shutil.which("mpirun"):
    print("Open MPI is not installed: openmpi-bin")
    sys.exit(77)
cases = Cases()
case = cases.case
RANKS, STEPS = 4, 200
# It refuses root, and more ranks than cores, unless it is told.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def cwd_of(pid):
    """None of one that has ended since it was listed: other tests start such ranks, too."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/cwd")
    return None


class Shell:
    """The page's commands, one shell for all of them. ./train goes on for ever until it is told where to end."""

    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.steps = self.top / "steps"
        (self.top / "train").write_text(f"#!/bin/sh\nexec {TRAIN} --steps $(cat {self.steps})\n")
        (self.top / "train").chmod(0o755)
        self.out = self.top / "out"
        self.child = subprocess.Popen(["bash"], cwd=self.top, stdin=subprocess.PIPE, stdout=open(self.out, "wb"), stderr=subprocess.STDOUT, text=True,
                                      env={**ENVIRONMENT, **MPI, "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_CONFIG": "/dev/null"})

    def type(self, command):
        print(at(command, {"/scratch/me": self.top, "/tmp/me.sock": self.top / "s"}), file=self.child.stdin, flush=True)

    def text(self):
        return self.out.read_text(errors="replace")

    def until(self, *parts):
        try:
            until(lambda: all(part in self.text() for part in parts) or self.child.poll() is not None, parts)
        except Failure as late:
            raise Failure(f"{late} in {self.text()[-2000:]}") from None
        has(self.text(), *parts)

    def daemon(self):
        return int(subprocess.run(["pgrep", "-f", f"ckptd .*{self.top}/s"], capture_output=True, text=True).stdout.split()[0])

    def rank(self):
        """The process of one."""
        found = subprocess.run(["pgrep", "-f", f"^{TRAIN} "], capture_output=True, text=True).stdout.split()
        return next(int(pid) for pid in found if cwd_of(pid) == str(self.top))

    def step(self):
        with contextlib.suppress(OSError, ValueError):
            done = subprocess.run([BIN / "ckpt", "status", "--socket", self.top / "s"], capture_output=True, text=True)
            return max((int(n) for n in re.findall(r"^ +\d+  joined +\d+ +(\d+)", done.stdout, re.M)), default=0)
        return 0


@contextlib.contextmanager
def shell():
    it = Shell()
    try:
        yield it
    finally:
        daemon = it.daemon()
        it.child.stdin.close()
        os.kill(daemon, signal.SIGTERM)
        it.child.wait(DEADLINE)
        until(lambda: gone(daemon), "the daemon's end")


@case("what the page says is typed; a rank that dies ends mpirun, and its next start goes on from memory")
def _():
    undisturbed = final(Run("-n", RANKS, "--", TRAIN, "--steps", STEPS).wait().out())
    start, export, once, again = commands("run-under-mpi.md")
    with shell() as s:
        s.steps.write_text("1000000")
        for command in (start, export):
            s.type(command)
        until(lambda: (s.top / "s").exists(), "the daemon listens")
        s.type(f"{once}; echo mpirun ended with $?")
        s.until(f"{RANKS} ranks start at step 0")
        until(lambda: s.step() >= 20, "step 20")
        s.steps.write_text(str(STEPS))
        os.kill(s.rank(), signal.SIGKILL)
        s.until("mpirun noticed that process rank", "exited on signal 9 (Killed)", "mpirun ended with 137")
        s.type(f"{again}; echo all has been said")
        s.until(f"{RANKS} ranks go on from memory at step", "final step=", "all has been said")
        equal(final(s.text()), undisturbed)


@case("a rank that fails is started again by the page's loop")
def _():
    with shell() as s:
        s.steps.write_text("60")
        (s.top / "train").write_text(f"#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK != 1 ] || [ -e tried ] || {{ touch tried; exit 5; }}\nexec {TRAIN} --steps 60\n")
        start, export, _, again = commands("run-under-mpi.md")
        for command in (start, export, "until [ -S s ]; do sleep 0.05; done", again):
            s.type(command)
        s.until("non-zero", "final step=60")  # which of its two sentences mpirun says, depends
        expect((s.top / "tried").exists())


sys.exit(cases.end())
