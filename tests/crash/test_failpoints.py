"""Every failpoint of ckptd and of the library in it, with every action, in a scenario in which it is reached: afterwards the next
save works, everything that was acknowledged as durable is there and whole, nothing else is listed, it restores bit by bit, and no call
of the training was blocked beyond its deadline.
timeout: 1200"""

import concurrent.futures
import shutil
import subprocess
import sys
import tempfile
import threading
import pathlib

import single_node
from tap import BIN, NIGHTLY, Failure, expect, until

WORLD, MORE = 2, 2  # ranks; further durable steps that must follow a failure
RANK = ("--storage", 2, "--pause", 8, "--elements", 1500, "--deadline", 20000)
ENTRY_TRIES = 4

# Names that no daemon and no rank of these scenarios reaches, and why.
EXCUSED = {"base.test": "stands in the tests of libckpt/base only",
           "job.schedule": "the ranks of these scenarios do not ask what is due; tests/crash/test_due.py fires it",
           "end.tell": "these jobs are on one node; tests/crash/test_end_record.py fires it",
           "plan.tell": "these jobs are on one node; tests/crash/test_plan_record.py fires it",
           "memory.fill": "only where the kernel's pool has huge pages; tests/unit/ckptd/arena/test_memory_pages.c fires it"}

# What takes a size, so that `short` means something.
SHORTABLE = ("disk.read", "disk.write")
SPACE = ("disk.write", "disk.mkdir", "disk.open", "disk.truncate", "disk.fsync", "disk.link", "commit.data", "commit.node")


class Run:
    """One daemon, one failpoint, one action."""

    def __init__(self, name, action):
        self.name, self.action = name, action
        self.stop = None
        self.keep_last = 0  # what retention leaves; 0: everything

    def spec(self, hit):
        return f"{self.name}={self.action}@{hit}" if hit else f"{self.name}={self.action}"

    def fired(self, d):
        return d.fired.exists() and f"fired {self.name} " in d.fired.read_text()

    # ---- steps of a scenario

    def ranks(self, d, *options, env=None):
        self.stop = d.top / "stop"
        self.stop.unlink(missing_ok=True)
        (d.top / "pace").unlink(missing_ok=True)
        return d.world(WORLD, *RANK, "--until-file", self.stop, *options, env=env)

    def durable(self, d):
        reached = [r.reached("durable") for r in d.ranks]
        return set().union(*reached) if reached else set()

    def revive(self, d, ranks):
        """What the action may have ended is started again, without it: the daemon, and ranks that it refused or killed."""
        if not d.alive():
            expect(d.process.returncode in (-9, 1), "the daemon ended with", d.process.returncode)
            d.start()
            expect(d.alive(), "the daemon does not start without the failpoint")
        for i, rank in enumerate(ranks):
            code = rank.process.poll()
            if code is not None:
                expect(code in (1, -9), f"rank {i} ended with {code}: {rank.lines()[-3:]}")
                ranks[i] = d.rank(rank.number, WORLD, *RANK, "--until-file", self.stop, name=f"rank{i}.{len(d.ranks)}")

    def progress(self, d, ranks):
        """New steps become durable on every rank, after whatever had to be started again."""
        before = [len(r.reached("durable")) for r in ranks]
        for _ in range(ENTRY_TRIES * 2):
            self.revive(d, ranks)
            olds = list(ranks)
            before = [n if r in olds else 0 for n, r in zip(before, ranks)]

            def further():
                return all(len(r.reached("durable")) >= MORE + n for r, n in zip(ranks, before)) or not d.alive() or \
                    any(r.process.poll() is not None for r in ranks)
            until(further, f"{MORE} further durable steps")
            if d.alive() and all(r.process.poll() is None for r in ranks):
                return
            before = [len(r.reached("durable")) for r in ranks]
        raise Failure("ranks do not stay")

    def is_met(self, d, ranks):
        return self.fired(d) or not d.alive() or any(r.process.poll() is not None for r in ranks)

    def await_fired(self, d, ranks):
        until(lambda: self.is_met(d, ranks), "it fires")

    def finish(self, d, ranks):
        self.stop.touch()
        for rank in ranks:
            expect(rank.wait() == 0, f"rank {rank.number} ended with {rank.process.returncode}: {rank.lines()[-3:]}")
        for rank in d.ranks:
            rank.check_memory()
        acknowledged = self.durable(d)
        d.kill()
        there = d.committed()
        lost = {a for a in acknowledged - set(there) if not self.keep_last or sum(c > a for c in there) < self.keep_last}
        expect(not lost, f"acknowledged as durable and not in the store: {sorted(lost)}")
        d.verify_all()
        d.start()
        again = [d.rank(r, WORLD, "--restore-only", "--elements", 1500, name=f"restored{r}") for r in range(WORLD)]
        for rank in again:
            expect(rank.wait() == 0, f"restore: rank {rank.number} ended with {rank.process.returncode}: {rank.lines()}")
            epoch, step = max((int(line[2]), int(line[1])) for line in rank.of("restored"))
            expect((epoch, step) >= max(acknowledged), f"restored {epoch, step}, acknowledged {max(acknowledged)}")
        if self.keep_last:
            until(lambda: not list(d.store.glob("main/.trash-*")), "the next daemon deletes what the last one had begun to")
        expect(d.stop() == 0, "the daemon's end:", d.process.returncode)

    def serve(self, hit=0, *others):
        return ",".join([*others, self.spec(hit)])


