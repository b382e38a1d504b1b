#!/usr/bin/env python3
"""bench/torch_compare.py [--torch PYTHON] [--mib N] [--world N] [--rounds N] [--dir DIR] [--programs DIR] [--check]

A save of MIB of host state by ranks of libckpt with a ckptd, against PyTorch on the same disk: torch.save (a file per rank, fsynced),
and save and async_save of torch.distributed.checkpoint (gloo, a file per rank, its own fsync). PYTHON is an interpreter with torch 2.4 or
newer; default CKPT_TORCH_PYTHON, else the one that runs this. Where it finds the package ckpt (PYTHONPATH), its Checkpointer saves, too,
and is what the floor is of. In turns; a ratio is within one round.

    durable  from the first begin until all is on the disk: committed (ours), fsynced, metadata written
             floor: 1.7 times faster than each of PyTorch's, or within 10% of the time that fio needs
    blocked  how long the thread that trains is kept: ours by begin and fence, with a step between them that is longer than the copy;
             torch by the call of async_save. Of state in host memory that makes no copy, so that what changes before it is done is
             torn; staged is async_save with a copy              floor: 50 times less than async_save staged
    at once  the same where nothing lies between begin and fence of ours: the whole copy              no floor

Beside each round fio writes as many bytes into as many files (bench/node.py), fsync included: with its buffers in small pages, and in huge
ones, which is the fastest way to most disks. A way that reaches its rate cannot become faster on this disk. Needs fio.
"""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

import node as nodes

FASTER, NEAR, LESS = 1.7, 0.9, 50
HOWS = {"save": "torch.save", "dcp": "dcp.save", "async": "async_save", "staged": "async_save, staged"}
TENSORS = 32
# What is compared, with what, with which of ours, and how many times ours is to be better.
FLOORS = (*(("durable", how, "durable", FASTER) for how in HOWS), ("blocked", "staged", "blocked", LESS))
NEEDS = ("import torch, torch.distributed.checkpoint as d; assert hasattr(d, 'async_save'), "
         "'torch ' + torch.__version__ + ' has no async_save'; print(torch.__version__)")




class Missing(Exception):
    pass


