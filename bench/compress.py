#!/usr/bin/env python3
"""bench/compress.py [--mib N] [--world N] [--rounds N] [--limit MIB] [--dir DIR] [--programs DIR]

What packing costs and saves from end to end: checkpoints of F32 values spread as weights are, by a daemon with compress = none and by one
with compress = zstd, on the same disk, then both once more with --write-bandwidth LIMIT in place of a slow store. Times from the moment
when every fence has returned to `durable`.

    plain, packed    seconds of a checkpoint
    ratio            of the medians, plain to packed
    blocks           what a packed checkpoint takes on storage, of what a plain one takes
"""
import os
import statistics
import sys

import node as nodes
from incremental import blocks


def measure_one(args, compress, limit):
    times = []
    ranks = ["--mib", str(args.mib), "--weights"]
    options = ["--compress", compress] + (["--write-bandwidth", f"{limit}M"] if limit else [])
    with nodes.Node(args.programs, args.dir, args.world, ranks, options=options) as node:
        for step in range(1, args.rounds + 2):
            node.all(f"fill {step}")
            t = node.save(step, "storage")
            nodes.rest(node.store)
            if step > 1:  # the first finds everything cold
                times.append(t["durable"] - t["fenced"])
        return times, blocks(node.store) / (args.rounds + 1)


def report(args, what, limit):
    plain, plain_blocks = measure_one(args, "none", limit)
    packed, packed_blocks = measure_one(args, "zstd", limit)
    print(f"{what}: {args.mib} MiB over {args.world} rank(s), {args.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"  plain   {nodes.median(plain, digits=3)} s")
    print(f"  packed  {nodes.median(packed, digits=3)} s")
    print(f"  ratio   {statistics.median(plain) / statistics.median(packed):.2f}")
    print(f"  blocks  {packed_blocks / 2**20:.0f} MiB of {plain_blocks / 2**20:.0f} MiB a checkpoint", flush=True)


def main():
    args = nodes.options(check=False, mib=512, world=1, rounds=4, limit=100).parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    report(args, "the disk as it is", 0)
    if args.limit:
        report(args, f"a store of {args.limit} MiB/s", args.limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
