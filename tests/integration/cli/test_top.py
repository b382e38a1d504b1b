"""ckpt top: one picture without a terminal, and on one a screen of its own that is left as it was found."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import single_node
from launcher import TRAIN, Run
from tap import BIN, DEADLINE, Cases, Failure, equal, expect, has, until

ROWS, COLUMNS = 24, 100
cases = Cases()
case = cases.case
daemon = single_node.Daemon()


def top(*args, code=0):
    done = subprocess.run([BIN / "ckpt", "top", "--socket", daemon.socket, *args], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done.stdout, done.stderr


class Terminal:
    """ckpt top on a pseudo terminal."""

    def __init__(self):
        self.text = ""
        self.main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.before = termios.tcgetattr(child)
        self.child = child
        self.process = subprocess.Popen([BIN / "ckpt", "top", "--socket", daemon.socket, "--interval", "200"], stdin=child, stdout=child,
                                        stderr=child, env=dict(os.environ, TERM="xterm"))

    def picture(self, what, condition):
        """The first whole picture, of those that were not looked at yet, that is as wanted; without what drives the terminal."""
        limit = time.monotonic() + DEADLINE
        while time.monotonic() < limit:
            shown, more, rest = self.text.partition("\033[H\033[J")
            if not more:
                self.read(0.2)
                continue
            self.text = rest
            shown = re.sub(r"\033\[[?0-9;]*[a-zA-Z]", "", shown).replace("\r", "")
            if condition(shown):
                return shown
        raise Failure(f"no picture with {what}: {self.text[-1000:]!r}")

    def read(self, seconds):
        if select.select([self.main], [], [], seconds)[0]:
            self.text += os.read(self.main, 65536).decode(errors="replace")

    def ended(self):
        limit = time.monotonic() + DEADLINE
        while self.process.poll() is None and time.monotonic() < limit:
            self.read(0.1)  # a full terminal would keep it
        while select.select([self.main], [], [], 0)[0]:
            self.read(0)
        equal(self.process.returncode, 0)
        expect(self.text.endswith("\033[?7h\033[?25h\033[?1049l"), "the screen is given back", repr(self.text[-60:]))
        equal(termios.tcgetattr(self.child), self.before, "the terminal")
        os.close(self.main)
        os.close(self.child)


@case("without a daemon it ends with 12")
def _():
    has(top("--once", code=12)[1], "ckpt top:")


daemon.start()
ranks = Run("-n", 4, "--job", "gpt", "--socket", daemon.socket, "--inject", "kill:rank=1@step=30", "--", TRAIN, "--steps", 100000,
            "--save-memory-every", 5, "--save-storage-every", 20)
BARS = re.compile("[▁▂▃▄▅▆▇█]{5}")
until(lambda: all((lambda text: ("recovery" in text, "verified step" in text, BARS.search(text)))(top()[0])),
      "a recovery, a verified save, and some steps after it", pause=0.2)


@case("one picture shows health, levels, ranks, saves and recoveries")
def _():
    text, _ = top("--once")
    has(text, "ckptd n0", "ok", "gpt: running, 4 ranks, epoch 2", "captured step", "durable step", "verified step", "RANK", "joined",
        "from memory", "rank 1 is lost")
    expect(BARS.search(text), "step times", text)
    expect("\033" not in text, "sequences for a terminal", repr(text))


@case("as JSON it is the status")
def _():
    document = json.loads(top("--json")[0])
    equal([document["command"], document["jobs"][0]["name"]], ["top", "gpt"])


@case("on a terminal it goes on, fits, and q leaves it as it was")
def _():
    terminal = Terminal()
    for _ in range(3):
        picture = terminal.picture("the job", lambda text: "gpt: running" in text)
    has(picture, "RANK", "SAVE")
    expect(picture.count("\n") < ROWS, f"{picture.count(chr(10))} lines: {picture}")
    os.write(terminal.main, b"xq")
    terminal.ended()


@case("so does an interrupt")
def _():
    terminal = Terminal()
    terminal.picture("the job", lambda text: "gpt" in text)
    terminal.process.send_signal(signal.SIGINT)
    terminal.ended()


@case("a daemon that goes away is said, and comes back")
def _():
    terminal = Terminal()
    terminal.picture("the job", lambda text: "gpt" in text)
    ranks.child.terminate()
    ranks.child.wait(DEADLINE)
    daemon.stop()
    terminal.picture("no daemon", lambda text: "ckptd n0" not in text and str(daemon.socket) in text)
    daemon.start()
    terminal.picture("the daemon", lambda text: "ckptd n0" in text)
    os.write(terminal.main, b"q")
    terminal.ended()


daemon.close()
sys.exit(cases.end())
