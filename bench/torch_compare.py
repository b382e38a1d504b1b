#!/usr/bin/env python3
"""bench/torch_compare.py [--torch PYTHON] [--mib N] [--world N] [--rounds N] [--dir DIR] [--programs DIR] [--check]

A save of MIB of host state by ranks of libckpt with a ckptd, against PyTorch on the same disk: torch.save (a file per rank, fsynced)
and torch.distributed.checkpoint.async_save (gloo, a file per rank, its own fsync). PYTHON is an interpreter with torch 2.4 or newer;
default CKPT_TORCH_PYTHON, else the one that runs this. In turns; a ratio is within one round.

    durable  from the first begin until all is on the disk: committed (ours), fsynced, metadata written
             floor: 3 times faster than torch.save and than async_save
    blocked  how long the thread that trains is kept: ours by begin and fence, with a step between them that is longer than the copy;
             torch by the call of async_save. Of state in host memory that makes no copy, so that what changes before it is done is
             torn; staged is async_save with a copy              floor: 50 times less than async_save staged
    at once  the same where nothing lies between begin and fence of ours: the whole copy              no floor

Beside each round fio writes as many bytes (bench/node.py): a way that reaches its rate cannot become faster on this disk. Needs fio.
"""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

import node as nodes

FASTER, LESS = 3, 50
HOWS = {"save": "torch.save", "async": "async_save", "staged": "async_save, staged"}
TENSORS = 32
NEEDS = ("import torch, torch.distributed.checkpoint as d; assert hasattr(d, 'async_save'), "
         "'torch ' + torch.__version__ + ' has no async_save'; print(torch.__version__)")


# What is compared, with what, with which of ours, and how many times ours is to be better.
FLOORS = (("durable", "save", "ours", FASTER), ("durable", "async", "ours", FASTER), ("blocked", "staged", "blocked", LESS))


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


class Torch:
    """Ranks of PyTorch in a folder of their own."""

    def __init__(self, args):
        self.home = tempfile.mkdtemp(prefix="torch-bench-", dir=args.dir)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_rank.py")
        self.ranks = [nodes.Rank(args.torch, [script, *map(str, (rank, args.world, port, args.mib, TENSORS))],
                                 {"OMP_NUM_THREADS": "1"}) for rank in range(args.world)]

    def __enter__(self):
        self.bytes = sum(int(rank.answer()[1]) for rank in self.ranks)
        return self

    def save(self, how):
        for rank in self.ranks:
            rank.tell(f"{how} {os.path.join(self.home, how)}")
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


def fio(args):
    """Seconds."""
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=args.dir) as home:
        return (args.mib << 20) / nodes.fio_write(home, [(args.mib << 20) // args.world] * args.world)


def measure(args):
    """A row a round: seconds of each, and of fio before and after. One after the other, since memory for both sides at once is more than
    many machines have."""
    rows, before = [], fio(args)
    for _ in range(args.rounds):
        size, mine = round_of_ours(args)
        other, its = round_of_torch(args)
        if size != other:
            raise nodes.Failed(f"{size} bytes beside {other}")
        after = fio(args)
        rows.append({**mine, **its, "fio": (before + after) / 2})
        before = after
        if args.verbose:
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def ratios(rows, key, how, mine):
    return [row[how, key] / row[mine] for row in rows]


def main():
    parser = nodes.options(mib=4096, world=4, rounds=5)
    parser.add_argument("--torch", default=os.environ.get("CKPT_TORCH_PYTHON", sys.executable))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    try:
        print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}; torch {version(args.torch)}")
    except Missing as missing:
        print(f"not measured: {missing}")
        return 1
    nodes.check_memory(5 * args.mib)  # the state, three slots, and some for the page cache
    rows = measure(args)
    print(f"{args.mib} MiB over {args.world} ranks, {args.rounds} rounds; begin to durable {nodes.median([r['ours'] for r in rows])} s")
    for how, name in HOWS.items():
        print(f"durable  {name} takes {nodes.median(ratios(rows, 'durable', how, 'ours'))} times as long: "
              f"{nodes.median([r[how, 'durable'] for r in rows])} s")
    for name, key in (("ours", "ours"), *((HOWS[how], (how, "durable")) for how in HOWS)):
        print(f"of fio's rate {name} reaches {nodes.median([r['fio'] / r[key] for r in rows])}")
    for mine, how in (("blocked", "staged"), ("blocked", "async"), ("at once", "staged")):
        print(f"{mine:8} {HOWS[how]} {nodes.median(ratios(rows, 'blocked', how, mine), digits=1)} times as long: "
              f"{nodes.median([r[how, 'blocked'] for r in rows], 1e3, 1)} ms, ours {nodes.median([r[mine] for r in rows], 1e3, 3)} ms")
    low = [f"{HOWS[how]}, {key}" for key, how, mine, floor in FLOORS if statistics.median(ratios(rows, key, how, mine)) < floor]
    if low:
        print(f"below the floor: {', '.join(low)}")
    return 1 if low and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
