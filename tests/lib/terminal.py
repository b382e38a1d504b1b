"""A command on a terminal of its own: the pictures that it draws there, and that it leaves the terminal as it was."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from tap import BIN, DEADLINE, Failure, equal, expect

ROWS, COLUMNS = 24, 100


class Terminal:
    """`ckpt` with these arguments on a pseudo terminal; it clears the screen before each picture."""

    def __init__(self, *args):
        self.text = ""
        self.main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.before = termios.tcgetattr(child)
        self.child = child
        self.process = subprocess.Popen([BIN / "ckpt", *args], stdin=child, stdout=child, stderr=child, env=dict(os.environ, TERM="xterm"))

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

    def press(self, keys):
        os.write(self.main, keys)

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


def drained(master):
    """All that was written to a terminal whose other side is closed."""
    text = b""
    while select.select([master], [], [], 0.2)[0]:
        try:
            text += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    return text.decode()
