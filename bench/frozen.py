#!/usr/bin/env python3
"""bench/frozen.py [--mib N] [--world N] [--rounds N] [--dir DIR] [--programs DIR] [--check]

What a capture on the host costs of a state of which nine parts in ten are frozen, against one of which all changes before each save: the
same ranks and the same daemon, saves to memory, in turns. From begin to the return of the fence, of the slowest rank.

    all      seconds of a capture of which every leaf is new
    frozen   of one of which a tenth is; each slot has held the rest before
    ratio    of all to frozen, within one round of SAVES each                       floor 1
"""
import os
import statistics
import sys

import node as nodes

TENSORS, FROZEN = 40, 36
SAVES, SLOTS = 3, 3
FLOOR = 1.0


def saves(node, step, first, count):
    """Seconds of `count` captures, each after a change of the tensors from `first` on."""
    times = []
    for i in range(count):
        node.all(f"touch {first}")
        times.append(node.save(step + i, "memory")["fenced"])
    return times


def measure(args):
    """[(ratio, all, frozen)]"""
    rows = []
    with nodes.Node(args.programs, args.dir, args.world, ["--mib", str(args.mib), "--tensors", str(TENSORS)]) as node:
        saves(node, 1, 0, SLOTS)  # every slot is touched once by the rank
        step = 1 + SLOTS
        for _ in range(args.rounds):
            every = saves(node, step, 0, SAVES)
            # Until each slot has the frozen part as it is now.
            frozen = saves(node, step + SAVES, FROZEN, SLOTS + SAVES)[SLOTS:]
            step += 2 * SAVES + SLOTS
            rows.append((statistics.median(every) / statistics.median(frozen), statistics.median(every), statistics.median(frozen)))
        return rows


def main():
    args = nodes.options(mib=1024, world=1, rounds=9).parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    ratios, every, frozen = zip(*measure(args))
    print(f"{args.mib} MiB over {args.world} rank(s), {FROZEN} of {TENSORS} tensors frozen, {args.rounds} rounds of {SAVES} saves each")
    print(f"all      {nodes.median(every, digits=3)} s")
    print(f"frozen   {nodes.median(frozen, digits=3)} s")
    print(f"ratio    {nodes.median(ratios)}")
    low = statistics.median(ratios) < FLOOR
    if low:
        print(f"below the floor of {FLOOR}")
    return 1 if low and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
