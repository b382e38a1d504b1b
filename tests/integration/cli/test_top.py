"""ckpt top: one picture without a terminal, and on one a screen of its own that is left as it was found."""

import json
import re
import signal
import subprocess
import sys

import single_node
from launcher import PACED, Run
from tap import BIN, DEADLINE, Cases, equal, expect, has, until
from terminal import ROWS, Terminal

cases = Cases()
case = cases.case
daemon = single_node.Daemon()


def top(*args, code=0):
    done = subprocess.run([BIN / "ckpt", "top", "--socket", daemon.socket, *args], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done.stdout, done.stderr


def terminal_with_top():
    return Terminal("top", "--socket", daemon.socket, "--interval", "200")


@case("without a daemon it ends with 12")
def _():
    has(top("--once", code=12)[1], "ckpt top:")


daemon.start()
ranks = Run("-n", 4, "--job", "gpt", "--socket", daemon.socket, "--inject", "kill:rank=1@step=30", "--", *PACED, "--steps", 100000,
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


@case("the error of a save is there to its end")
def _():
    (daemon.store / "gpt").rename(daemon.store / "aside")
    (daemon.store / "gpt").write_text("")
    def errors():
        job = next(job for job in json.loads(top("--json")[0])["jobs"] if job["name"] == "gpt")
        return [save["error"] for save in job["saves"]["recent"] if len(save["error"] or "") > 60]
    until(errors, "a failed save", pause=0.2)
    def rows():
        """Of saves: the health says the same error above them."""
        return [line for line in top("--once")[0].splitlines() if re.match(r" *\d+ +\d+  ", line)]
    until(lambda: {(row, error) for error in errors() for row in rows() if row.endswith(error)}, "one of the errors at the end of its row", pause=0.2)
    (daemon.store / "gpt").unlink()
    (daemon.store / "aside").rename(daemon.store / "gpt")


@case("on a terminal it goes on, fits, and q leaves it as it was")
def _():
    terminal = terminal_with_top()
    for _ in range(3):
        picture = terminal.picture("the job", lambda text: "gpt: running" in text)
    has(picture, "RANK", "SAVE")
    expect(picture.count("\n") < ROWS, f"{picture.count(chr(10))} lines: {picture}")
    terminal.press(b"xq")
    terminal.ended()


@case("so does an interrupt")
def _():
    terminal = terminal_with_top()
    terminal.picture("the job", lambda text: "gpt" in text)
    terminal.process.send_signal(signal.SIGINT)
    terminal.ended()


@case("a daemon that goes away is said, and comes back")
def _():
    terminal = terminal_with_top()
    terminal.picture("the job", lambda text: "gpt" in text)
    ranks.child.terminate()
    ranks.child.wait(DEADLINE)
    daemon.stop()
    terminal.picture("no daemon", lambda text: "ckptd n0" not in text and str(daemon.socket) in text)
    daemon.start()
    terminal.picture("the daemon", lambda text: "ckptd n0" in text)
    terminal.press(b"q")
    terminal.ended()


daemon.close()
sys.exit(cases.end())
