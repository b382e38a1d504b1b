#!/usr/bin/env python3
"""bench/incremental.py [--mib N] [--world N] [--rounds N] [--dir DIR] [--programs DIR] [--check]

What a checkpoint costs of a job of which nine parts in ten never change (frozen layers, the base of an adapter), against the same
checkpoint written whole: --full-every 1, and links for as long as the measurement takes. Each save changes the tenth part. One
daemon after the other, same machine, same disk; times from the moment when every fence has returned to `durable`.

    whole    seconds of a checkpoint that is written
    linked   seconds of one of which the frozen files are linked
    ratio    of the medians, whole to linked                             floor 2
    blocks   what the linked checkpoints take on storage, of what the whole ones take
"""
import os
import statistics
import sys

import node as nodes

TENSORS, FROZEN = 40, 36
FLOOR = 2.0


def blocks(folder):
    """Bytes of blocks, of each file once."""
    seen = {}
    for at, _, names in os.walk(folder):
        for name in names:
            st = os.lstat(os.path.join(at, name))
            seen[st.st_ino] = st.st_blocks * 512
    return sum(seen.values())


def measure_one(args, full_every):
    times = []
    ranks = ["--mib", str(args.mib), "--tensors", str(TENSORS), "--frozen", str(FROZEN)]
    with nodes.Node(args.programs, args.dir, args.world, ranks, full_every=full_every) as node:
        # The first is written, the second shows what is steady: from the third on frozen files are linked.
        for step in range(1, args.rounds + 3):
            node.all(f"change {step}")
            t = node.save(step, "storage")
            nodes.rest(node.store)
            if step > 2:
                times.append(t["durable"] - t["fenced"])
            if step == 2:
                before = blocks(node.store)
        return times, (blocks(node.store) - before) / args.rounds


def main():
    parser = nodes.options(mib=1024, world=1, rounds=5)
    args = parser.parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    whole, whole_blocks = measure_one(args, 1)
    linked, linked_blocks = measure_one(args, 1000000)
    ratio = statistics.median(whole) / statistics.median(linked)
    print(f"{args.mib} MiB over {args.world} rank(s), {FROZEN} of {TENSORS} tensors frozen, {args.rounds} rounds")
    print(f"whole    {nodes.median(whole, digits=3)} s")
    print(f"linked   {nodes.median(linked, digits=3)} s")
    print(f"ratio    {ratio:.2f}")
    print(f"blocks   {linked_blocks / 2**20:.0f} MiB of {whole_blocks / 2**20:.0f} MiB a checkpoint")
    if ratio < FLOOR:
        print(f"below the floor of {FLOOR}")
    return 1 if ratio < FLOOR and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
