"""Power that is cut on purpose while a job saves: what was said to be durable is there, whole, and the job ends with the bits of a run without faults.
That a missing fsync is found by it is shown by planted bugs 79 and 87."""

import json
import re
import signal
import subprocess
import sys
import tempfile

import single_node
from launcher import CKPT, ENVIRONMENT, TRAIN, Run, top, until_gone
from tap import DEADLINE, Cases, equal, expect, has, until

OK, USAGE, FAILED = 0, 2, 1
LOST = re.compile(r"lost are (\d+) of (\d+) bytes in (\d+) files, and (\d+) of (\d+) changes of names")
CAMPAIGN = """seed 3
nodes 3
ranks 6
save-storage-every 2
hang-timeout 4s
at 1s power-cut node=0
at 2s power-cut node=1
at 3s power-cut node=0 for=1s
with kill rank=4
at 4s power-cut node=2
at 5s power-cut node=0
"""
cases = Cases()
case = cases.case


def ckpt(*args, code=OK):
    done = subprocess.run([CKPT, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, code, f"{args}: {done.stdout} {done.stderr}")
    return done.stdout if code == OK else done.stderr


def losses(text):
    found = LOST.search(text)
    expect(found, "it says what was lost", text)
    return list(map(int, found.groups()))


@case("nodes lose power while they save, the first one too: all that was promised holds, and not a bit differs")
def _():
    file, folder = top / "power.campaign", top / "power"
    file.write_text(CAMPAIGN)
    done = subprocess.run([CKPT, "campaign", "--json", "--dir", folder, file], capture_output=True, text=True, env=ENVIRONMENT, timeout=4 * DEADLINE)
    equal(done.returncode, OK, f"{done.stdout} {done.stderr}")
    document = json.loads(done.stdout)
    equal([document["fired"], document["not_fired"]], [6, 0])
    equal(document["params"], document["calm_params"])
    faults = [line for line in map(json.loads, (folder / "journal").read_text().splitlines()) if line["event"] == "fault"]
    cuts = [line for line in faults if line["kind"] == "power-cut"]
    equal([line["node"] for line in cuts], [0, 1, 0, 2, 0])
    for line in cuts:
        losses(line["text"])
        has(line["text"], f"all processes of node-{line['node']} have died")
    ends = {f["end"] for f in json.loads((folder / "report.json").read_text())["faults"] if f["kind"] == "power-cut"}
    expect("recovered" in ends and ends <= {"recovered", "overtaken"}, "the one that has company may be overtaken", ends)


@case("by hand: daemon, launcher and ranks end at once, and the store has what was durable, whole")
def _():
    daemon = single_node.Daemon(tempfile.mkdtemp(dir=top), options=("--faults",))
    daemon.start()
    run = Run("-n", 2, "--job", "gpt", "--socket", daemon.socket, "--", TRAIN, "--steps", 1000000, "--save-memory-every", 2,
              "--save-storage-every", 4)
    try:
        job = until(lambda: (found := daemon.job("gpt")) and found["saves"]["durable"]["step"] and found, "a save on storage")
        pids = [rank["pid"] for rank in job["ranks"]]
        has(ckpt("fault", "power-cut", "n0", "--socket", daemon.socket, code=USAGE), "takes no target")
        durable = daemon.job("gpt")["saves"]["durable"]
        said = ckpt("fault", "power-cut", "--seed", 1, "--socket", daemon.socket)
        has(said, "gpt: power-cut has fired")
        lost = losses(said)
        equal([lost[0], lost[3] <= lost[4]], [lost[1], True], "with this seed all bytes go")
        equal([daemon.process.wait(DEADLINE), run.child.wait(DEADLINE)], [-signal.SIGKILL] * 2)
        until_gone(*pids)
        daemon.start()
        listed = json.loads(ckpt("list", "--json", "--job", "gpt", "--repo", daemon.store))["checkpoints"]
        expect(any((c["step"], c["epoch"]) == (durable["step"], durable["epoch"]) for c in listed), durable, listed)
        ckpt("verify", "--all", "--job", "gpt", "--repo", daemon.store)
    finally:
        run.child.kill()
        run.child.wait(DEADLINE)
        daemon.close()


sys.exit(cases.end())
