#!/usr/bin/env python3
"""bench/stall.py [--rounds N] [--steps N] [--mib N] [--dir DIR] [--programs DIR] [--check]

What saves cost the training that goes on, as a ratio of step times; turns with and without alternate, a ratio is between neighbours.
Other work of the machine makes turns longer, never shorter: beside the median stands the ratio of the lower quartiles ("quiet").

    memory   ckpt-train with the demo's model, 4 ranks, a save to memory after every step, against none; the mean step of a run
             of rank 0                                                                                        floor 1.05
    persist  bench_rank, MIB of state, steps of some 10 ms of arithmetic in the caches, while a save to storage is written, against
             none in flight: one rank (the other processors are free, as beside a GPU), and one per processor  floor 1.05
    verify   the same until the checkpoint has been read back as well                                         no floor
"""
import os
import statistics
import sys

import node as nodes
from begin import percentile
from training import Training

FLOOR = 1.05
FEWEST = 5  # steps beside a persist that make a sample


def quiet(rows):
    """Of the ratio: the lower quartile of the turns with a save to that of the turns without."""
    return percentile([r[2] for r in rows], 0.25) / percentile([r[1] for r in rows], 0.25)


def mean_step(args, every):
    options = ["--steps", str(args.steps), "--save-memory-every", str(every), "--save-storage-every", "0", "--no-vote"]
    with Training(args.programs, args.dir, 4, options) as training:
        training.finish()
        saves = training.of("save", rank=0)
        return training.of("end", rank=0)[0]["step_ms"], sum(e["result"] == "ok" for e in saves), len(saves)


def measure_memory(args):
    """[(ratio, step without in ms, step with, share of the saves that found a slot)]"""
    rows, before = [], mean_step(args, 0)[0]
    for _ in range(args.rounds):
        step, taken, due = mean_step(args, 1)
        after = mean_step(args, 0)[0]
        rows.append((step / ((before + after) / 2), after, step, taken / due))
        before = after
    return rows


def steps_of(node, command):
    """Mean step of each rank, of the slowest; nanoseconds."""
    answers = [[int(word) for word in words[1:]] for words in node.all(command)]
    if min(len(steps) for steps in answers) < FEWEST:
        raise nodes.Failed(f"{command}: too few steps: {[len(steps) for steps in answers]}; give more --mib")
    return max(statistics.mean(steps) for steps in answers), len(answers[0])


def measure_persist(args, world, level):
    """[(ratio, step without in ms, step beside, steps beside)]"""
    rows = []
    with nodes.Node(args.programs, args.dir, world, ["--mib", str(args.mib)], verify=level == "verified") as node:
        for step in range(1, 4):
            node.save(step, "memory")
        node.save(4, "storage")
        node.settle()
        before = steps_of(node, "work 50")[0]
        for step in range(5, 5 + args.rounds):
            node.all("touch 0")
            beside, count = steps_of(node, f"busy {step} {level}")
            node.settle()
            node.forget(step)
            after = steps_of(node, "work 50")[0]
            rows.append((beside / ((before + after) / 2), after / 1e6, beside / 1e6, count))
            before = after
    return rows


def main():
    args = nodes.options(rounds=9, steps=300, mib=1024).parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    rows = measure_memory(args)
    print(f"memory  {nodes.median([r[0] for r in rows], digits=3)}, quiet {quiet(rows):.3f}, step without "
          f"{nodes.median([r[1] for r in rows])} ms, {nodes.median([r[3] for r in rows])} of the saves found a slot", flush=True)
    missed = statistics.median(r[0] for r in rows) > FLOOR
    for world in (1, os.cpu_count()):
        for level in ("durable", "verified"):
            rows = measure_persist(args, world, level)
            missed |= level == "durable" and statistics.median(r[0] for r in rows) > FLOOR
            print(f"{level}, {world} rank(s)  {nodes.median([r[0] for r in rows], digits=3)}, quiet {quiet(rows):.3f}, step without "
                  f"{nodes.median([r[1] for r in rows])} ms, {nodes.median([r[3] for r in rows], digits=0)} steps beside", flush=True)
    if missed:
        print(f"above {FLOOR}")
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
