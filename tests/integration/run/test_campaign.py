"""ckpt campaign: a short one with all that holds, its report held against what it was made from, what is stopped and goes on, and what makes it fail.
timeout: 900"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from cluster import why_not
from launcher import CKPT, ENVIRONMENT, PACED, top
from tap import DEADLINE, Cases, equal, expect, has, until

OK, FAILED, USAGE, PARTIAL, CANCELLED = 0, 1, 2, 3, 130
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples" / "campaigns"
PAGE = EXAMPLES.parents[1] / "reference" / "campaign-report.md"
cases = Cases()
case = cases.case


def campaign(text, folder, *options, code=OK, command=PACED):
    file = top / f"{folder}.campaign"
    file.write_text(text)
    done = subprocess.run([CKPT, "campaign", "--json", "--dir", top / folder, *options, file, *command], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=2 * DEADLINE)
    equal(done.returncode, code, f"{done.stdout} {done.stderr}")
    return json.loads(done.stdout) if done.stdout else done.stderr


@case("the short example: all faults fire, and all that was promised holds")
def _():
    document = campaign(f"lasted 1h\n{(EXAMPLES / 'short.campaign').read_text()}", "short")
    equal([document["fired"], document["not_fired"], document["exit"]], [10, 0, 0])
    equal([(i["name"], i["held"]) for i in document["invariants"]],
          [(name, True) for name in ("durable", "intact", "restored", "parameters", "hangs", "left", "losses")])
    equal(document["params"], document["calm_params"])
    expect(all(i["looked_at"] for i in document["invariants"] if i["name"] != "losses"), "there was something to judge", document["invariants"])
    lines = [json.loads(line) for line in (top / "short" / "journal").read_text().splitlines()]
    equal([line["index"] for line in lines if line["event"] == "fault"], list(range(10)))
    events = [line["event"] for line in lines]
    equal([events.count(e) for e in ("started", "at-work", "stopped", "end", "judged")], [1, 1, 1, 1, 1])
    equal([events.index("started") < events.index("at-work") < events.index("fault"), events[-3:]], [True, ["stopped", "end", "judged"]])
    killed = next(line["wall_ns"] for line in lines if line.get("kind") == "kill-daemon")
    equal([line["answers"] for line in lines if line["event"] == "daemon"][0], True)
    equal([line["answers"] for line in lines if line["event"] == "daemon" and line["wall_ns"] > killed][:2], [False, True])
    equal([i["held"] for i in lines[-1]["invariants"]] + [lines[-1]["exit"]], [True] * 7 + [0])
    reports = [[json.loads(line) for line in (top / "short" / f"{name}.jsonl").read_text().splitlines()] for name in ("train", "calm")]
    equal([{line["rank"] for line in report if line["event"] == "end"} for report in reports], [{0, 1}, {0, 1}])
    expect(lines[0]["ranks"] == 2 and any("nan" in line.get("left", "") for line in reports[0]), "what was left, and why")
    has(campaign((EXAMPLES / "short.campaign").read_text(), "short", code=FAILED), "a campaign was here")


@case("spikes of the loss, also of a job that has just begun, are named, and change nothing")
def _():
    document = campaign("seed 5\nat 1ms loss-spike rank=1\nat 2ms loss-spike rank=0\nat 3ms kill\n", "spikes")
    equal([document["fired"], document["exit"]], [3, 0])
    equal({i["name"]: i["looked_at"] for i in document["invariants"]}["losses"], 2)
    report = json.loads((top / "spikes" / "report.json").read_text())
    equal([(f["kind"], f["end"], f["found"]["by"]) for f in report["faults"]],
          [("loss-spike", "found", "daemon")] * 2 + [("kill", "recovered", "daemon")])


@case("faults that are so many steps apart come when all ranks have made them since the one before")
def _():
    document = campaign("seed 3\nsave-storage-every 20\nafter 60 kill rank=0\nafter 90 exit-early rank=1\nafter 40 kill rank=1\n", "apart")
    equal([document["fired"], document["exit"]], [3, 0])
    report = json.loads((top / "apart" / "report.json").read_text())
    ways = [r for r in report["recoveries"] if not r["start"]]
    equal(len(ways), 3, ways)
    for before, after, apart in zip([{"step": 0}, *ways], ways, (60, 90, 40)):
        came = after["step"] + after["steps_lost"] - before["step"]
        expect(apart <= came, f"{came} steps between them, {apart} are due", ways)


@case("a disk that stalls, is slow, or changes what is written breaks no promise")
def _():
    document = campaign("seed 6\nsave-storage-every 4\nat 1ms disk-stall for=5s\nat 2ms disk-slow for=15s\nat 3ms disk-corrupt\n", "disks")
    equal([document["fired"], document["exit"]], [3, 0])
    report = json.loads((top / "disks" / "report.json").read_text())
    equal([(f["kind"], f["end"]) for f in report["faults"]][:2], [("disk-stall", "recovered"), ("disk-slow", "recovered")])


def lines(name):
    return [json.loads(line) for line in (top / "short" / name).read_text().splitlines()]


def fields(value, name=""):
    """The paths of all that is in the document, as its page writes them."""
    if isinstance(value, dict):
        return {path for key, v in value.items() for path in (fields(v, f"{name}.{key}" if name else key) or {f"{name}.{key}" if name else key})}
    if isinstance(value, list):
        return {path for v in value for path in fields(v, f"{name}[]")} or {name}
    return {name}


def near(value, due, text):
    """Figures are in whole milliseconds: the sum of five differs from that of what they are rounded from by 2.5 ms at most, and is held against a sixth."""
    expect(abs(value - due) < 0.0031, f"{text}: {value}, due {due}")


def started(journal):
    return next(line["wall_ns"] for line in journal if line["event"] == "started")


@case("the report of it is made at its end, again by ckpt report, and has the fields that its page has")
def _():
    report = json.loads((top / "short" / "report.json").read_text())
    done = subprocess.run([CKPT, "report", "--json", top / "short"], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal((done.returncode, done.stderr, json.loads(done.stdout)), (OK, "", report))
    rows = [row for row in re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text().split("## What became")[0], re.M)]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    page = top / "page.html"
    equal(subprocess.run([CKPT, "report", "--html", page, top / "short"], env=ENVIRONMENT, timeout=DEADLINE).returncode, OK)
    equal(page.read_text(), (top / "short" / "report.html").read_text())
    # a list or an object may be null, and is there beside what is in it
    leaves = [{name for name in names if not any(other.startswith((f"{name}.", f"{name}[]")) for other in names)} for names in (named, fields(report))]
    equal(leaves[0], leaves[1])
    text = subprocess.run([CKPT, "report", top / "short"], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE).stdout
    has(text, "10 of 10 faults caused", "what lasted 0.0 days: compressed 514 times by the file, ", "goodput ", "the model of ckpt plan says", "CAUSE", "kill-daemon")


@case("the report's faults are those of the journal, and each recovery is of the fault that led to it")
def _():
    report, journal, train = json.loads((top / "short" / "report.json").read_text()), lines("journal"), lines("train.jsonl")
    begin, caused = started(journal), [line for line in journal if line["event"] == "fault"]
    equal([(f["index"], f["kind"], f["rank"], f["fired"]) for f in report["faults"]],
          [(line["index"], line["kind"], line["rank"], True) for line in caused])
    ways = {epoch: [line for line in train if line["event"] in ("start", "recovery") and line["epoch"] == epoch]
            for epoch in {line["epoch"] for line in train if "epoch" in line}}
    equal([(r["epoch"], r["steps_lost"], r["step"]) for r in report["recoveries"]],
          [(epoch, max(line["steps_lost"] or 0 for line in way), way[0]["step"]) for epoch, way in sorted(ways.items())])
    for fault, line in zip(report["faults"], caused):
        near(fault["at_ms"], (line["wall_ns"] - begin) / 1e6, fault)
        recovery = fault["recovery"] is not None and report["recoveries"][fault["recovery"]]
        if fault["end"] == "overtaken":  # on a slow machine: by a rank's end that is nobody's fault, or by what the fault before it led to only then
            expect([r for r in report["recoveries"] if not r["start"] and r["seen_ms"] >= fault["at_ms"] and r["fault"] != fault["index"]], fault)
        elif fault["kind"] in ("kill", "absent", "exit-early", "nan", "flip"):
            equal((fault["end"], report["recoveries"].index(recovery), report["faults"][recovery["fault"]]), ("recovered", fault["recovery"], fault))
            way = ways[recovery["epoch"]]
            near(fault["back_after_ms"], (max(line["at_ns"] for line in way) - line["wall_ns"]) / 1e6, fault)
            expect(0 < fault["found"]["after_ms"] <= fault["back_after_ms"], fault)
            fresh, left = {w["rank"] for w in way if w["event"] == "start"}, " ".join(w.get("left", "") for w in way)
            if fault["kind"] in ("nan", "flip"):
                equal(fault["found"]["by"], "trainer")
                has(left, "the loss of step" if fault["kind"] == "nan" else "replicas differ")
            else:
                equal((fault["rank"] in fresh, fault["found"]["by"]), (True, "launcher" if fault["kind"] == "absent" else "daemon"))
        if fault["kind"] == "kill-daemon":
            again = next(x["wall_ns"] for x in journal if x["event"] == "daemon" and x["answers"] and x["wall_ns"] > line["wall_ns"])
            expect(fault["end"] == "recovered" and fault["back_after_ms"] >= (again - line["wall_ns"]) / 1e6 - 0.002, fault)
        if fault["kind"] == "disk-full":
            saves = [x for x in lines("spans") if x["span"] == "save" and x["target"] == "storage" and x["begun_ns"] > line["wall_ns"] - 1e9]
            expect(any(x["error"] == fault["found"]["text"] for x in saves), fault, saves)
            near(fault["back_after_ms"], min(x["begun_ns"] + x["durable_ns"] - line["wall_ns"] for x in saves if x["durable_ns"] and
                                             x["begun_ns"] + x["durable_ns"] > line["wall_ns"] + fault["found"]["after_ms"] * 1e6) / 1e6, fault)
    equal([r["start"] for r in report["recoveries"]], [True] + [False] * (len(report["recoveries"]) - 1))
    equal(report["totals"]["unexplained"], sum(r["fault"] is None for r in report["recoveries"][1:]))


@case("the report counts each second and each step once, and says what was judged")
def _():
    report, journal, train = json.loads((top / "short" / "report.json").read_text()), lines("journal"), lines("train.jsonl")
    begin, end = started(journal), next(line["wall_ns"] for line in journal if line["event"] == "stopped")
    goodput, totals = report["goodput"], report["totals"]
    near(goodput["elapsed_s"], (end - begin) / 1e9, "elapsed")
    near(sum(goodput[f"{part}_s"] for part in ("starting", "recovering", "saving", "repeated", "computing")), goodput["elapsed_s"], goodput)
    near(goodput["measured"], goodput["computing_s"] / (goodput["elapsed_s"] - goodput["starting_s"]), goodput)
    stalls = sum(line["begin_ms"] + line["fence_ms"] for line in train if line["event"] == "save")
    near(goodput["saving_s"], stalls / 2 / 1000, "the mean of two ranks")
    for name in ("formula", "simulated"):
        expect(0 < goodput[name] < 1, goodput)
    equal([totals[name] for name in ("caused", "fired", "steps", "durable", "steps_lost")],
          [10, 10, next(line["step"] for line in journal if line["event"] == "end"), sum(line["event"] == "durable" for line in journal),
           sum(r["steps_lost"] for r in report["recoveries"])])
    equal([sum(cause[name] for cause in report["causes"]) for name in ("faults", "fired")], [10, 10])
    equal(report["invariants"], journal[-1]["invariants"])
    for rank in report["timeline"]["ranks"]:
        near(sum(rank[f"{state}_s"] for state in ("starting", "computing", "saving", "recovering", "lost")), goodput["elapsed_s"], rank["rank"])
        times = [t for i in rank["intervals"] for t in (i["from_ms"], i["to_ms"])]
        expect(times == sorted(times) and 0 <= times[0] and times[-1] <= goodput["elapsed_s"] * 1000, times)
        lost = {i["from_ms"] for i in rank["intervals"] if i["state"] == "lost"}
        caused = sum(f["kind"] in ("kill", "absent", "exit-early") and f["rank"] == rank["rank"] for f in report["faults"])
        expect(len(lost) == caused or totals["unexplained"], lost, caused)
    waits = next(s for s in report["spreads"] if s["name"] == "save_stall")
    equal([waits["count"], sum(waits["bins"])], [sum(line["event"] == "save" for line in train)] * 2)


NODES = """seed 3
nodes 3
ranks 6
save-storage-every 4
hang-timeout 6s
at 1s kill rank=1
after 20 absent rank=4
at 2s kill-daemon node=0
at 2s kill-daemon node=2
at 2s flip-replica rank=3
at 3s disk-full node=1 for=1s
at 3s nan rank=5
"""


@case("on three nodes, which it makes: faults hit each of them, all holds, and its report has the nodes")
def _():
    document = campaign(NODES, "nodes")
    equal([document["fired"], document["not_fired"], document["exit"]], [7, 0, 0])
    expect(all(i["held"] and (i["looked_at"] or i["name"] == "losses") for i in document["invariants"]), document["invariants"])
    equal(document["params"], document["calm_params"])
    log = [(top / "nodes" / f"node-{node}.log").read_text() for node in range(3)]
    equal(["rank 4 hangs" in text for text in log], [False, False, True])
    told = [json.loads(line) for line in (top / "nodes" / "journal").read_text().splitlines() if '"standstill"' in line]
    # In the first steps of an epoch ckptd and the launchers have the same time, and either may be first. This is far behind them, however busy the machine is.
    expect({line["rank"] for line in told} <= {4}, "the daemons name it, or nobody", told)
    expect({line["node"] for line in told} == {0, 1, 2} and all(1700 < line["after_ms"] < 6000 for line in told), told)
    equal((top / "nodes" / "roster").read_text().split()[::2], ["node-0", "node-1", "node-2"])
    report = json.loads((top / "nodes" / "report.json").read_text())
    equal([(f["kind"], f["rank"], f["node"]) for f in report["faults"]],
          [("kill", 1, 0), ("absent", 4, 2), ("kill-daemon", 0, 0), ("kill-daemon", 0, 2), ("flip-replica", 3, 1), ("disk-full", 0, 1), ("nan", 5, 2)])
    equal(([rank["node"] for rank in report["timeline"]["ranks"]], report["campaign"]["nodes"]), ([0, 0, 1, 1, 2, 2], 3))
    expect({0, 2} <= {away["node"] for away in report["timeline"]["daemon_away"]}, report["timeline"]["daemon_away"])
    has((top / "nodes" / "report.html").read_text(), "6 ranks on 3 nodes", "<span>node-2</span>")


@case("a checkpoint that is taken out of the store of the nodes is missed")
def _():
    folder = top / "nodes"
    said = [line for line in map(json.loads, (folder / "journal").read_text().splitlines()) if line["event"] == "durable"][-1]
    (folder / "store" / "campaign" / f"step-{said['step']:012}.e{said['epoch']:04}").rename(folder / "away")
    document = campaign(NODES, "nodes", "--resume", code=FAILED)
    expect("durable" in [i["name"] for i in document["invariants"] if not i["held"]], document["invariants"])


TOGETHER = """nodes 3
ranks 6
save-storage-every 4
hang-timeout 4s
at 1s kill rank=1
with kill-daemon node=1
with absent rank=4
at 1s kill-node node=1
with kill rank=5
with disk-full node=0 for=8s
at 2s clock-jump node=2 for=2s
with kill rank=2
"""


@case("faults that come together come at once, whatever the job does about the first, and all that was promised holds")
def _():
    document = campaign(TOGETHER, "together")
    equal([document["fired"], document["exit"]], [8, 0])
    equal(document["params"], document["calm_params"])
    lines = [json.loads(line) for line in (top / "together" / "journal").read_text().splitlines()]
    faults = [line for line in lines if line["event"] == "fault"]
    equal([line["kind"] for line in faults], ["kill", "kill-daemon", "absent", "kill-node", "kill", "disk-full", "clock-jump", "kill"])
    for group in faults[:3], faults[3:6], faults[6:]:
        expect(all(line["wall_ns"] - group[0]["wall_ns"] < 3e9 for line in group), "the job was not waited for", group)


LOSSES = """nodes 3
ranks 6
save-storage-every 400
at 1s kill-node node=1
at 2s kill-node node=0 for=1s
at 3s kill-node node=2
"""


@case("nodes are killed, the first of them too: what they had in memory comes from their peers, and the report says which recovery was whose")
def _():
    document = campaign(LOSSES, "losses")
    equal([document["fired"], document["exit"]], [3, 0])
    equal(document["params"], document["calm_params"])
    lines = [json.loads(line) for line in (top / "losses" / "journal").read_text().splitlines()]
    events = [line["event"] for line in lines if line["event"] in ("replicated", "fault")]
    equal(events, ["replicated", "fault"] * 3, "what must survive stands before each loss")
    report = json.loads((top / "losses" / "report.json").read_text())
    equal([(f["kind"], f["node"], f["end"]) for f in report["faults"]], [("kill-node", node, "recovered") for node in (1, 0, 2)])
    recoveries = [report["recoveries"][fault["recovery"]] for fault in report["faults"]]
    equal([report["faults"][recovery["fault"]] for recovery in recoveries], report["faults"])
    sources = [recovery["source"] for recovery in recoveries]
    expect(set(sources) <= {"peer", "storage"} and "peer" in sources, "a node is rarely lost when the newest copy is on storage as well", sources)
    expect(report["faults"][1]["back_after_ms"] >= 1000, "it was away for the time that was given", report["faults"][1])
    has(report["recoveries"][report["faults"][0]["recovery"]]["reason"], "node node-1 is lost")


ELASTIC = """nodes 3
spares 1
ranks 4
hang-timeout 4s
at 1s kill rank=1
at 1s kill-node node=1
at 2s drain node=0 for=1s
with kill-daemon node=2
at 3s absent rank=3
at 3s drain
"""


@case("ranks go to a spare and from node to node; faults find them where they are, and not a bit differs")
def _():
    document = campaign(ELASTIC, "elastic", command=("--", *PACED))
    equal([document["fired"], document["exit"]], [6, 0])
    equal(document["params"], document["calm_params"])
    faults = [line for line in map(json.loads, (top / "elastic" / "journal").read_text().splitlines()) if line["event"] == "fault"]
    equal([line["kind"] for line in faults], ["kill", "kill-node", "drain", "kill-daemon", "absent", "drain"])
    drained = [line for line in faults if line["kind"] == "drain"]
    expect(drained[0]["ms"] >= 1000 and drained[0]["node"] == 0, drained)
    for line in drained:
        has(line["text"], f"node-{line['node']} had no ranks for {line['for_ms']} ms, and may have some again")
    log = (top / "elastic" / f"node-{faults[4]['node']}.log").read_text()
    has(log, "ckpt run: rank 3 hangs")
    equal(json.loads((top / "elastic" / "report.json").read_text())["campaign"]["nodes"], 3)


@case("with fewer ranks training goes on, and not a bit differs from as many ranks without faults; a drain that would leave too few is no success")
def _():
    text = "nodes 2\nranks 4\nmin-ranks 2\nat 500ms drain node=1 for=500ms\nat 1s kill-node node=0\n"
    document = campaign(text, "fewer")
    equal([document["fired"], document["exit"]], [2, 0])
    logs = "".join((top / "fewer" / f"node-{node}.log").read_text() for node in range(2))
    has(logs, ": 2 ranks go on from ", ": 4 ranks go on from ")
    equal(document["params"], document["calm_params"])
    has((top / "fewer" / "calm.log").read_text(), ": 4 ranks start at step 0", ": 2 ranks go on from storage")
    document = campaign("nodes 2\nranks 4\nmin-ranks 3\nat 500ms drain node=1\nat 1s kill rank=0\n", "few", code=PARTIAL)
    equal([document["fired"], document["not_fired"]], [1, 1])
    has((top / "few" / "journal").read_text(), "would have 2 ranks, and it needs 3")


def arenas_of(folder):
    """Descriptors of the memory that the daemon of the campaign in the folder shares with its ranks, opened here."""
    held = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not (path / "cmdline").read_bytes().split(b"\0")[0].endswith(b"ckptd") or os.fsencode(folder) not in (path / "cmdline").read_bytes():
                continue
            held += [os.open(fd, os.O_RDONLY) for fd in (path / "fd").iterdir() if os.readlink(fd).startswith("/memfd:ckpt:campaign")]
    return held


@case("shared memory that somebody has yet when all has ended is left behind")
def _():
    (top / "held.campaign").write_text("ranks 2\nat 1s kill rank=1\nat 9s kill rank=1\n")  # it goes on for long enough
    child = subprocess.Popen([CKPT, "campaign", "--json", "--dir", top / "held", top / "held.campaign", *PACED], env=ENVIRONMENT, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    journal = top / "held" / "journal"
    until(lambda: journal.exists() and '"event":"fault"' in journal.read_text(), "a fault has fired: a rank trains in each arena")
    held = arenas_of(top / "held")
    try:
        out, err = child.communicate(timeout=DEADLINE)
    finally:
        for fd in held:
            os.close(fd)
    equal(child.returncode, FAILED, err)
    broken = [i for i in json.loads(out)["invariants"] if not i["held"]]
    equal([i["name"] for i in broken], ["left"])
    has(broken[0]["text"], f"process {os.getpid()} has the shared memory /memfd:ckpt:campaign")


@case("one that is interrupted ends all that it made, and goes on from its journal")
def _():
    text = "ranks 2\nat 500ms kill rank=1\nat 1s kill rank=0\nat 600s kill rank=1\n"
    (top / "cut.campaign").write_text(text)
    child = subprocess.Popen([CKPT, "campaign", "--dir", top / "cut", top / "cut.campaign", *PACED], env=ENVIRONMENT, stderr=subprocess.PIPE)
    journal = top / "cut" / "journal"
    until(lambda: journal.exists() and journal.read_text().count('"event":"fault"') == 2, "two faults have fired")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=DEADLINE)
    equal(child.returncode, CANCELLED)
    equal(list((top / "cut").glob("s")), [], "the daemon has ended")
    with open(top / "cut" / "run.log", "a") as log:
        log.write("ckpt run: rank 0 hangs: as the log said before it was interrupted\n")
    document = campaign(text, "cut", "--resume")
    equal(document["fired"], 3)
    expect('"event":"named"' not in journal.read_text(), "what the log said before is noted again")
    has(campaign(text + "at 2s kill\n", "cut", "--resume", code=FAILED), "of another campaign")
    report = json.loads((top / "cut" / "report.json").read_text())
    equal(([r["start"] for r in report["recoveries"]].count(True), report["totals"]["recovered"]), (2, 3))


def daemons_of(folder):
    """The words with which each was started."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes().decode(errors="replace").split("\0")
            if words[0].endswith("ckptd") and any(word.startswith(str(folder)) for word in words):
                found.append(words)
    return found


