#!/usr/bin/env python3
"""bench/torch_training.py [--mib N] [--world N] [--rounds N] [--saves N] [--batch N] [--tensors N] [--parts PART…] [--torch PYTHON]
    [--dir DIR] [--programs DIR]

What a training with PyTorch feels of its saves: ranks with MIB of state each, beside a ckptd. PYTHON is an interpreter with torch 2.9 or newer and the
package ckpt (PYTHONPATH); default CKPT_TORCH_PYTHON, else the one that runs this. Sides take turns; a ratio is within one round. PART is saves,
memory, restores, writer or tensors; default all. Exit status 1 when a floor is missed.

    blocked    how long a save keeps the thread that trains: begin and fence of ckpt.torch.Checkpointer, with a forward and a backward pass between
               them, against the call of async_save with DefaultStager, which copies                                            floor: 100 times less
               Beside it DefaultStager with a thread that copies, until that is done, as torchtitan uses it on GPUs                         no floor
    ten steps  time of the ten steps from a save on, against ten without one                                                      floor: at most 1.03
    writer     ckpt.torch.dcp_writer.Writer in async_save, against the stock one: blocked                                         floor: 3 times less
    restore    all ranks are killed and started; from the first call until the state is back, against dcp.load of the same, which reads files that
               are in the page cache, and without it. Model and state of the optimizer are made before                          floor: 5 times faster
    first step the same until a first step is done; what a restore that takes no time would reach there, by what the step takes of a processor; and
               what is before the first call: PyTorch is imported, the model and the state of its optimizer are made                      no floor
    memory     growth of ranks and ckptd over SAVES saves, after as many as there are slots and two                             floor: less than 1 MiB
    begin      of N tensors, by ckpt.Session; registration of them                                                                  floors: 1 ms, 1 s
               The same by a Checkpointer, which looks at each address                                                                      no floor
"""
import os
import shutil
import signal
import socket
import statistics
import sys
import time

import node as nodes
import torch_compare

LESS, STEPS_AT_MOST, WRITER_LESS, FASTER, GROWN_MIB, BEGIN_MS, REGISTER_S = 100, 1.03, 3, 5, 1, 1.0, 1.0
SAVES, WRITERS = ("ours", "staged", "overlapped"), ("writer", "staged")  # in turns, each with processes of their own: memory is short
WARM = 5  # saves before memory is looked at
missed = []


def row(figure, floor, values, meets=None, unit="", digits=2):
    """``meets``: of the median; None: there is no floor."""
    text = nodes.median(values, digits=digits) if len(values) > 1 else f"{values[0]:.{digits}f}"
    low = meets is not None and not meets(statistics.median(values))
    if low:
        missed.append(figure)
    print(f"{figure} | {floor} | {text}{unit}{' MISS' if low else ''}", flush=True)