def version(python):
    """Of its torch; Missing says what to install."""
    try:
        done = subprocess.run([python, "-c", NEEDS], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{python}: {error.strerror}") from None
    if done.returncode:
        raise Missing(f"{python}: {done.stderr.strip().splitlines()[-1]}: install torch 2.4 or newer, name its interpreter with "
                      "--torch or CKPT_TORCH_PYTHON")
    return done.stdout.strip()


def has_package(python):
    return not subprocess.run([python, "-c", "import ckpt.torch"], capture_output=True, check=False).returncode


class Torch:
    """Ranks of PyTorch in a folder of their own."""

    def __init__(self, args, environment=None):
        self.home = tempfile.mkdtemp(prefix="torch-bench-", dir=args.dir)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_rank.py")
        self.ranks = [nodes.Rank(args.torch, [script, *map(str, (rank, args.world, port, args.mib, TENSORS))],
                                 {"OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(args.world),
                                  "LOCAL_WORLD_SIZE": str(args.world), **(environment or {})}) for rank in range(args.world)]

    def __enter__(self):
        self.bytes = sum(int(rank.answer()[1]) for rank in self.ranks)
        return self

    def save(self, how, where=None):
        for rank in self.ranks:
            rank.tell(f"{how} {where or os.path.join(self.home, how)}")
        times = [rank.fields() for rank in self.ranks]
        nodes.rest(self.home)
        start = min(t["begin"] for t in times)
        return {"durable": (max(t["durable"] for t in times) - start) / 1e9, "blocked": max(t["blocked"] for t in times) / 1e9}

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.end()
        shutil.rmtree(self.home, ignore_errors=True)


def ours(node, step, pause_ms):
    node.all("touch 0")  # what has not changed is not copied
    times = node.save(step, "storage", pause_ms)
    node.forget(step)
    return times


def round_of_ours(args):
    with nodes.Node(args.programs, args.dir, args.world, ["--mib", str(args.mib), "--tensors", str(TENSORS)]) as node:
        first, at_once = ours(node, 1, 0), ours(node, 2, 0)
        apart = ours(node, 3, int(first["captured"] * 3000) + 100)
        return node.bytes, {"ours": at_once["durable"], "at once": at_once["blocked"], "blocked": apart["blocked"]}


def round_of_torch(args):
    with Torch(args) as torch:
        for how in HOWS:
            torch.save(how)  # warms up
        return torch.bytes, {(how, key): value for how in HOWS for key, value in torch.save(how).items()}


def round_of_package(args):
    with nodes.Node(args.programs, args.dir, 0) as node:
        with Torch(args, {"CKPT_SOCKET": os.path.join(node.home, "ckptd.sock"), "CKPT_JOB": "bench", "CKPT_SLOTS": str(node.slots)}) as torch:
            torch.save("ckpt", "1")  # warms up: the first one joins
            node.settle()
            node.forget(1)
            return torch.bytes, {"package": torch.save("ckpt", "2")["durable"]}


def fio(args):
    """Seconds, of which the fewer are of buffers in small pages or huge ones."""
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=args.dir) as home:
        sizes = [(args.mib << 20) // args.world] * args.world
        return {name: (args.mib << 20) / nodes.fio_write(home, sizes, huge=huge) for name, huge in (("fio", False), ("fio huge", True))}


def turn(args, sides, row):
    """All sides one after the other, since memory for two at once is more than many machines have."""
    sizes = []
    for side in sides:
        size, times = side(args)
        sizes.append(size)
        row.update(times)
    if len(set(sizes)) > 1:
        raise nodes.Failed(f"the sides have written different numbers of bytes: {sizes}")
    row["durable"] = row.get("package", row["ours"])


def measure(args):
    """A row a round: seconds of each side, another one first in each round, and of fio before and after."""
    sides = [round_of_ours, round_of_torch] + [round_of_package] * has_package(args.torch)
    rows, before = [], fio(args)
    for i in range(args.rounds):
        row, at = {}, i % len(sides)
        turn(args, sides[at:] + sides[:at], row)
        after = fio(args)
        row.update({name: (before[name] + after[name]) / 2 for name in before})
        rows.append(row)
        before = after
        if args.verbose:
            print(row, file=sys.stderr, flush=True)
    return rows


def ratios(rows, key, how, mine):
    return [row[how, key] / row[mine] for row in rows]


def print_durable(args, rows, names):
    for mine, name in names.items():
        print(f"{args.mib} MiB over {args.world} ranks, {args.rounds} rounds; begin to durable, {name}: {nodes.median([r[mine] for r in rows])} s")
        for how in HOWS:
            print(f"durable  {HOWS[how]} takes {nodes.median(ratios(rows, 'durable', how, mine))} times as long: "
                  f"{nodes.median([r[how, 'durable'] for r in rows])} s")
    for fio_name in ("fio", "fio huge"):
        print(f"{fio_name:8} {nodes.median([r[fio_name] for r in rows])} s, of whose rate reach: "
              + ", ".join(f"{name} {nodes.median([r[fio_name] / r[key] for r in rows])}"
                          for key, name in (*names.items(), *(((how, "durable"), HOWS[how]) for how in HOWS))))


def print_blocked(rows):
    for mine, how in (("blocked", "staged"), ("blocked", "async"), ("at once", "staged")):
        print(f"{mine:8} {HOWS[how]} {nodes.median(ratios(rows, 'blocked', how, mine), digits=1)} times as long: "
              f"{nodes.median([r[how, 'blocked'] for r in rows], 1e3, 1)} ms, ours {nodes.median([r[mine] for r in rows], 1e3, 3)} ms")


def near_fio(rows):
    return [min(row["fio"], row["fio huge"]) / row["durable"] for row in rows]


def missed(rows):
    """Names of the floors that the medians do not reach."""
    near = statistics.median(near_fio(rows)) >= NEAR
    return [f"{HOWS[how]}, {key}" for key, how, mine, floor in FLOORS
            if statistics.median(ratios(rows, key, how, mine)) < floor and not (near and key == "durable")]


def main():
    parser = nodes.options(mib=4096, world=4, rounds=5)
    parser.add_argument("--torch", default=os.environ.get("CKPT_TORCH_PYTHON", sys.executable))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    nodes.ahead_of_others()
    try:
        print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}; torch {version(args.torch)}")
    except Missing as missing:
        print(f"not measured: {missing}")
        return 1
    nodes.check_memory(5 * args.mib)  # the state, three slots, and some for the page cache
    rows = measure(args)
    print_durable(args, rows, {"ours": "ours", **({"package": "ours in Python"} if "package" in rows[0] else {})})
    print_blocked(rows)
    low = missed(rows)
    if low:
        print(f"below the floor: {', '.join(low)}")
    return 1 if low and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