# ---- scenarios -------------------------------------------------------------------------------------------------------

def saving(run, d, hit=3, others=()):
    """It fires somewhere between the start and the read-back of a few saves."""
    d.start(run.serve(hit, *others))
    ranks = run.ranks(d) if d.alive() else None
    if ranks is None:
        d.start()
        ranks = run.ranks(d)
    run.await_fired(d, ranks)
    run.progress(d, ranks)
    run.finish(d, ranks)


def first(run, d):
    """What happens once, when the daemon or the job begins."""
    saving(run, d, hit=1)


def aborting(run, d):
    """A commit fails half-way and is cleared away."""
    saving(run, d, hit=1, others=("disk.truncate=error:EIO@5",))


def marking(run, d):
    """Ranks call checkpoints healthy while these are being written."""
    d.start(run.serve(1))
    ranks = run.ranks(d, "--mark", 2)
    run.await_fired(d, ranks)
    run.progress(d, ranks)
    run.finish(d, ranks)


def collecting(run, d):
    """Checkpoints that retention does not keep go while others are saved."""
    run.keep_last = 2
    d.options += ["--keep-last", "2"]
    saving(run, d, hit=2)


def occupied(run, d):
    """The names of coming checkpoints are taken by what older releases left behind."""
    d.start(run.serve(1))
    ranks = run.ranks(d)
    until(lambda: d.committed(), "a first checkpoint")  # an epoch that the store knows is not given out
    while not run.is_met(d, ranks):
        epoch, step = d.committed()[-1]
        for ahead in range(30, 200):
            (d.store / "main" / f"step-{step + ahead:012d}.e{epoch:04d}").mkdir(exist_ok=True)
        until(lambda: run.is_met(d, ranks) or max(d.committed()) > (epoch, step + 200), "it fires")  # or the ranks had come so far meanwhile
    run.progress(d, ranks)
    run.finish(d, ranks)


def made_before(run, d):
    """A server says of the directory that it has just made that it exists."""
    saving(run, d, hit=1, others=("disk.mkdir.after=error:EEXIST@3",))


def finished_before(run, d):
    """The daemon dies between a commit and its word for it; its next life, if the ranks have saved nothing since, finds it there."""
    ranks = None
    for _ in range(ENTRY_TRIES):
        d.start(run.serve(1, "commit.sync_name=kill@1"))
        ranks = ranks or run.ranks(d, "--storage", 1, "--pause", 1500)
        until(lambda: run.fired(d) or not d.alive(), "a commit")
        if run.fired(d):
            break
    run.await_fired(d, ranks)
    run.progress(d, ranks)
    run.finish(d, ranks)


def saved(run, d):
    """Some checkpoints, and nobody at work."""
    d.start()
    ranks = run.ranks(d, "--wait", "verified")  # a read-back gives way to newer saves
    until(lambda: all(len(r.reached("verified")) >= 2 for r in ranks), "two verified steps")
    run.stop.touch()
    for rank in ranks:
        expect(rank.wait() == 0, f"rank {rank.number} ended with {rank.process.returncode}")


def restoring(run, d):
    """Everything is gone but the store."""
    saved(run, d)
    d.kill()
    d.start(run.serve(1))
    expect(d.alive(), "the daemon starts")
    ranks = run.ranks(d)
    run.await_fired(d, ranks)
    run.progress(d, ranks)
    run.finish(d, ranks)


def losing_a_rank(run, d):
    """A rank dies and comes back; what it saved is in memory."""
    d.start(run.serve(1))
    ranks = run.ranks(d)
    until(lambda: all(len(r.reached("durable")) >= 2 for r in ranks) or run.fired(d), "two durable steps")
    ranks[1].kill()
    ranks[1] = d.rank(1, WORLD, *RANK, "--until-file", run.stop, name="rank1.again")
    run.await_fired(d, ranks)
    run.progress(d, ranks)
    run.finish(d, ranks)