@case("of several nodes, one of which is away when it is interrupted, it ends all, and goes on from its journal")
def _():
    text = "nodes 2\nranks 4\nhang-timeout 7s\nat 500ms kill-node node=1 for=600s\nat 1s kill rank=1\n"
    (top / "away.campaign").write_text(text)
    child = subprocess.Popen([CKPT, "campaign", "--dir", top / "away", top / "away.campaign", *PACED], env=ENVIRONMENT, stderr=subprocess.PIPE)
    journal = top / "away" / "journal"
    until(lambda: journal.exists() and journal.read_text().count('"event":"fault"') == 1, "the node is lost")
    equal([words[words.index("--hang-timeout") + 1] for words in daemons_of(top / "away")], ["7000ms"], "that of the launchers")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=2 * DEADLINE)  # its job has 90 s to end
    equal(child.returncode, CANCELLED)
    equal(list((top / "away").glob("*.s")), [], "the daemons have ended")
    document = campaign(text, "away", "--resume")
    equal([document["fired"], document["exit"]], [2, 0])


@case("a fault that does not fire, and a load that stays under its floor, are no success")
def _():
    document = campaign("ranks 2\nleast-steps 1000000000\nat 100ms kill rank=0\n", "idle", code=PARTIAL)
    equal([document["fired"], document["exit"]], [1, PARTIAL])