class Ranks:
    """Ranks of PyTorch with a daemon that outlives them."""

    def __init__(self, args, node, world=None):
        self.args, self.node, self.world = args, node, world or args.world

    def start(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_training_rank.py")
        self.ranks = [nodes.Rank(self.args.torch, [script, *map(str, (rank, self.world, port, self.args.mib, self.args.batch))],
                                 {"OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(self.world), "LOCAL_WORLD_SIZE": str(self.world),
                                  "CKPT_SOCKET": os.path.join(self.node.home, "ckptd.sock"), "CKPT_CONFIG": "/dev/null",
                                  "CKPT_SLOTS": str(self.node.slots), "BENCH_FOLDER": self.node.home}) for rank in range(self.world)]
        for rank in self.ranks:
            rank.answer()

    def __enter__(self):
        self.start()
        return self

    def tell(self, line):
        for rank in self.ranks:
            rank.tell(line)
        return [rank.fields() for rank in self.ranks]

    def kill(self):
        for rank in self.ranks:
            rank.process.kill()
            rank.process.wait()

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.end()


# ---- saves

def block(ranks, node, arm, step):
    """Milliseconds that a save blocked, and that ten steps took, of the slowest rank."""
    answers = ranks.tell(f"block {arm} {step}")
    if arm != "none":
        node.settle()
        for job in ("bench", "bench-writer"):
            forget(node, job)
        nodes.rest(node.home)
    return {f"{arm} {key}": max(a[key] for a in answers) / 1e6 for key in ("blocked", "took")}


def forget(node, job):
    """Deletes all but the newest checkpoint, so that the store does not grow."""
    folder = os.path.join(node.store, job)
    if os.path.isdir(folder):
        for name in sorted(n for n in os.listdir(folder) if n.startswith("step-"))[:-1]:
            shutil.rmtree(os.path.join(folder, name))


def measure_saves(args, ranks, node, arms):
    """A row a round, another side first in each; steps without a save before and after each side."""
    step, rows = 1, []
    for arm in arms * 2:  # memory is allocated
        block(ranks, node, arm, step)
        step += 1
    for i in range(args.rounds):
        at, found, quiet = i % len(arms), {}, [block(ranks, node, "none", 0)["none took"]]
        for arm in arms[at:] + arms[:at]:
            found |= block(ranks, node, arm, step)
            quiet.append(block(ranks, node, "none", 0)["none took"])
            found[f"{arm} steps"] = 2 * found[f"{arm} took"] / sum(quiet[-2:])
            step += 1
        rows.append(found | {"alone": statistics.median(quiet)})
        if args.verbose:
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def ratios(rows, a, b):
    return [r[a] / r[b] for r in rows]


def milliseconds(rows, key, digits=1):
    return f"; {nodes.median([r[key] for r in rows], digits=digits)} ms"


def report_saves(args, ranks, node):
    rows = measure_saves(args, ranks, node, SAVES)
    row("blocked: async_save with DefaultStager, times ours", LESS, ratios(rows, "staged blocked", "ours blocked"), lambda v: v >= LESS,
        milliseconds(rows, "staged blocked") + ", ours" + milliseconds(rows, "ours blocked", 2)[1:], 0)
    row("  the same, the copy on a thread", "", ratios(rows, "overlapped blocked", "ours blocked"), None, milliseconds(rows, "overlapped blocked"), 1)
    row("ten steps from a save on, against none: ours", STEPS_AT_MOST, [r["ours steps"] for r in rows], lambda v: v <= STEPS_AT_MOST,
        f"; a step {nodes.median([r['alone'] / 10 for r in rows], digits=0)} ms", 3)
    for arm, name in (("staged", "async_save"), ("overlapped", "async_save, the copy on a thread")):
        row(f"  {name}", "", [r[f"{arm} steps"] for r in rows], digits=3)


def report_writers(args, ranks, node):
    rows = measure_saves(args, ranks, node, WRITERS)
    row("our Writer in async_save: blocked, the stock one times ours", WRITER_LESS, ratios(rows, "staged blocked", "writer blocked"),
        lambda v: v >= WRITER_LESS, milliseconds(rows, "staged blocked") + ", ours" + milliseconds(rows, "writer blocked")[1:], 1)
    row("  ten steps from a save on, against none", "", [r["writer steps"] for r in rows], digits=3)


# ---- memory

def held_mib(ranks, node):
    """Of ranks and ckptd, but for arenas, whose size is fixed."""
    node.settle()
    with open(f"/proc/{node.daemon.pid}/status") as file:
        daemon = next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))
    return (sum(a["kib"] for a in ranks.tell("memory")) + daemon) / 1024


def measure_memory(args, ranks, node, arm):
    """MiB before, and what is added by so many saves."""
    step = 1000
    for _ in range(node.slots + WARM):
        ranks.tell(f"save {arm} {step}")
        step += 1
    before = held_mib(ranks, node)
    for _ in range(args.saves):
        ranks.tell(f"save {arm} {step}")
        for job in ("bench", "bench-writer"):
            forget(node, job)
        step += 1
    return held_mib(ranks, node) - before


def report_memory(args, ranks, node):
    row(f"memory: growth over {args.saves} saves", f"< {GROWN_MIB} MiB", [measure_memory(args, ranks, node, "ours")], lambda v: v < GROWN_MIB, " MiB")
    row("  async_save with DefaultStager", "", [measure_memory(args, ranks, node, "staged")], None, " MiB")


# ---- restores

def uncached(folder):
    """Takes the files of a folder out of the page cache."""
    for base, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(base, name), "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def restored(ranks, node, arm, folder, want):
    """Seconds, of the slowest rank, after a kill of all of them."""
    ranks.kill()
    began = time.monotonic()
    ranks.start()
    started = time.monotonic() - began
    if arm == "uncached":
        uncached(folder)
    answers = ranks.tell(f"restore {'ours' if arm == 'ours' else 'stock'} {folder}")
    if [a["digest"] for a in answers] != want:
        raise nodes.Failed(f"{arm}: the state is another one than that which was saved")
    return {f"{arm} started": started} | {f"{arm} {key}": max(a[key] for a in answers) / 1e9 for key in ("made", "ready", "stepped", "busy")}


