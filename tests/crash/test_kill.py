"""SIGKILL of ckptd, of a rank, or of both, at random instants of a job at work: what was acknowledged as durable stays, whole and
restorable bit by bit, and nothing else is listed. Several jobs at once, each with a daemon of its own, every second one packing its files: most of a round
is spent waiting. CKPT_SEED repeats a run's choices (not its timing).
timeout: 900"""

import concurrent.futures
import json
import os
import random
import sys
import time

import single_node
from tap import NIGHTLY, Cases, expect, until

WORLD = 3
JOBS = 5
# Of ckptd, by each job. A night has 10,050 with all jobs. After some the job has a store of its own anew: else each look at it takes ever longer.
KILLS, STORES = (67, 30) if NIGHTLY else (17, 1)
LOAD = ("--storage", 2, "--pause", 3, "--elements", 20000, "--deadline", 20000)
VICTIMS = ("daemon", "rank", "both")


class Job:
    def __init__(self, d):
        self.d, self.stop = d, d.top / "stop"
        self.ranks = [self.rank(r) for r in range(WORLD)]

    def rank(self, number):
        return self.d.rank(number, WORLD, *LOAD, "--until-file", self.stop, name=f"rank{number}.{len(self.d.ranks)}")

    def acknowledged(self):
        return set().union(*(r.reached("durable") for r in self.d.ranks))

    def at_work(self):
        """Every rank has seen something become durable since it was started."""
        until(lambda: all(r.process.poll() is not None or r.reached("durable") for r in self.ranks), "a durable step on every rank")
        for r in self.ranks:
            expect(r.process.poll() is None, f"rank {r.number} ended with {r.process.returncode}: {r.lines()[-3:]}")

    def revive(self):
        if not self.d.alive():
            self.d.start()
        self.ranks = [r if r.process.poll() is None else self.rank(r.number) for r in self.ranks]


def listed(d):
    code, out, err = d.ckpt("list", "--repo", d.store, "--json")
    expect(code == 0, f"list: exit {code}: {err}")
    return {(c["epoch"], c["step"]) for c in json.loads(out)["checkpoints"]}


def check(d, acknowledged):
    committed = set(d.committed())
    expect(acknowledged <= committed, f"lost: {sorted(acknowledged - committed)}")
    expect(listed(d) == committed, f"list shows {sorted(listed(d) ^ committed)} too much or too little")


def strike(job, victim, choose):
    rank = choose.randrange(WORLD)
    if victim != "rank":
        job.d.process.kill()
    if victim != "daemon":
        job.ranks[rank].process.kill()
    if victim != "rank":
        job.d.process.wait()
    if victim != "daemon":
        job.ranks[rank].process.wait()
    return rank


def rounds(number, choose):
    packs = number % 2
    with single_node.daemon(options=["--compress", "zstd"] if packs else []) as d:
        d.start()
        job = Job(d)
        kills = struck = 0
        while kills < KILLS:
            job.at_work()
            # What is random here is the instant: there is no event to wait for.
            time.sleep(choose.uniform(0, 0.12))
            victim = choose.choice(VICTIMS)
            strike(job, victim, choose)
            struck += 1
            kills += victim != "rank"
            acknowledged = job.acknowledged()
            if victim != "rank":
                check(d, acknowledged)
            job.revive()
        job.at_work()
        job.stop.touch()
        for rank in job.ranks:
            expect(rank.wait() == 0, f"rank {rank.number} ended with {rank.process.returncode}: {rank.lines()[-3:]}")
        for rank in d.ranks:
            rank.check_memory()
        acknowledged = job.acknowledged()
        d.kill()
        check(d, acknowledged)
        d.verify_all()
        expect(bool(list(d.store.glob("main/step-*/*.ckptz"))) == bool(packs), "files are packed where that was asked for")
        d.start()
        for rank in [d.rank(r, WORLD, "--restore-only", "--elements", 20000, name=f"restored{r}") for r in range(WORLD)]:
            expect(rank.wait() == 0, f"restore: rank {rank.number} ended with {rank.process.returncode}: {rank.lines()}")
            epoch, step = max((int(line[2]), int(line[1])) for line in rank.of("restored"))
            expect((epoch, step) >= max(acknowledged), f"restored {epoch, step}, acknowledged {max(acknowledged)}")
        expect(d.stop() == 0, "the daemon's end")
        return struck, len(acknowledged), len(d.committed())


def all_jobs(seed):
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        runs = [pool.submit(rounds, n, random.Random(seed + n)) for n in range(JOBS * STORES)]
        struck, acknowledged, committed = map(sum, zip(*(run.result() for run in runs)))
    print(f"# {struck} rounds, {JOBS * STORES * KILLS} kills of ckptd, {acknowledged} acknowledged, 0 lost, {committed} committed")


def main():
    seed = int(os.environ.get("CKPT_SEED", random.randrange(1 << 32)))
    print(f"# CKPT_SEED={seed}", flush=True)
    cases = Cases()
    cases.run(f"{JOBS * STORES * KILLS} kills of ckptd, and as many of ranks, lose nothing that was acknowledged", all_jobs, seed)
    return cases.end()


sys.exit(main())