@case("what is wrong is named before anything starts")
def _():
    has(campaign("at 1s murder\n", "wrong", code=USAGE), ":1: a fault is wanted")
    has(campaign("at 1s kill-node\n", "wrong", code=USAGE), "flip-replica, power-cut, kill-node, drain and what breaks a network")
    has(campaign("at 1s kill\n", "none", "--resume", code=FAILED), "no campaign to go on with")
    equal([(top / "wrong").exists(), (top / "none").exists()], [False, False])
    done = subprocess.run([CKPT, "campaign", EXAMPLES / "short.campaign"], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, USAGE)
    has(done.stderr, "--dir DIR")


@case("the shipped tables are read, and what they leave out is said before the start")
def _():
    alone = [(377, "42 faults of the network are left out")] if why_not() else [(419, "419 faults in")]
    for name, faults, left_out in [("llama3-2024", 336, "83 more stand in its tables"), ("minder-2025", 173, "25 more stand in its tables"),
                                   *(("llama3-2024-nodes", *row) for row in alone)]:
        folder = top / name
        child = subprocess.Popen([CKPT, "campaign", "--dir", folder, EXAMPLES / f"{name}.campaign"], env=ENVIRONMENT, stderr=subprocess.PIPE,
                                 text=True)
        said = child.stderr.readline() + (child.stderr.readline() if left_out != f"{faults} faults in" else "")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=2 * DEADLINE)  # its job has 90 s to end
        equal(child.returncode, CANCELLED)
        has(said, f"{faults} faults in", left_out)


sys.exit(cases.end())
