#!/usr/bin/env python3
"""bench/tensors.py [--tensors N] [--begins N] [--dir DIR] [--programs DIR] [--check]

What many small tensors of the host cost the training thread: 64 bytes and 4 KiB each, adjoining in one buffer, and in allocations of their own.

    register  ckpt_register_tensor of all of them                                 floor: 1 s
    join      ckpt_join, in which the daemon lays out the arena                   no floor
    begin     ckpt_begin, no address changed                                      floor: 99 % within 1 ms
    moved     ckpt_begin after one tensor was rebound, 1 %, and all               floor: 1 ms, of the median after one
    capture   from begin to captured, digests included, against memcpy of tensor by tensor, in turns: what of it is copying
"""
import sys

import node as nodes

FLOOR_BEGIN_US, FLOOR_REGISTER_S = 1000, 1.0
SIZES, KINDS = (64, 4096), ("flat", "separate")
COPIES = 7


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def begins(node, first, count, moved):
    """us of begin, of rebinding and of the capture"""
    words = [int(word) / 1e3 for word in node.all(f"begins {first} {count} {moved}")[0][1:]]
    return words[0::3], words[1::3], words[2::3]


def spread(values):
    return f"p50 {percentile(values, 0.5):.0f} us, p99 {percentile(values, 0.99):.0f}, max {max(values):.0f}"


def measure(args, size, kind):
    """Whether a floor was missed."""
    what = f"{args.tensors} tensors of {size} bytes, {kind}"
    with nodes.Node(args.programs, args.dir, 1, [str(args.tensors), str(size), kind], program="bench_tensors") as node:
        registered, used, joined, used_joining = (int(word) / 1e9 for word in node.ready[0][2:6])
        print(f"{what}: register {registered:.3f} s ({used:.3f} s of a processor), join {joined:.3f} s ({used_joining:.3f})", flush=True)
        begins(node, 1, 4, 0)  # every slot is touched once
        taken, _, _ = begins(node, 5, args.begins, 0)
        print(f"{what}: begin {spread(taken)}", flush=True)
        step, late = 5 + args.begins, False
        for moved in (1, args.tensors // 100, args.tensors):
            some, rebound, _ = begins(node, step, 8, moved)
            step += 8
            late = late or moved == 1 and percentile(some, 0.5) > FLOOR_BEGIN_US
            print(f"{what}: begin, {moved} rebound: {nodes.median(some, digits=0)} us; rebinding {nodes.median(rebound, digits=0)} us", flush=True)
        ratios, captures = [], []
        for _ in range(COPIES):
            copied = int(node.all("copy")[0][1]) / 1e3
            captures += begins(node, step, 1, 0)[2]
            ratios.append(copied / captures[-1])
            step += 1
        print(f"{what}: capture {nodes.median(captures, digits=0)} us, ratio of memcpy to it {nodes.median(ratios)}", flush=True)
    return late or registered > FLOOR_REGISTER_S or percentile(taken, 0.99) > FLOOR_BEGIN_US


def main():
    args = nodes.options(tensors=100000, begins=100).parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    missed = [f"{size} bytes, {kind}" for size in SIZES for kind in KINDS if measure(args, size, kind)]
    for which in missed:
        print(f"a floor was missed: {which}")
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
