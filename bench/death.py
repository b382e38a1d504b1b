#!/usr/bin/env python3
"""bench/death.py [--runs N] [--deaths N] [--world N] [--seed N] [--dir DIR] [--programs DIR]

From the SIGKILL of a rank to the first new step of all ranks: ckpt run with ckpt-train on the host, saves to memory every 5 steps (large
state: every 2), a rank chosen at random killed at a random moment. --deaths: kills per run, one after the other. The state, over all
ranks, is what a save takes into memory: it is printed. With 64 MiB the median of the total may be at most 500 ms.

    detect   from the kill until the first rank notices it
    decide   from there until the last rank has been told of the new epoch
    replace  from the new epoch, as ckpt run hears of it, until the new process is started
    join     of the rank that takes longest, from its call until all have joined; waits for the start of the new process
    connect  the same, a new ring
    restore  the same, out of the arenas
    step     the same, the first new step
    total    from the kill until the last rank has done a new step
"""
import os
import random
import signal
import sys
import time

import node as nodes
from begin import percentile
from training import MODELS, Training

PARTS = ("detect", "decide", "replace", "join", "connect", "restore", "step", "total")
EVERY = {"demo": 5, "64 MiB": 2, "1 GiB": 2}
CEILING_MS = {"64 MiB": 500}


def kill_one(training, world, step, pick):
    """Kills a rank that has saved at that step or later; the parts of the recovery in milliseconds."""
    victim = pick.randrange(world)
    training.wait(lambda events: any(e["event"] == "save" and e["rank"] == victim and e["step"] >= step for e in events[-400:]),
                  f"step {step}")
    epoch = max(e["epoch"] for e in training.of("start") + training.of("recovery"))
    time.sleep(pick.random() * 0.02)  # not always at the same point of a step
    pid = [e["pid"] for e in training.events if e["rank"] == victim][-1]
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic_ns()

    def entered():
        return training.of("recovery", epoch=epoch + 1) + training.of("start", epoch=epoch + 1)
    training.wait(lambda _: len(entered()) == world, f"epoch {epoch + 1}")
    stayed = training.of("recovery", epoch=epoch + 1)
    if any(e["source"] != "memory" for e in entered()):
        raise nodes.Failed(f"restored from {[e['source'] for e in entered()]}")
    last = max(e["noticed_ns"] + e["total_ms"] * 1e6 for e in stayed)
    noticed = min(e["noticed_ns"] for e in stayed)
    told = max(e["noticed_ns"] + e["decide_ms"] * 1e6 for e in stayed)
    return entered()[0]["step"], {"detect": (noticed - killed) / 1e6, "decide": (told - noticed) / 1e6,
                                  "total": (last - killed) / 1e6,
                                  **{name: max(e[key] for e in entered()) for name, key in (
                                      ("join", "join_ms"), ("connect", "connect_ms"), ("restore", "restore_ms"),
                                      ("step", "first_step_ms"))}}


def measure(args, model):
    """{part: milliseconds of every death}, bytes of state"""
    pick, rows, state = random.Random(args.seed), [], 0
    every = EVERY[model]
    for _ in range(args.runs):
        options = ["--steps", "999999", "--save-memory-every", str(every), "--save-storage-every", "0", *MODELS[model]]
        with Training(args.programs, args.dir, args.world, options, ["--max-restarts", str(args.deaths)]) as training:
            step, mine = 0, []
            for _ in range(args.deaths):
                step, row = kill_one(training, args.world, step + every * pick.randint(2, 4), pick)
                mine.append(row)
            training.process.send_signal(signal.SIGTERM)
            recoveries = training.finish()["recoveries"]
            state = training.state_bytes()
            for row, r in zip(mine, recoveries, strict=True):
                row["replace"] = r["decide_ms"]
            rows += mine
    return {part: [row[part] for row in rows] for part in PARTS}, state


def main():
    parser = nodes.options(check=False, runs=20, deaths=1, world=4, seed=1)
    parser.add_argument("--model", choices=EVERY, action="append")
    args = parser.parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    for model in args.model or EVERY:
        found, state = measure(args, model)
        print(f"{model}: {state / 2 ** 20:.1f} MiB of state on {args.world} ranks, {len(found['total'])} deaths")
        for part, values in found.items():
            print(f"{model:6} {part:8} p50 {percentile(values, 0.5):.1f} ms, p90 {percentile(values, 0.9):.1f}, "
                  f"max {max(values):.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
