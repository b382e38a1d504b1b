#!/usr/bin/env python3
"""loop.py [--dir DIR] [--seconds N] [--no-fio] PROGRAMS: how long the daemon's loop is kept from its events while the disk is saturated.

Two ranks of 64 MiB save to storage without a pause, while fio writes and fsyncs beside them. Turns of the loop above 50 ms are told by
ckptd itself (CKPT_LOG=debug). Only those count that waited in the kernel: on a busy machine any turn may be long."""
import argparse
import os
import re
import subprocess
import sys
import time

import node as nodes


def saturate(folder, seconds):
    """fio beside the daemon: sequential direct writes, and small buffered ones with an fsync each, which keep the journal busy."""
    jobs = ["--name=stream", "--rw=write", "--direct=1", "--bs=4M", "--iodepth=32", "--ioengine=io_uring", "--size=2G",
            "--name=journal", "--rw=randwrite", "--bs=16k", "--fsync=1", "--ioengine=psync", "--size=64M", "--numjobs=2"]
    return subprocess.Popen(["fio", f"--directory={folder}", "--time_based", f"--runtime={seconds}", "--output=/dev/null", *jobs])


def measure(o):
    os.environ["CKPT_LOG"] = "debug"
    with nodes.Node(o.programs, o.dir, 2, ["--mib", "64", "--tensors", "64"], verify=True, slots=4) as node:
        load = None if o.no_fio else saturate(node.home, o.seconds + 2)
        times, step, end = [], 0, time.monotonic() + o.seconds
        while time.monotonic() < end:
            step += 1
            times.append(node.save(step, "storage")["durable"])
        if load:
            load.wait()
        with open(os.path.join(node.home, "ckptd.log")) as log:
            turns = [tuple(map(int, t)) for t in
                     re.findall(r"loop was kept for (\d+) ms, (\d+) ms of them at work, (\d+) waits: .* (-?\d+)$", log.read(), re.M)]
        return times, turns


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/tmp"))
parser.add_argument("--seconds", type=int, default=30)
parser.add_argument("--no-fio", action="store_true")
parser.add_argument("programs")
options = parser.parse_args()
if not sys.flags.interactive:
    saves, slow = measure(options)
    print(f"{len(saves)} saves, begin to durable {nodes.median(saves, 1e3, 0)} ms")
    blocked = [turn for turn in slow if turn[2]]
    print(f"turns above 50 ms: {len(slow)}; {len(blocked)} of them waited: {sum(t[0] for t in blocked)} ms in all, the longest "
          f"(ms, at work, waits, descriptor or -1 for the tick): {max(blocked, default='none')}")
