"""demo_table.py "rank N"|node STEP: what scripts/demo has measured, from the reports in this directory, as checks and a table. Exit
status 1 when a check fails."""

import json
import pathlib
import statistics
import sys

BACK_AT_MOST_S = 5  # a second or two, and some patience for a busy machine
LEASE_S = 5  # more where another coordinator must be elected first: the lease of the former one ends, and etcd looks only every half second

lost, step = sys.argv[1], int(sys.argv[2])
bad = 0


def check(holds, text):
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


def rank_lost(victim):
    """Rows of the table."""
    run = lines("disturbed.json")[0]
    ranks = [r for r in run["recoveries"] if r["what"] == "ranks"]
    recovery = ranks[0] if ranks else {}
    starts, back = run["ranks"][victim]["starts"], recovery.get("back_ms")
    check(run["fired"] == 1 and starts > 1 and ranks, f"rank {victim} was killed and replaced ({starts} processes)")
    check(recovery.get("source") == "memory", f"the state came from {recovery.get('source')}: the arena of the dead rank")
    check(back is not None and back <= BACK_AT_MOST_S * 1000, f"all ranks were at work again after {number(back)}")
    return [("detect", number(recovery.get("detect_ms")), "from SIGKILL until the new epoch was known"),
            ("decide", number(recovery.get("decide_ms")), "until the new process was started"),
            ("restore", number(recovery.get("restore_ms")), f"of step {recovery.get('restored_step')}, from {recovery.get('source')}"),
            ("back at work", number(back), "from SIGKILL until all ranks trained again"),
            ("steps lost", str(recovery.get("steps_lost")), "")]


def node_lost(loss):
    """Rows of the table. Clocks of one machine: those of all its processes are one."""
    after = [e for e in events if e["event"] in ("start", "recovery") and e["epoch"] > 1]
    stayed = [e for e in after if e["event"] == "recovery"]
    came = [e for e in after if e["event"] == "start" and e["rank"] in loss["ranks"]]
    sources = sorted({e["source"] for e in came})
    ends = [(e["noticed_ns"] - loss["killed_ns"]) / 1e6 + e["total_ms"] for e in stayed]
    back = max(ends) if ends else None
    patience = BACK_AT_MOST_S + (LEASE_S if "successor" in loss else 0)
    check([e["rank"] for e in came] and sorted({e["rank"] for e in came}) == loss["ranks"],
            f"{loss['node']} was killed, and the spare runs its ranks: {' '.join(str(e['rank']) for e in came)}")
    # A new coordinator may first bring what is in memory to storage.
    where = {"peer": "the memory of another node", "storage": "where the new coordinator had brought what was in memory"}
    wanted = [["peer"], ["storage"]] if "successor" in loss else [["peer"]]
    check(sources in wanted, f"their state came from {' '.join(sources)}: {where.get(' '.join(sources), 'not what was wanted')}")
    check(back is not None and back <= patience * 1000, f"all ranks were at work again after {number(back)}")
    elected = []
    if "successor" in loss:
        check(loss["successor"] != loss["node"], f"{loss['node']} coordinated the job, and {loss['successor']} does since")
        elected = [("elected", number((loss["elected_ns"] - loss["killed_ns"]) / 1e6), "from SIGKILL until another node coordinated")]

    def longest(name):
        values = [e[name] for e in after if e[name] is not None]
        return number(max(values) if values else None)

    detect = min(((e["noticed_ns"] - loss["killed_ns"]) / 1e6 for e in stayed), default=None)
    return [*elected, ("detect", number(detect), "from SIGKILL until the first rank on another node knew"),
            ("decide", longest("decide_ms"), "until the last one knew the new epoch"),
            ("restore", longest("restore_ms"), f"of step {after[0]['step'] if after else '?'}, from {' '.join(sources)}, on the rank that took longest"),
            ("back at work", number(back), "from SIGKILL until all ranks that live trained again"),
            ("steps lost", str(max((e["steps_lost"] for e in stayed), default=None)), "")]


events = lines("disturbed.jsonl")
end, other = fingerprints(events), fingerprints(lines("undisturbed.jsonl"))
check(len(end) == 1 and end == other, f"fingerprint of the parameters: {' '.join(end)} after the kill, "
        f"{' '.join(other)} undisturbed")
if lost == "node":
    loss = lines("loss.json")[0]
    rows, what = node_lost(loss), loss["node"]
else:
    rows, what = rank_lost(int(lost.split()[1])), lost

stalls = [event["begin_ms"] + event["fence_ms"] for event in events if event["event"] == "save" and event["result"] == "ok"]
skipped = sum(event["event"] == "save" and event["result"] != "ok" for event in events)
check(stalls, f"{len(stalls)} captures, {skipped} skipped because all slots were in use")

print(f"\n==== {what} killed at step {step}")
table(rows + [("stall per save", number(statistics.median(stalls)) if stalls else "-",
               f"median of {len(stalls)}; the longest {number(max(stalls))}" if stalls else "")])
sys.exit(bool(bad))
