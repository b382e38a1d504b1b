"""demo_table.py RANK STEP: what scripts/demo has measured, from the reports in this directory, as verdicts and a table. Exit status 1
when a verdict is bad."""

import json
import pathlib
import statistics
import sys

BACK_AT_MOST_S = 5  # a second or two, and some patience for a busy machine

victim, step = int(sys.argv[1]), int(sys.argv[2])
bad = 0


def verdict(holds, text):
    global bad
    bad += not holds
    print(f"{'ok' if holds else 'NOT OK'}  {text}")


def lines(name):
    return [json.loads(line) for line in pathlib.Path(name).read_text().splitlines()]


def fingerprints(events):
    return sorted({event["params"] for event in events if event["event"] == "end"})


def number(value, unit="ms"):
    return "unknown" if value is None else f"{value:.1f} {unit}"


def table(rows):
    width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    for name, value, note in rows:
        print(f"{name:{width[0]}}  {value:>{width[1]}}  {note}".rstrip())


run, events = lines("disturbed.json")[0], lines("disturbed.jsonl")
end, other = fingerprints(events), fingerprints(lines("undisturbed.jsonl"))
verdict(len(end) == 1 and end == other, f"fingerprint of the parameters: {' '.join(end)} after the kill, "
        f"{' '.join(other)} undisturbed")

lost = [r for r in run["recoveries"] if r["what"] == "ranks"]
recovery = lost[0] if lost else {}
starts = run["ranks"][victim]["starts"]
verdict(run["fired"] == 1 and starts > 1 and lost, f"rank {victim} was killed and replaced ({starts} processes)")
verdict(recovery.get("source") == "memory", f"the state came from {recovery.get('source')}: the arena of the dead rank")
back = recovery.get("back_ms")
verdict(back is not None and back <= BACK_AT_MOST_S * 1000, f"all ranks were at work again after {number(back)}")

stalls = [event["begin_ms"] + event["fence_ms"] for event in events if event["event"] == "save" and event["result"] == "ok"]
skipped = sum(event["event"] == "save" and event["result"] != "ok" for event in events)
verdict(stalls, f"{len(stalls)} captures by {run['world']} ranks, {skipped} skipped because all slots were in use")

print(f"\n==== rank {victim} killed at step {step}")
table([
    ("detect", number(recovery.get("detect_ms")), "from SIGKILL until the new epoch was known"),
    ("decide", number(recovery.get("decide_ms")), "until the new process was started"),
    ("restore", number(recovery.get("restore_ms")), f"of step {recovery.get('restored_step')}, from {recovery.get('source')}"),
    ("back at work", number(back), "from SIGKILL until all ranks trained again"),
    ("steps lost", str(recovery.get("steps_lost")), ""),
    ("stall per save", number(statistics.median(stalls)) if stalls else "-",
     f"median of {len(stalls)}; the longest {number(max(stalls))}" if stalls else ""),
])
sys.exit(bool(bad))
