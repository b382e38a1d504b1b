"""TAP for the tests in Python: cases that run although others failed, and what a case checks."""

import concurrent.futures
import contextlib
import os
import pathlib
import sys
import threading
import time

BIN = pathlib.Path(os.environ["CKPT_BUILD"])
NIGHTLY = bool(os.environ.get("CKPT_NIGHTLY"))
DEADLINE = 180  # seconds that anything may take, also under sanitizers, on two busy cores and a slow disk
PAUSE_MAX = 0.2  # seconds between two looks at what has no event, where a look takes as long
SHOWN = 3000  # characters of a text that a failure shows
BESIDE = 4  # cases that run side by side where a test lets them


class Failure(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise Failure(" ".join(str(w) for w in what))


def brief(value):
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN // 2]} … {text[-SHOWN // 2:]}"


def equal(is_, due, what=""):
    if is_ == due:
        return
    if isinstance(is_, set) and isinstance(due, set):
        raise Failure(f"{what}: without {brief(due - is_)}, but with {brief(is_ - due)}")
    if isinstance(is_, dict) and isinstance(due, dict):
        for key in sorted(set(is_) | set(due), key=str):
            if is_.get(key) != due.get(key):
                raise Failure(f"{what}: {key!r} is {brief(is_.get(key))}, not {brief(due.get(key))}")
    raise Failure(f"{what}: {brief(is_)}, not {brief(due)}")


def has(text, *parts):
    for part in parts:
        if part not in text:
            raise Failure(f"{part!r} is not in {str(text)[-SHOWN:]}")


def until(condition, what, seconds=DEADLINE, pause=0.02):
    """For what has no event: another process's files and sockets. Returns what the condition did. A look that takes long, such as one with a process
    of its own, is taken more rarely. what: a text, or what makes one when it has not come."""
    limit = time.monotonic() + seconds
    while (began := time.monotonic()) < limit:
        result = condition()
        if result:
            return result
        time.sleep(max(pause, min(time.monotonic() - began, PAUSE_MAX)))
    raise Failure(f"not within {seconds} s: {what() if callable(what) else what}")


class Cases:
    """Each case is a function; an exception fails it, a text that it returns is the reason why it was skipped."""

    def __init__(self, around=contextlib.nullcontext):
        """around: makes a context manager that each case runs in. What that yields the case is called with, unless it is None."""
        self.around, self.n, self.failed, self.lock = around, 0, 0, threading.Lock()

    def run(self, name, test, *args):
        try:
            with self.around() as given:
                why = test(*args) if given is None else test(given, *args)
            self.tell("ok", f"{name}{f' # SKIP {why}' if why else ''}")
        except Exception as error:  # the other cases run all the same
            self.tell("not ok", name, f"{type(error).__name__}: {error}")

    def run_beside(self, rows, count=BESIDE):
        """What run is called with, side by side, the longest first: for cases that wait most of their time and share nothing."""
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda row: self.run(*row), rows))

    def run_chosen(self, rows, why=None):
        """The rows whose name has the word of the command line in it, side by side; all without a word. why: none can run here, and the reason.
        Returns the exit status."""
        if why:
            print(f"1..0 # SKIP {why}")
            return 0
        self.run_beside([row for row in rows if len(sys.argv) < 2 or sys.argv[1] in row[0]])
        return self.end()

    def tell(self, word, name, why=""):
        with self.lock:
            self.n += 1
            self.failed += word != "ok"
            print("".join(f"# {line}\n" for line in why.splitlines()) + f"{word} {self.n} - {name}", flush=True)

    def case(self, name):
        """Runs the function below as the case of that name."""
        return lambda test: self.run(name, test)

    def end(self):
        """The exit status, after the plan."""
        print(f"1..{self.n}")
        return 1 if self.failed else 0
