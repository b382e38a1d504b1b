#!/usr/bin/env python3
"""bench/faults.py [--seeds N] [--first N] [--faults N] [--steps N] [--programs DIR] [--dir DIR]

Runs of ckpt-train on the host, 4 ranks, through mixed faults: every seed draws 10 of them (kind, rank and step), and the run must end with
the bits of an undisturbed one. Prints what each seed drew when it fails, with what was said, and ends with status 1 then.

A fault that is drawn but that the run never reaches (its rank was killed for another in the same step) is counted, not hidden."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

# For a mean of 10: what costs seconds is drawn less often.
KINDS = {"kill": 4, "abort": 1, "trap": 2, "illegal-address": 1, "device-lost": 1, "nan": 3, "flip": 3, "mismatch": 2, "slow": 2,
         "kill-daemon": 1, "never-ends": 1, "absent": 1, "stop": 1}
WORLD, TIMEOUT = 4, 3
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
PLAIN["CKPT_DEVICE"] = "host"


def draw(seed, count, steps):
    """The faults of a seed, at distinct steps that leave room for a recovery."""
    pick = random.Random(seed)
    parts = []
    for step in sorted(pick.sample(range(6, steps - 5), count)):
        kind = pick.choices(list(KINDS), KINDS.values())[0]
        rank = "" if kind == "kill-daemon" else f":rank={pick.randrange(WORLD)}"
        span = ":for=20ms" if kind == "slow" else ":for=200ms" if kind == "stop" else ""
        parts.append(f"{kind}{rank}{span}@step={step}")
    return ",".join(parts)


def run(args, faults):
    """(the final line or None, the document or None, what was said)"""
    folder = pathlib.Path(tempfile.mkdtemp(dir=args.dir, prefix="faults-"))
    try:
        done = subprocess.run(
            [args.programs / "ckpt", "run", "-n", str(WORLD), "--json", "--store", folder / "store", "--max-restarts", "100", "--hang-timeout", str(TIMEOUT),
             *(["--inject", faults] if faults else []), "--", args.programs / "ckpt-train", "--steps", str(args.steps),
             "--save-memory-every", "4", "--save-storage-every", "20", "--timeout", str(TIMEOUT), "--healthy-after", "2"],
            env=dict(PLAIN, TMPDIR=str(folder)), capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired as late:
        return None, None, f"still runs after 120 s\n{(late.stderr or b'').decode()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = re.findall(r"final step=\d+ loss=\S+ params=\w+", done.stderr)
    document = json.loads(done.stdout) if done.stdout.startswith("{") else None
    return (found[-1] if found and done.returncode == 0 else None), document, done.stderr


def measure(args):
    """One row per seed: (seed, ends alike, fired, restarts, recoveries, seconds)."""
    reference = run(args, "")[0]
    if not reference:
        raise SystemExit("faults: the undisturbed run has failed")
    rows = []
    for seed in range(args.first, args.first + args.seeds):
        faults, from_ = draw(seed, args.faults, args.steps), time.monotonic()
        end, document, said = run(args, faults)
        row = (seed, end == reference, *(document[k] if document else 0 for k in ("fired", "restarts", "recovered")), time.monotonic() - from_)
        rows.append(row)
        if not row[1]:
            print(f"seed {seed}: {faults}\n  ended with {end}, not {reference}\n{said[-6000:]}", file=sys.stderr, flush=True)
    return rows


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=50)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--faults", type=int, default=10)
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--programs", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "build/release/bin")
    p.add_argument("--dir", default=None)
    return p.parse_args()


if __name__ == "__main__":
    given = options()
    given.programs = given.programs.resolve()
    table = measure(given)
    alike, fired = sum(r[1] for r in table), sum(r[2] for r in table)
    print(f"{alike} of {len(table)} seeds end with the bits of the undisturbed run; {fired} of {given.faults * len(table)} faults fired, "
          f"{sum(r[3] for r in table)} restarts, {sum(r[4] for r in table)} recoveries, {sum(r[5] for r in table):.0f} s")
    sys.exit(alike != len(table))
