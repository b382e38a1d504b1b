"""ckpt run in the background, for tests that watch what it does with its ranks and its daemon."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from tap import BIN, DEADLINE, Failure, equal, expect, until

CKPT, TRAIN = str(BIN / "ckpt"), str(BIN / "ckpt-train")
# A trainer whose steps cost little: for tests that train for as long as something else takes, or look at how it trains only.
SMALL = ("--layers", "1", "--width", "32", "--seq", "8")
PACE = ("--pace", "15")
PACED = (TRAIN, *SMALL, *PACE)
PAUSE = 0.005  # seconds between two looks
top = pathlib.Path(tempfile.mkdtemp())
# Nothing of the caller's job, store or daemon.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_") and name != "XDG_RUNTIME_DIR"}
ENVIRONMENT["CKPT_DEVICE"] = "host"


@contextlib.contextmanager
def tidy():
    """Around a case: ckpt run removes its private directories."""
    yield
    equal(list(top.glob("ckpt-run-*")), [], "private directories left behind")


class Run:
    """ckpt run in the background, its output in files."""

    def __init__(self, *args, under=(), **env):
        """under: the words of a command that runs it."""
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=top))
        self.child = subprocess.Popen([*under, CKPT, "run", *map(str, args)], env=dict(ENVIRONMENT, TMPDIR=str(top), **env),
                                      cwd=self.folder, stdin=subprocess.DEVNULL, stdout=open(self.folder / "out", "wb"),
                                      stderr=open(self.folder / "err", "wb"))

    def out(self):
        return (self.folder / "out").read_text(errors="replace")

    def err(self):
        return (self.folder / "err").read_text(errors="replace")

    def wait(self, code=0):
        try:
            is_ = self.child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise Failure(f"still runs after {DEADLINE} s: {self.out()[-1000:]} {self.err()[-3000:]}")
        expect(is_ == code, f"exit code {is_}, not {code}: {self.out()[-1000:]} {self.err()[-3000:]}")
        return self

    def until(self, what, condition):
        """Waits for something that a rank or the launcher does."""
        limit = time.monotonic() + DEADLINE
        while not condition():
            ended = self.child.poll() is not None
            if (ended and not condition()) or time.monotonic() > limit:  # its last words may have come between the two looks
                self.child.kill()
                raise Failure(f"{what} did not come: {self.out()[-1000:]} {self.err()[-3000:]}")
            time.sleep(PAUSE)

    def until_out(self, *parts):
        self.until(f"{parts} on stdout", lambda: all(part in self.out() for part in parts))

    def until_err(self, *parts):
        self.until(f"{parts} on stderr", lambda: all(part in self.err() for part in parts))


def run(*args, code=0, **env):
    return Run(*args, **env).wait(code)


def sh(script):
    return "--", "sh", "-c", script


def gone(pid):
    """Whether the process has ended (a zombie has)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def environment_of(pid):
    """Nothing of one that has ended since it was listed: others start such processes, too."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def until_gone(*pids):
    until(lambda: all(gone(pid) for pid in pids), f"the end of {pids}", DEADLINE, PAUSE)


def final(text):
    """The line that ckpt-train ends with."""
    found = re.findall(r"final step=\d+ loss=\S+ params=\w+", text)
    equal(len(found), 1, text[-2000:])
    return found[0]


def own_socket():
    """That of the daemon of the only ckpt run that has one; None: not yet, or not while it is started again. One look: between two it may go."""
    return next(top.glob("ckpt-run-*/ckptd.sock"), None)


def listed(store):
    """The steps of the checkpoints in a store."""
    done = subprocess.run([CKPT, "list", "--repo", store, "--json"], capture_output=True, check=True)
    return [checkpoint["step"] for checkpoint in json.loads(done.stdout)["checkpoints"]]
