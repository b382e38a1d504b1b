#!/usr/bin/env python3
"""bench/recover.py [--mib N] [--rounds N] [--dir DIR] [--programs DIR]

ckpt_restore as a rank sees it, from the call to the last byte in its memory, checked on every hop, with a real ckptd: out of the
arena (as after the loss of another rank), and from storage through the arena, against fio's sequential direct read of the same
files before and after. No floor; contents are compared with what was saved.

    memory   the step stands in the arena: its digests are checked, then it is copied and checked where it arrives
    storage  the step is read from the files into the arena, checked, then as above
"""
import glob
import os
import sys

import node as nodes

SEED = 7
KEPT = 5  # memory saves after which the slot of the step on storage has been given back


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


def main():
    args = nodes.options(check=False, mib=4096, rounds=3).parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    for world in (1, 4):
        size, rows = measure(args, world)
        for source, runs in rows.items():
            ratios = [size / t["took_ns"] / ((b + a) / 2) for t, b, a in runs]
            took, fetch, load = ([t[key] for t, _, _ in runs] for key in ("took_ns", "fetch_ns", "load_ns"))
            print(f"{source:8} {world} rank(s), {size >> 20} MiB: {nodes.median(took)} s "
                  f"(node {nodes.median(fetch)}, rank {nodes.median(load)}), "
                  f"ratio to fio {nodes.median(ratios)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
