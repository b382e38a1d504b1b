"""Faults that ckpt run injects into ranks that know nothing of ckpt, and what it reports of them."""

import json
import re
import signal
import subprocess
import sys

from launcher import CKPT, Run, run, sh, tidy, top
from tap import BIN, Cases, equal, has

HANG_S = 6  # beside others a rank came to its collective 2 s after the first one, which was then named
cases = Cases(tidy)
case = cases.case


@case("faults come at their time and are counted")
def _():
    r = run("-n", 2, "--json", "--report", "report.json", "--inject", "kill:rank=1@t=2s,stop:rank=0:for=50ms@t=1s",
            "--inject", "abort:rank=0@t=600s", *sh("""
                [ $RANK = 0 ] || echo x >> runs
                until [ -s runs ] && [ $(wc -l < runs) = 2 ]; do sleep 0.02; done"""))
    document = json.loads(r.out())
    equal(document, json.loads((r.folder / "report.json").read_text()))
    equal([document[k] for k in ("schema", "command", "world", "exit", "injected", "fired", "restarts")],
          [1, "run", 2, 0, 3, 2, 1])
    equal([f["fired"] for f in document["faults"]], [True, True, False])
    equal(document["faults"][0]["fired_at_s"] >= 2, True)
    equal([rank["starts"] for rank in document["ranks"]], [1, 2])
    has(r.err(), "injected: kill:rank=1@t=2s (rank 1, process", "was killed by signal 9")


@case("a rank that waits in another collective than the others is named, with what it and they are in")
def _():
    r = run("-n", 3, "--json", "--hang-timeout", HANG_S, "--", BIN / "mismatched")
    found = re.search(r"rank 1 hangs: no heartbeat for ([\d.]+) s, last at step 5, in all_gather #7 of 512 bytes; rank \d and others "
                      r"are in reduce_scatter #7 of 4096 bytes: process \d+ is killed", r.err())
    equal(found is not None, True, r.err())
    equal(HANG_S <= float(found.group(1)) < 20, True, "not before the deadline, and soon after it")


@case("a rank that waits with another type than the others is named, with both types")
def _():
    r = run("-n", 3, "--json", "--hang-timeout", HANG_S, "--", BIN / "mismatched", "type")
    has(r.err(), "rank 1 hangs: no heartbeat", "last at step 5, in reduce_scatter #7 of 4096 bytes of BF16; rank ",
        " and others are in reduce_scatter #7 of 4096 bytes of F32: process ")


@case("with --json the ranks' stdout goes to stderr")
def _():
    r = run("-n", 2, "--json", *sh("echo out $RANK"))
    equal(json.loads(r.out())["exit"], 0)
    has(r.err(), "[0] out 0\n", "[1] out 1\n")
    r = run("--json", *sh("echo out"))
    equal(json.loads(r.out())["exit"], 0)
    has(r.err(), "out\n")


@case("a daemon that dies is started again")
def _():
    r = Run("--json", "--inject", "kill-daemon@t=50ms", *sh("trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"))
    r.until_err("was killed by signal 9 (Killed): it is started again")
    r.until("a second daemon", lambda: any(subprocess.run([CKPT, "status", "--socket", socket], capture_output=True).returncode == 0
                                           for socket in top.glob("ckpt-run-*/ckptd.sock")))
    r.child.send_signal(signal.SIGTERM)
    document = json.loads(r.wait().out())
    equal([document["daemon_starts"], document["fired"], document["restarts"]], [2, 1, 0])
    equal(document["recoveries"][0]["what"], "daemon")

sys.exit(cases.end())