def measure_restores(args, ranks, node):
    folder, arms, rows = os.path.join(node.home, "for-load"), ("ours", "stock", "uncached"), []
    want = [a["digest"] for a in ranks.tell(f"keep 2000 {folder}")]
    for i in range(args.rounds):
        found = {}
        for arm in arms[i % 3:] + arms[:i % 3]:
            found |= restored(ranks, node, arm, folder, want)
        for arm in arms:
            found[f"{arm} bound"] = (found[f"{arm} ready"] + found["ours busy"]) / found["ours busy"]
        rows.append(found)
        if args.verbose:
            print(found, file=sys.stderr, flush=True)
    return rows


def report_restores(args, ranks, node):
    rows = measure_restores(args, ranks, node)
    for arm, name in (("stock", "dcp.load from the page cache"), ("uncached", "dcp.load from the disk")):
        row(f"restore after a kill: {name}, times ours", FASTER, ratios(rows, f"{arm} ready", "ours ready"), lambda v: v >= FASTER,
            f"; {nodes.median([r[f'{arm} ready'] for r in rows])} s, ours {nodes.median([r['ours ready'] for r in rows], digits=3)} s", 1)
        row("  the same to the first step", "", ratios(rows, f"{arm} stepped", "ours stepped"), None,
            f"; {nodes.median([r[f'{arm} stepped'] for r in rows])} s, ours {nodes.median([r['ours stepped'] for r in rows])} s", 1)
        row("  by a restore that takes no time", "", [r[f"{arm} bound"] for r in rows], None,
            f"; the step takes {nodes.median([r['ours busy'] for r in rows])} s of a processor", 1)
    for key, name in (("started", "before the first call: the process begins, PyTorch is imported"), ("made", "  a first step makes the optimizer's state")):
        row(name, "", [r[f"{arm} {key}"] for r in rows for arm in ("ours", "stock", "uncached")], None, " s", 1)


# ---- many tensors

def report_tensors(args, ranks, node):
    ranks.ranks[0].tell(f"tensors {args.tensors}")
    session, used, checkpointer, busy, *begins = (int(word) / 1e9 for word in ranks.ranks[0].answer()[1:])
    own, checked = begins[:len(begins) // 2], begins[len(begins) // 2:]
    row(f"begin, {args.tensors} tensors", f"{BEGIN_MS:.0f} ms", [t * 1e3 for t in own], lambda v: v <= BEGIN_MS, " ms", 3)
    row("  registration", f"{REGISTER_S:.0f} s", [session], lambda v: v <= REGISTER_S, f" s; {used:.2f} s of a processor")
    row("  begin by a Checkpointer", "", [t * 1e3 for t in checked], None, " ms", 1)
    row("  registration by a Checkpointer", "", [checkpointer], None, f" s; {busy:.2f} s of a processor")


PARTS = {"saves": report_saves, "memory": report_memory, "restores": report_restores, "writer": report_writers, "tensors": report_tensors}


def main():
    parser = nodes.options(check=False, mib=512, world=2, rounds=4, saves=50, batch=256, tensors=100000)
    parser.add_argument("--torch", default=os.environ.get("CKPT_TORCH_PYTHON", sys.executable))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    try:
        torch = torch_compare.version(args.torch)
    except torch_compare.Missing as missing:
        print(f"not measured: {missing}")
        return 1
    if not torch_compare.has_package(args.torch):
        print(f"not measured: {args.torch} finds no package ckpt: install python/, and name its folder in PYTHONPATH")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ranks and daemon end, too
    nodes.ahead_of_others()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}; torch {torch}; {args.world} ranks, {args.mib} MiB each, {args.rounds} rounds")
    # State and gradients, three slots, two copies of PyTorch, and some for the page cache.
    nodes.check_memory(8 * args.mib * args.world)
    with nodes.Node(args.programs, args.dir, 0) as node:
        for part in args.parts:
            with Ranks(args, node, 1 if part == "tensors" else args.world) as ranks:
                PARTS[part](args, ranks, node)
    if missed:
        print(f"missed: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
