"""ckpt campaign: a short one with all that holds, what is stopped and goes on, and what makes it fail."""

import json
import pathlib
import signal
import subprocess
import sys

from launcher import CKPT, ENVIRONMENT, TRAIN, top
from tap import DEADLINE, Cases, equal, expect, has, until

OK, FAILED, USAGE, PARTIAL, CANCELLED = 0, 1, 2, 3, 130
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples" / "campaigns"
cases = Cases()
case = cases.case


def campaign(text, folder, *options, code=OK, command=()):
    file = top / f"{folder}.campaign"
    file.write_text(text)
    done = subprocess.run([CKPT, "campaign", "--json", "--dir", top / folder, *options, file, *command], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=2 * DEADLINE)
    equal(done.returncode, code, f"{done.stdout} {done.stderr}")
    return json.loads(done.stdout) if done.stdout else done.stderr


@case("the short example: all faults fire, and all that was promised holds")
def _():
    document = campaign((EXAMPLES / "short.campaign").read_text(), "short")
    equal([document["fired"], document["not_fired"], document["exit"]], [10, 0, 0])
    equal([(i["name"], i["held"]) for i in document["invariants"]],
          [(name, True) for name in ("durable", "restored", "parameters", "hangs", "left")])
    equal(document["params"], document["calm_params"])
    expect(all(i["looked_at"] for i in document["invariants"]), "there was something to judge", document["invariants"])
    lines = [json.loads(line) for line in (top / "short" / "journal").read_text().splitlines()]
    equal([line["index"] for line in lines if line["event"] == "fault"], list(range(10)))
    events = [line["event"] for line in lines]
    equal([events.count(e) for e in ("started", "at-work", "stopped", "end", "judged")], [1, 1, 1, 1, 1])
    equal([events.index("started") < events.index("at-work") < events.index("fault"), events[-3:]], [True, ["stopped", "end", "judged"]])
    killed = next(line["wall_ns"] for line in lines if line.get("kind") == "kill-daemon")
    equal([line["answers"] for line in lines if line["event"] == "daemon"][0], True)
    equal([line["answers"] for line in lines if line["event"] == "daemon" and line["wall_ns"] > killed][:2], [False, True])
    equal([i["held"] for i in lines[-1]["invariants"]] + [lines[-1]["exit"]], [True] * 5 + [0])
    reports = [[json.loads(line) for line in (top / "short" / f"{name}.jsonl").read_text().splitlines()] for name in ("train", "calm")]
    equal([{line["rank"] for line in report if line["event"] == "end"} for report in reports], [{0, 1}, {0, 1}])
    expect(lines[0]["ranks"] == 2 and any("nan" in line.get("left", "") for line in reports[0]), "what was left, and why")
    has(campaign((EXAMPLES / "short.campaign").read_text(), "short", code=FAILED), "a campaign was here")


@case("one that is interrupted ends all that it made, and goes on from its journal")
def _():
    text = "ranks 2\nat 500ms kill rank=1\nat 1s kill rank=0\nat 600s kill rank=1\n"
    (top / "cut.campaign").write_text(text)
    child = subprocess.Popen([CKPT, "campaign", "--dir", top / "cut", top / "cut.campaign"], env=ENVIRONMENT, stderr=subprocess.PIPE)
    journal = top / "cut" / "journal"
    until(lambda: journal.exists() and journal.read_text().count('"event":"fault"') == 2, "two faults have fired")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=DEADLINE)
    equal(child.returncode, CANCELLED)
    equal(list((top / "cut").glob("s")), [], "the daemon has ended")
    document = campaign(text, "cut", "--resume")
    equal(document["fired"], 3)
    has(campaign(text + "at 2s kill\n", "cut", "--resume", code=FAILED), "of another campaign")


@case("a fault that does not fire, and a load that stays under its floor, are no success")
def _():
    document = campaign("ranks 2\nleast-steps 1000000000\nat 100ms kill rank=0\n", "idle", code=PARTIAL)
    equal([document["fired"], document["exit"]], [1, PARTIAL])


@case("what is wrong is named before anything starts")
def _():
    has(campaign("at 1s murder\n", "wrong", code=USAGE), ":1: a fault is wanted")
    has(campaign("at 1s kill\n", "none", "--resume", code=FAILED), "no campaign to go on with")
    equal([(top / "wrong").exists(), (top / "none").exists()], [False, False])
    done = subprocess.run([CKPT, "campaign", EXAMPLES / "short.campaign"], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, USAGE)
    has(done.stderr, "--dir DIR")


@case("the shipped tables are read, and what they leave out is said before the start")
def _():
    for name, faults, left_out in (("llama3-2024", 336, 83), ("minder-2025", 173, 25)):
        folder = top / name
        child = subprocess.Popen([CKPT, "campaign", "--dir", folder, EXAMPLES / f"{name}.campaign"], env=ENVIRONMENT, stderr=subprocess.PIPE,
                                 text=True)
        said = child.stderr.readline() + child.stderr.readline()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=2 * DEADLINE)  # its job has 90 s to end
        equal(child.returncode, CANCELLED)
        has(said, f"{faults} faults in", f"{left_out} more stand in its tables")


sys.exit(cases.end())
