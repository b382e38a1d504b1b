"""The commands of docs/tutorial/first-run.md, played in their order in two terminals, print what the page shows. Times, sizes, steps and
processes may be others; a command that names one by its number gets the number that was seen in its place."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from launcher import ENVIRONMENT
from tap import BIN, DEADLINE, Cases, Failure, equal, expect

TREE = pathlib.Path(__file__).resolve().parents[3]
PAGE = (TREE / "docs/tutorial/first-run.md").read_text()
FOLDER, PROGRAMS, HOST = "/tmp/ckpt-first", "$PWD/build/release/bin", "vm"  # on the page
PAUSE = 0.05  # seconds between two looks
ASKED_AGAIN = ("ckpt status", "ckpt list", "ckpt recoveries")  # until they show what the page does

MEASURE = r"(?:-|[\d.]+ ?(?:[nuµm]?s|min|h|B|[KMG]iB))"
VARIES = re.compile(rf"(?<= )(?P<measure>{MEASURE})(?=[ :;,]|$)|(?<=params=)(?P<digest>\w+)|(?P<number>\d+(?:\.\d+)*)")
FIXED = re.compile(r"(?:\[|ranks? |[Ee]poch |restart |of |signal |size )$")  # before a number that is as on the page


# ---- the page --------------------------------------------------------------------------------------------------------

def steps(page):
    """(terminal, command or None, lines that it prints): without a command they are what the first terminal prints by and by."""
    found, inside = [], False
    for line in page.split("\n"):
        typed = re.match(r" {4}(\d)\$ (.+)", line)
        if typed:
            found.append((int(typed[1]), typed[2], []))
        elif "Press Ctrl-C" in line:
            found.append((1, "^C", []))
        elif line.startswith("    "):
            if not inside:
                found.append((1, None, []))
            found[-1][2].append(line[4:])
        elif not line:
            continue
        inside = line.startswith("    ")
    return found


def pattern(line):
    """What prints as this line of the page does; a group for each number that may be another. And these numbers."""
    line, text, numbers, at = line.strip(), "", [], 0
    for m in VARIES.finditer(line):
        text += re.escape(line[at:m.start()])
        if m["measure"]:
            text += MEASURE
        elif m["digest"]:
            text += r"\w+"
        elif FIXED.search(line[:m.start()]) or line[m.end():].startswith(" ranks"):
            text += re.escape(m[0])
        else:
            text += r"(\d+(?:\.\d+)*)"
            numbers.append(m[0])
        at = m.end()
    return re.sub(r"(?:\\ )+", r"\\s+", text + re.escape(line[at:])).replace("…", ".*"), numbers


def compare(due, printed, in_turn, seen):
    """The first line of the page that was not printed, or None. seen: gets the numbers, those of the page and those that were printed.
    in_turn: nothing else was printed but where the page says "…"."""
    at, gap = 0, False
    for line in due:
        if line == "…":
            gap = True
            continue
        text, numbers = pattern(line)
        places = range(at if in_turn else 0, len(printed))
        if in_turn and not gap:
            places = places[:1]
        for place in places:
            match = re.fullmatch(text, printed[place].strip())
            if match:
                seen.update(zip(numbers, match.groups()))
                at, gap = place + 1, False
                break
        else:
            return line
    return None


# ---- the terminals ---------------------------------------------------------------------------------------------------

class Terminal:
    """What has been set in it, and what runs in it."""

    def __init__(self, top):
        self.top, self.set, self.child, self.shown = top, [], None, 0

    def lines(self):
        return [line for line in (self.top / "screen").read_text().split("\n")[self.shown:] if line.strip()]

    def start(self, command):
        self.end()
        self.child = subprocess.Popen(["bash", "-c", "\n".join([*self.set, command])], cwd=TREE, stdin=subprocess.DEVNULL, stdout=open(self.top / "screen", "wb"),
                                      stderr=subprocess.STDOUT, start_new_session=True,
                                      env=dict(ENVIRONMENT, TMPDIR=str(self.top), CKPT_NODE=HOST, LC_ALL="C.UTF-8"))
        self.shown = 0

    def end(self):
        if self.child and self.child.wait(DEADLINE) not in (0, 130, -signal.SIGINT):
            raise Failure(f"ended with {self.child.returncode}: {self.lines()[-20:]}")
        self.child = None

    def kill(self):
        if self.child and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)
            self.child.wait(DEADLINE)


def wait_for(terminal, due, seen):
    """The lines come, in any order among others: several processes write to that terminal."""
    limit = time.monotonic() + DEADLINE
    while (lacking := compare(due, terminal.lines(), False, seen)) is not None:
        expect(time.monotonic() < limit, f"{lacking!r} did not come: {terminal.lines()[-30:]}")
        time.sleep(PAUSE)
    terminal.shown += len((terminal.top / "screen").read_text().split("\n")[terminal.shown:]) - 1


def ask(terminal, command, due, seen):
    limit = time.monotonic() + DEADLINE
    while True:
        terminal.start(command)
        terminal.child.wait(DEADLINE)
        lacking = compare(due, terminal.lines(), True, seen)
        if lacking is None:
            return terminal.end()
        expect(command.startswith(ASKED_AGAIN) and time.monotonic() < limit, f"{command}: {lacking!r} is not in {terminal.lines()[-30:]}")
        time.sleep(PAUSE)


def play(top):
    seen, terminals = {}, {}
    for number in (1, 2):
        (top / str(number)).mkdir()
        terminals[number] = Terminal(top / str(number))
    try:
        for number, command, due in steps(PAGE):
            terminal = terminals[number]
            if command and command.startswith("scripts/"):
                expect((TREE / command.split()[0]).exists(), command)
                continue
            if command == "^C":
                os.killpg(terminal.child.pid, signal.SIGINT)  # what it prints from now on is for the next step
                continue
            if command:
                command = command.replace(FOLDER, str(top / "first")).replace(PROGRAMS, str(BIN))
                command = re.sub(r"\d{4,}", lambda m: seen.get(m[0], m[0]), command)
            if command and command.startswith(("cd ", "export ")):
                terminal.set.append(command)
            elif command and command.startswith("ckpt run"):
                terminal.start(command)
                wait_for(terminal, due, seen)
            elif command is None:
                wait_for(terminal, due, seen)
            else:
                ask(terminal, command, due, seen)
        terminals[1].end()
        expect(not (top / "first").exists(), "the page leaves its folder behind")
    finally:
        for terminal in terminals.values():
            terminal.kill()


# ---- cases -----------------------------------------------------------------------------------------------------------

cases = Cases()


@cases.case("what differs from the page is seen")
def _():
    page = "Text\n\n    1$ ckpt run x\n    rank 2 at step 300\n\nPress Ctrl-C in it:\n\n    end\n\n    2$ ls  a\n    …\n    took 1.5 ms, a  b\n\n    c -\n"
    equal(steps(page), [(1, "ckpt run x", ["rank 2 at step 300"]), (1, "^C", []), (1, None, ["end"]),
                        (2, "ls  a", ["…", "took 1.5 ms, a  b", "c -"])])
    seen = {}
    equal(compare(["rank 2 at step 300"], ["so", "rank 2 at step 45"], False, seen), None)
    equal(seen, {"300": "45"})
    for printed in ("rank 3 at step 300", "rank 2 at step x", "rank 2 at step 300 now"):
        equal(compare(["rank 2 at step 300"], [printed], True, {}), "rank 2 at step 300")
    equal(compare(["a", "b"], ["a", "c", "b"], True, {}), "b")
    equal(compare(["a", "…", "took 1.5 ms, b -"], ["a", "c", "took - , b 7 us"], True, {}), "took 1.5 ms, b -")
    equal(compare(["a", "…", "took 1.5 ms, b -"], ["a", "c", "took 12 s, b 7 us"], True, {}), None)


@cases.case("the page, played")
def _():
    top = pathlib.Path(tempfile.mkdtemp(prefix="f"))
    try:
        play(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)


sys.exit(cases.end())
