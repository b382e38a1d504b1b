#!/usr/bin/env python3
"""bench/list.py [--count N] [--rounds N] [--dir DIR] [--programs DIR] [--check]

ckpt list of a store with N checkpoints, as a whole process:

    warm    a daemon has noted in its catalog what lists say                             floor: at most 100 ms
    looked  without the catalog: MANIFEST.json and the marks of each are opened
    cold    the same with nothing of the disk in memory (root only)
"""
import contextlib
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

import node as nodes

FLOOR_MS = 100
OLD_S = 3  # what changed less than two seconds before it was noted is looked at


def make(args, store):
    """Small ones: of a checkpoint's files a list sees the number."""
    subprocess.run([os.path.join(args.programs, "make_store"), store, "1", "--count", str(args.count), "--rows", "1", "--cols", "1"],
                   check=True)


def noted(store):
    with contextlib.closing(sqlite3.connect(f"file:{store}/catalog.sqlite?mode=ro", uri=True)) as catalog:
        return catalog.execute("SELECT count(*) FROM listing").fetchone()[0]


def note(args, home, store):
    time.sleep(OLD_S)
    with open(os.path.join(home, "log"), "w") as log:
        daemon = subprocess.Popen([os.path.join(args.programs, "ckptd"), "--store", store, "--socket", os.path.join(home, "socket"),
                                   "--node", "bench"], stderr=log)
    limit = time.monotonic() + nodes.DEADLINE
    catalog = os.path.join(store, "catalog.sqlite")
    while not os.path.exists(catalog) or noted(store) < args.count:
        if daemon.poll() is not None or time.monotonic() > limit:
            raise nodes.Failed("the daemon has not filled its catalog")
        time.sleep(0.1)
    daemon.terminate()
    daemon.wait(30)


def lists(args, store):
    """Milliseconds."""
    begun = time.monotonic()
    out = subprocess.run([os.path.join(args.programs, "ckpt"), "list", "--repo", store], capture_output=True, check=True).stdout
    took = (time.monotonic() - begun) * 1e3
    shown = len(out.splitlines()) - 1
    if shown != args.count:
        raise nodes.Failed(f"{shown} checkpoints are listed")
    return took


def forget_disk():
    subprocess.run(["sync"], check=True)
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    except OSError:
        return False
    return True


def measure(args):
    """Milliseconds of each list: warm, looked, cold."""
    home = tempfile.mkdtemp(prefix="ckpt-bench-", dir=args.dir)
    store = os.path.join(home, "store")
    try:
        make(args, store)
        note(args, home, store)
        lists(args, store)
        warm = [lists(args, store) for _ in range(args.rounds)]
        os.unlink(os.path.join(store, "catalog.sqlite"))
        looked = [lists(args, store) for _ in range(args.rounds)]
        cold = [lists(args, store) for _ in range(3) if forget_disk()]
        return warm, looked, cold
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main():
    args = nodes.options(count=10000, rounds=20).parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    warm, looked, cold = measure(args)
    for name, values in (("warm", warm), ("looked", looked), ("cold", cold)):
        if values:
            print(f"{name:7} {nodes.median(values, digits=0)} ms")
    missed = statistics.median(warm) > FLOOR_MS
    if missed:
        print(f"above {FLOOR_MS} ms")
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
