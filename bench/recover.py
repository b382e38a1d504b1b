#!/usr/bin/env python3
"""bench/recover.py [--mib N] [--rounds N] [--dir DIR] [--programs DIR] [--beside DIR] [--check]

ckpt_restore as a rank sees it, from the call to the last byte in its memory, checked on every hop, with a real ckptd: out of the
arena (as after the loss of another rank), and from storage through the arena, against fio's sequential direct read of the same
files before and after. Contents are compared with what was saved.

    memory   the step stands in the arena: its digests are checked, then it is copied and checked where it arrives
    storage  the step is read from the files into the arena, checked, then as above      floor 0.90
    4 to 3   storage, rows of 4 ranks into rows of 3                                     floor 0.60
    columns  storage, rows of 4 ranks into columns of 4                                  floor 0.60

early: the part of the bytes that were loaded while others were still fetched. --beside DIR: the programs of another build, whose
restores take turns with these: the first two, by one rank, times theirs to ours; nothing else is measured.

--check: exit 1 when a median is below its floor. Needs four times the state in memory."""
import contextlib
import glob
import os
import shutil
import statistics
import sys
import tempfile

import node as nodes

SEED = 7
KEPT = 5  # memory saves after which the slot of the step on storage has been given back
FLOORS = {"storage": 0.90, "4 to 3": 0.60, "columns": 0.60}


def read_files(node):
    files = sorted(glob.glob(os.path.join(node.store, "bench", "step-*", "*.safetensors")))
    sizes = [os.path.getsize(f) // (8 << 20) * (8 << 20) for f in files]
    return nodes.fio(node.store, [os.path.relpath(f, node.store) for f in files], sizes, "--rw=read", "--readonly",
                     "--file_service_type=sequential")


def restore(node, step, source):
    node.all("fill 99")
    t = node.restore(step)
    if t["source"] != source:
        raise nodes.Failed(f"step {step} came from {t['source']}, not from {source}")
    if node.all(f"check {SEED}") != [["same"]] * node.world:
        raise nodes.Failed("other bytes came back than were saved")
    return t


def measure(args, world):
    rows = {"memory": [], "storage": []}
    with nodes.Node(args.programs, args.dir, world, ["--mib", str(args.mib)]) as node:
        node.all(f"fill {SEED}")
        node.save(1, "storage")
        step = 1
        for _ in range(args.rounds):
            before = read_files(node)
            for _ in range(KEPT):
                step += 1
                node.save(step, "memory")
            rows["storage"].append((restore(node, 1, "storage"), before, read_files(node)))
            step += 1
            node.save(step, "memory")
            rows["memory"].append((restore(node, step, "memory"), before, before))
        return node.bytes, rows


def beside(args):
    """Both have the same state in memory and on storage."""
    rows = {"memory": [], "storage": []}
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(nodes.Node(programs, args.dir, 1, ["--mib", str(args.mib)])) for programs in (args.programs, args.beside)]
        for node in both:
            node.all(f"fill {SEED}")
            node.save(1, "storage")
        for i in range(args.rounds):
            for node in both:
                for step in range(KEPT):
                    node.save(2 + i * (KEPT + 1) + step, "memory")
            rows["storage"].append([restore(node, 1, "storage") for node in both])
            for node in both:
                node.save((i + 1) * (KEPT + 1) + 1, "memory")
            rows["memory"].append([restore(node, (i + 1) * (KEPT + 1) + 1, "memory") for node in both])
    for kind, runs in rows.items():
        ours, theirs = ([run[which] for run in runs] for which in (0, 1))
        print(f"{kind:8} {args.mib} MiB: theirs to ours {nodes.median([b['took_ns'] / a['took_ns'] for a, b in runs])}; "
              f"ours {nodes.median([t['took_ns'] for t in ours])} s (node {nodes.median([t['fetch_ns'] for t in ours])}, "
              f"early {nodes.median([t['early'] for t in ours])}), theirs {nodes.median([t['took_ns'] for t in theirs])} s "
              f"(node {nodes.median([t['fetch_ns'] for t in theirs])}, rank {nodes.median([t['load_ns'] for t in theirs])})", flush=True)


def measure_relaid(args):
    """What 4 ranks saved in rows, through a daemon with other ranks."""
    rows, store = {}, tempfile.mkdtemp(prefix="ckpt-bench-store-", dir=args.dir)
    try:
        with nodes.Node(args.programs, args.dir, 4, ["--mib", str(args.mib)], store=store) as node:
            node.all(f"fill {SEED}")
            node.save(1, "storage")
        for name, world, more in (("4 to 3", 3, []), ("columns", 4, ["--columns"])):
            with nodes.Node(args.programs, args.dir, world, ["--mib", str(args.mib), *more], store=store) as node:
                rows[name] = []
                for i in range(args.rounds):
                    for step in range(KEPT if i else 0):  # a new node has nothing in memory
                        node.save(2 + i * KEPT + step, "memory")
                    before = read_files(node)
                    rows[name].append((restore(node, 1, "storage"), before, read_files(node)))
                size = node.bytes
    finally:
        shutil.rmtree(store, ignore_errors=True)
    return size, rows


def ratios_of(size, runs):
    return [size / t["took_ns"] / ((b + a) / 2) for t, b, a in runs]


def show(size, world, rows):
    """Prints a line for each kind; returns those that miss their floor."""
    low = []
    for kind, runs in rows.items():
        ratios = ratios_of(size, runs)
        took, fetch, load, early = ([t[key] for t, _, _ in runs] for key in ("took_ns", "fetch_ns", "load_ns", "early"))
        print(f"{kind:8} {world}, {size >> 20} MiB: {nodes.median(took)} s (node {nodes.median(fetch)}, then rank {nodes.median(load)}, "
              f"early {nodes.median(early)}), "
              f"ratio to fio {nodes.median(ratios)}", flush=True)
        if statistics.median(ratios) < FLOORS.get(kind, 0):
            low.append(f"{kind}, {world}")
    return low


def main():
    parser = nodes.options(mib=4096, rounds=3)
    parser.add_argument("--beside")
    args = parser.parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    if args.beside:
        beside(args)
        return 0
    low = []
    for world in (1, 4):
        size, rows = measure(args, world)
        low += show(size, f"{world} rank(s)", rows)
    size, rows = measure_relaid(args)
    low += show(size, "4 ranks saved", rows)
    if low:
        print(f"below the floor: {'; '.join(low)}")
    return 1 if low and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
