#!/usr/bin/env python3
"""Runs all of CI under conditions in which a test that counts on a quiet machine, on a terminal or on one user would fail. Each run has a fresh clone
of HEAD and a log of its own.

    tests/conditions.py                 each condition once
    tests/conditions.py load load user  these, in this order

Prints for each run its condition, how long it took and its closing line. Exit code 1: a run failed. The condition "user" needs root."""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 3 * 3600
USER, GROUP = "nobody", "nogroup"


class Condition:
    """How a run differs from a quiet one: words before the command, variables, what its process does first, busy processes beside it, and
    whether it is another user's."""

    def __init__(self, says, prefix=(), env=None, first=None, spinners=0, as_user=False):
        self.says, self.prefix, self.env, self.first = says, list(prefix), env or {}, first
        self.spinners, self.as_user = spinners, as_user


CONDITIONS = {
    "quiet": Condition("nothing else runs"),
    "load": Condition("twice as many busy processes as processors", spinners=2 * (os.cpu_count() or 1)),
    "one": Condition("one processor", prefix=["taskset", "-c", "0"]),
    "hangup": Condition("SIGHUP is ignored", first=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)),
    "user": Condition("a user without privileges", as_user=True,
                      prefix=["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups"]),
    "mask": Condition("new files are private", first=lambda: os.umask(0o077)),
    "descriptors": Condition("at most 1024 open files", prefix=["prlimit", "--nofile=1024:4096"]),
    "elsewhere": Condition("another time zone, no locale", env={"TZ": "Pacific/Chatham", "LC_ALL": "C"}),
}


@contextlib.contextmanager
def spinning(count):
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def prepare(condition, folder):
    """A clone, and the environment of the run."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "clone"], check=True)
    env = dict(os.environ, CI="true", **condition.env)
    if condition.as_user:
        (folder / "tmp").mkdir()
        subprocess.run(["chown", "-R", f"{USER}:{GROUP}", folder], check=True)
        # Not what is root's own: a search that meets a folder without access ends with that as its error.
        path = [entry for entry in env["PATH"].split(":") if not entry.startswith(str(pathlib.Path.home()) + "/")]
        env |= {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "CCACHE_DIR": str(folder / "ccache"), "PATH": ":".join(path)}
    return env


def closing_line(log):
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def run(condition, log):
    """Its closing line."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="conditions-"))
    try:
        env = prepare(condition, folder)
        with spinning(condition.spinners), open(log, "wb") as out:
            child = subprocess.Popen([*condition.prefix, folder / "clone" / ".ci" / "run"], cwd=folder / "clone", env=env,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, preexec_fn=condition.first,
                                     start_new_session=True)
            try:
                child.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                return f"it ran past {LIMIT} s"
        return closing_line(log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Runs all of CI under several conditions.")
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "conditions", help="where the logs are kept (%(default)s)")
    parser.add_argument("names", nargs="*", metavar="CONDITION", default=list(CONDITIONS), help=", ".join(CONDITIONS))
    args = parser.parse_args()
    for name in args.names:
        if name not in CONDITIONS:
            parser.error(f"'{name}' is not one of {', '.join(CONDITIONS)}")
    args.logs.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number, name in enumerate(args.names, 1):
        begun = time.monotonic()
        line = run(CONDITIONS[name], args.logs / f"{number:02}-{name}.log")
        good = re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", line)
        failed += not good
        print(f"{'ok' if good else 'FAIL':4} {name}: {CONDITIONS[name].says}, {time.monotonic() - begun:.0f} s: {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
