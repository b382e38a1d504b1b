"""ckpt host run: a command that is attended by letters on stdin, and leaves nothing below it. Nightly also what a silent network leaves on a host.
timeout: 900"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from launcher import CKPT, ENVIRONMENT, gone, top
from tap import DEADLINE, NIGHTLY, Cases, equal, expect, until

MEMORY = top / "memory"
cases = Cases()
case = cases.case


def start(letter, *words, **env):
    return subprocess.Popen([CKPT, "host", "run", "abc-0", letter, MEMORY, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=dict(ENVIRONMENT, **env))


def with_grandchild(letter, traps):
    """A shell that has a process in a session of its own, which says so once the traps are set."""
    path = pathlib.Path(tempfile.mkdtemp(dir=top)) / "pid"
    child = start(letter, "sh", "-c", f"{traps}; setsid sh -c 'echo $$ > {path}; exec sleep 1000' & while :; do sleep 0.05; done")
    until(lambda: path.exists() and path.read_text().strip(), "the process that is to be left has begun")
    return child, int(path.read_text())


def ended(child, code):
    child.communicate(timeout=DEADLINE)
    equal(child.returncode, code)


@case("the command's status is passed on, and its environment is that of no other job")
def _():
    child = start("T", "A=b c", "sh", "-c", 'echo "$A,$CKPT_JOB,$CKPT_DEVICE,$CAMPAIGN_ON_HOST"; exit 7', CKPT_JOB="other")
    equal((child.stdout.read(), child.wait(DEADLINE)), ("b c,,host,abc-0\n", 7))  # its stdin stays open


@case("letters are signals, and what the command leaves does not outlive it")
def _():
    for letter, code in (("K", 128 + 9), ("T", 5), ("I", 6)):
        child, pid = with_grandchild("T", "trap 'exit 5' TERM; trap 'exit 6' INT")
        child.stdin.write(f"..{letter}")
        child.stdin.flush()
        until(lambda: child.poll() is not None, "it has ended")
        equal(child.returncode, code)
        equal(gone(pid), True)
        child.communicate(timeout=DEADLINE)


@case("who is left alone ends as it was told to")
def _():
    for letter, code in (("K", 128 + 9), ("T", 5)):
        child, pid = with_grandchild(letter, "trap 'exit 5' TERM")
        child.stdin.close()
        until(lambda: child.poll() is not None, "it has ended")
        equal(child.returncode, code)
        equal(gone(pid), True)


MAPS = """import mmap, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
held = mmap.mmap(file, 4096)
print("mapped", flush=True)
signal.pause()"""


def left():
    done = subprocess.run([CKPT, "host", "left", "abc-0", top / "no-socket", MEMORY], capture_output=True, text=True, env=ENVIRONMENT, timeout=2 * DEADLINE)
    return done.returncode, done.stdout


@case("what a rank has mapped is noted by a letter, and looked for when all has ended")
def _():
    path = pathlib.Path("/dev/shm") / f"host-{os.getpid()}"
    child = start("K", sys.executable, "-c", MAPS, path)
    try:
        equal(child.stdout.readline(), "mapped\n")
        expect(not MEMORY.exists(), "nobody has asked")
        child.stdin.write("N")
        child.stdin.flush()
        until(lambda: MEMORY.exists() and str(path) in MEMORY.read_text(), "it is noted")
        child.stdin.write("K")
        ended(child, 128 + 9)
        equal(left(), (3, f"the shared memory {path} is left behind\n"))
    finally:
        child.kill()
        path.unlink()
    equal(left(), (0, ""))


def nobody_speaks():
    """Both parts of a campaign that stand on a host, each with a way that is open and silent: a network that drops everything."""
    silence, promised = 300, 360  # HOST_SILENCE_NS; docs/reference/cli-operate.md
    child, pid = with_grandchild("T", "trap '' TERM")  # the slowest: SIGKILL has to end it
    bridge = subprocess.Popen([CKPT, "host", "bridge", top / "none"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    began = time.monotonic()
    for process, code in ((bridge, 0), (child, 128 + 9)):
        equal(process.wait(began + promised - time.monotonic()), code)
        equal(time.monotonic() - began > silence - 2, True)
        process.communicate()
    equal(gone(pid), True)


if NIGHTLY:
    case("who hears nothing for five minutes ends within six")(nobody_speaks)


@case("a command that is not there is an error")
def _():
    ended(start("T", os.path.join(top, "nothing")), 1)


sys.exit(cases.end())
