#!/usr/bin/env python3
"""bench/begin.py [--mib N] [--begins N] [--dir DIR] [--programs DIR] [--check]

How long ckpt_begin keeps the training thread, and what the copy costs, on the host device, with a real ckptd, saves to memory.

    begin    the call, over many saves of a state of few large and of 5,000 tensors    floor: 99 % within 1 ms
    wake     beside it: a write to an eventfd on which a thread of the same process sleeps. Where it takes as long as begin at its
             worst, other work has the processors: a thread that is put aside comes back after a tick of the scheduler (4 ms)
    capture  from begin to the return of fence, digests of the source included, against memcpy of the same bytes by the same
             process, in turns                                                          no floor
"""
import sys

import node as nodes

FLOOR_US = 1000
MEMCPY_TURNS = 7
TENSORS = (32, 5000)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def captures(node, first):
    rows = []
    for step in range(first, first + MEMCPY_TURNS):
        node.all("touch 0")  # what has not changed is not copied
        copied, size = (int(x) for x in node.all("copy")[0][1:])
        rows.append((copied / 1e9 / node.save(step, "memory")["fenced"], size / copied))
    return rows


def measure(args, tensors):
    arguments = ["--mib", str(args.mib), "--tensors", str(tensors)]
    with nodes.Node(args.programs, args.dir, 1, arguments) as node:
        for step in range(1, 5):  # every slot is touched once by the rank
            node.save(step, "memory")
        words = [int(x) / 1e3 for x in node.all(f"begins 5 {args.begins}")[0][1:]]
        return words[0::2], words[1::2], captures(node, 5 + args.begins)


def spread(values):
    return (f"p50 {percentile(values, 0.5):.0f} us, p95 {percentile(values, 0.95):.0f}, p99 {percentile(values, 0.99):.0f}, "
            f"max {max(values):.0f}")


def main():
    args = nodes.options(mib=4096, begins=100).parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    late = 0
    for tensors in TENSORS:
        taken, rung, copies = measure(args, tensors)
        late += percentile(taken, 0.99) > FLOOR_US
        print(f"begin {tensors:5} tensors, {args.mib} MiB, {len(taken)} times: {spread(taken)}; wake: {spread(rung)}", flush=True)
        print(f"capture {tensors:3} tensors: ratio to memcpy {nodes.median([c[0] for c in copies])}, memcpy "
              f"{nodes.median([c[1] for c in copies])} GB/s", flush=True)
    if late:
        print(f"above {FLOOR_US} us")
    return 1 if late and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