def in_a_rank(run, d):
    """It fires in the library of rank 0."""
    d.start()
    ranks = run.ranks(d)
    until(lambda: all(len(r.reached("durable")) >= 1 for r in ranks), "a durable step")
    ranks[0].kill()
    ranks[0] = d.rank(0, WORLD, *RANK, "--until-file", run.stop, name="rank0.armed",
                      env={"CKPT_FAILPOINTS": run.serve(1)})
    run.await_fired(d, ranks)
    run.progress(d, ranks)
    run.finish(d, ranks)


SCENARIOS = {
    "catalog.list": first,
    "catalog.open": first,
    "commit.aside": made_before,
    "commit.remove": aborting,
    "commit.disarm": aborting,
    "commit.left": aborting,
    "commit.stopped": aborting,
    "commit.withdraw": aborting,
    "disk.rmdir": aborting,
    "disk.rmdir.after": aborting,
    "disk.unlink": aborting,
    "disk.unlink.after": aborting,
    "commit.probe_manifest": occupied,
    "commit.read_manifest": finished_before,
    "commit.read_node": finished_before,
    "gc.manifest": collecting,
    "gc.move": collecting,
    "gc.open": collecting,
    "gc.plan": collecting,
    "gc.rmdir": collecting,
    "gc.sync": collecting,
    "gc.unlink": collecting,
    "disk.link": first,
    "disk.link.after": first,
    "disk.register": first,
    "job.epoch": first,
    "job.arenas": first,
    "job.register": first,
    "job.raise": losing_a_rank,
    "memory.pool": first,
    "memory.prefault": first,
    "recover.memory": losing_a_rank,
    "recover.scan": restoring,
    "recover.fetch": restoring,
    "recover.there": restoring,
    "readback": saving,
    "mark.write": marking,
    "device.copy": in_a_rank,
    "device.launch": in_a_rank,
    "device.restore": in_a_rank,
}


def names():
    listed = subprocess.run([BIN / "ckptd", "--list-failpoints"], capture_output=True, text=True)
    if listed.returncode:
        print(f"{BIN}/ckptd was built without failpoints")
        sys.exit(77)
    return listed.stdout.split()


def actions(name):
    yield "kill"
    yield "error:EIO"
    if name in SHORTABLE:
        yield "short:1"
    if name in SPACE:
        yield "error:ENOSPC"
    if NIGHTLY or name in ("disk.fsync", "disk.write", "commit.name", "recover.fetch", "conn.send"):
        yield "delay:300"


def perform(name, action):
    """(hits, fired) and what went wrong, if anything did."""
    scenario = SCENARIOS.get(name, saving)
    top = pathlib.Path(tempfile.mkdtemp())
    error = None
    try:
        with single_node.daemon(top=top) as d:
            try:
                scenario(Run(name, action), d)
            finally:
                log = d.fired.read_text() if d.fired.exists() else ""
    except Exception as failure:
        error = failure
    shutil.rmtree(top, ignore_errors=True)
    return log.count(f"hit {name}\n"), log.count(f"fired {name} "), error


def main():
    everything = [(n, a) for n in names() if n not in EXCUSED for a in actions(n)]
    wanted = sys.argv[1:]
    everything = [(n, a) for n, a in everything if not wanted or n in wanted or f"{n}={a}" in wanted]
    table, failed, lock = {}, 0, threading.Lock()
    number = 0

    def one(case):
        nonlocal failed, number
        hits, fired, error = perform(*case)
        with lock:
            number += 1
            table[case] = (hits, fired)
            if not error and not fired:
                error = f"never fired ({hits} hits)"
            if error:
                failed += 1
                print(f"{error}\nnot ok {number} - {case[0]} {case[1]}", flush=True)
            else:
                print(f"ok {number} - {case[0]} {case[1]}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, everything))
    print(f"1..{number}")
    print("# injected, hit, fired")
    for name in sorted({n for n, _ in table}):
        rows = [row for (n, _), row in table.items() if n == name]
        print(f"# {name:24} {len(rows):3} {sum(h for h, _ in rows):6} {sum(f for _, f in rows):6}")
    for name, why in EXCUSED.items():
        print(f"# {name:24}   0      0      0  {why}")
    print(f"# injected {len(table)}, fired {sum(1 for _, f in table.values() if f)}")
    return 1 if failed else 0


sys.exit(main())
