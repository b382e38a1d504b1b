#!/usr/bin/env python3
"""bench/persist.py [--mib N] [--world N] [--rounds N] [--dir DIR] [--programs DIR] [--check]
                 [--huge-pages auto|transparent|never]

A shard is written by a real ckptd out of the arena of real ranks, digests on, against fio writing as many new files of the same
sizes with the same chunks, depth and fixed buffers, before and after each save; a ratio is within one round, to the mean of the two.
ckptd runs with --no-verify: reading back is background work that follows the level `durable`.

    persist  from the moment when the copy stands in the arena (every fence has returned) to `durable`: all digests are computed,
             compared with those of the source and committed in that time          floor 0.95
    save     from the first begin to `durable`: with the copy into the arena       no floor
    huge     persist against fio with its buffers in huge pages                    no floor

The first line says of which pages the arenas were, see --huge-pages in docs/reference/ckptd.md.
"""
import statistics
import sys

import node as nodes

FLOOR = 0.95


def measure(args):
    rows = []
    with nodes.Node(args.programs, args.dir, args.world, ["--mib", str(args.mib)], huge_pages=args.huge_pages) as node:
        print(f"arenas in pages of {sorted(set(node.pages()))} bytes", flush=True)
        sizes = [node.bytes // args.world] * args.world
        node.save(1, "storage")  # warms up: the first one makes directories
        node.forget(1)
        before = nodes.fio_write(node.home, sizes, args.fallocate)
        for step in range(2, args.rounds + 2):
            node.all("touch 0")
            t = node.save(step, "storage")
            node.forget(step)
            after = nodes.fio_write(node.home, sizes, args.fallocate)
            mean = (before + after) / 2
            huge = nodes.fio_write(node.home, sizes, args.fallocate, huge=True)
            speed = {"persist": node.bytes / (t["durable"] - t["fenced"]), "save": node.bytes / t["durable"]}
            rows.append({"fio": mean / 1e9, "capture": node.bytes / t["fenced"] / 1e9,
                         "huge": (speed["persist"] / huge, huge / 1e9),
                         **{key: (value / mean, value / 1e9) for key, value in speed.items()}})
            before = after
            if args.verbose:
                print(rows[-1], {k: round(v, 3) for k, v in t.items()}, file=sys.stderr)
    return rows


def main():
    parser = nodes.options(mib=4096, world=1, rounds=7)
    parser.add_argument("--fallocate", default="native")
    parser.add_argument("--huge-pages", choices=("auto", "transparent", "never"), default="auto")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    rows = measure(args)
    print(f"{args.mib} MiB over {args.world} rank(s), {args.rounds} rounds; fio {nodes.median([r['fio'] for r in rows])} GB/s, "
          f"capture {nodes.median([r['capture'] for r in rows])} GB/s")
    for key in ("persist", "save"):
        print(f"{key:8} ratio to fio {nodes.median([r[key][0] for r in rows])}  {nodes.median([r[key][1] for r in rows])} GB/s")
    ratios, speeds = zip(*(r["huge"] for r in rows))
    print(f"huge     ratio of persist to fio {nodes.median(ratios)}, fio {nodes.median(speeds)} GB/s")
    low = statistics.median(r["persist"][0] for r in rows) < FLOOR
    if low:
        print(f"below the floor of {FLOOR}")
    return 1 if low and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
