#!/usr/bin/env python3
"""bench/vote.py [--mib N] [--world N] [--rounds N] [--dir DIR] [--programs DIR]

What it costs on the host to compare replicas (CKPT_VOTE=1): the same ranks with it and without, each of which holds the whole of the state, a
daemon for each, saves to memory, in turns. All of the state has changed before each save.

    fenced      seconds from the first begin to the return of the last fence, without
    captured    and until every rank was shown it as captured
    ratio       of the same with it, within one round of SAVES each                     ceiling: none, it is on request
"""
import os
import statistics
import sys

import node as nodes

SAVES, SLOTS, TENSORS = 3, 3, 40
LEVELS = ("fenced", "captured")


def start(args, vote):
    os.environ["CKPT_VOTE"] = vote
    return nodes.Node(args.programs, args.dir, args.world, ["--mib", str(args.mib), "--tensors", str(TENSORS), "--replicas"])


def saves(node, step, count):
    """Medians of `count` saves, by level."""
    rows = []
    for i in range(count):
        node.all("touch 0")
        rows.append(node.save(step + i, "memory"))
    return {level: statistics.median(row[level] for row in rows) for level in LEVELS}


def measure(args):
    """[(without, with)], a round each."""
    with start(args, "0") as plain, start(args, "1") as voting:
        for node in (plain, voting):
            saves(node, 1, SLOTS)  # every slot is touched once by the rank
        rows, step = [], 1 + SLOTS
        for i in range(args.rounds):
            pair = {}
            for node in (plain, voting) if i % 2 else (voting, plain):
                pair[node] = saves(node, step, SAVES)
            rows.append((pair[plain], pair[voting]))
            step += SAVES
        return rows


def main():
    args = nodes.options(check=False, mib=256, world=2, rounds=9).parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    rows = measure(args)
    print(f"{args.mib} MiB, held by each of {args.world} ranks, {args.rounds} rounds of {SAVES} saves each")
    for level in LEVELS:
        print(f"{level:10} {nodes.median([plain[level] for plain, _ in rows], digits=3)} s")
        print(f"{'  ratio':10} {nodes.median([voting[level] / plain[level] for plain, voting in rows])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
