"""The n-th allocation fails: in the daemon at its start, while ranks register and join, during a save, also over two nodes, during a restore from
storage; in a rank during all its calls; in the launcher while a rank is replaced; in the command line during verify and restore. Then the same with the
n-th call that makes a descriptor, a mapping or a thread. Nobody crashes or hangs; who cannot go on says so; what was acknowledged stays, and the
next save works. For every n in a save; in the others nightly, otherwise for a sample that CKPT_SEED chooses."""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import single_node
from single_node import BIN, DEADLINE, NIGHTLY, Cases, expect
from failing_allocation import ALLOCATIONS, RESOURCES, Starved, preloaded
from loopback_cluster import loopback_cluster
from scripted_ranks import DURABLE, LATEST, STORAGE, VERIFIED, Puppet, all_must, each, gather, save

WORLD = 2
SAMPLE = 12  # calls of each kind that fail, unless it is night
PATIENCE = 5000  # ms: a rank whose peer was refused waits in vain
ATTEMPTS = 5
LEAVING = (-3, -19, -107, -116, -32, -104)  # -ESRCH -ENODEV -ENOTCONN -ESTALE -EPIPE -ECONNRESET: join again
LATE = -110  # -ETIMEDOUT


def chosen(total, choose, most=SAMPLE, night=1 << 30):
    """Which calls fail."""
    every, most = range(1, total + 1), night if NIGHTLY else most
    return every if total <= most else sorted(choose.sample(every, most))


class Tally:
    def __init__(self):
        self.armed = self.failed = self.told = 0

    def __str__(self):
        return f"{self.armed} armed, {self.failed} failed, {self.told} told to a caller"


def daemon_lives(d):
    expect(d.alive(), f"the daemon ended with {d.process.poll()}: {d.text()[-600:]}")


def told(answers):
    """Whoever was refused got a sentence."""
    for answer in answers:
        # The memory of the puppet's own state; a session that is gone says its last words in the log.
        own = answer.call.startswith("table") and answer.code == -12 or answer.call == "close"
        expect(answer.code >= 0 or answer.text.strip() or own, "no reason is given:", answer)
    return any(answer.code < 0 for answer in answers)


def try_save(ranks, step, patience=PATIENCE):
    """Without insisting; the answers of those that were refused."""
    for call in (("begin", step, STORAGE, 0), ("fence", 0), ("wait", 0, DURABLE, patience)):
        answers = each(ranks, *call)
        if told(answers):
            break
    each(ranks, "drop", 0)
    return [answer for answer in answers if answer.code < 0]


def told_save(ranks, step):
    """Whatever becomes of it, the ranks hear of it: nobody waits until the next one begins."""
    refused = try_save(ranks, step, DEADLINE * 1000)
    expect(all(answer.code != LATE for answer in refused), "nobody says what has become of it:", *refused)
    return refused


def works(d, ranks, step):
    """A save is durable, after at most a new epoch."""
    for _ in range(ATTEMPTS):
        daemon_lives(d)
        all_must(ranks, "set", step)
        refused = try_save(ranks, step, DEADLINE * 1000)
        if not refused:
            expect(any(s == step for _, s in d.committed()), f"step {step} is acknowledged and not there")
            return
        expect(all(answer.code in LEAVING for answer in refused), "a save without any failure is refused:", *refused)
        each(ranks, "join", DEADLINE * 1000)
        each(ranks, "restore", LATEST, DEADLINE * 1000)
        step += 1
    raise single_node.Failure(f"no save works any more: {refused}")


def crowd(d, control, choose, prepare, act, most=SAMPLE):
    """A daemon that lives on: for every n prepare, arm, act, disarm, and a save that must work."""
    with preloaded(control.environment()):
        d.start()
    ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
    gather(ranks)
    step, tally = 10, Tally()
    prepare(ranks, step)
    control.arm(0)
    act(ranks, step + 9)
    for n in chosen(control.count, choose, most):
        step += 10
        prepare(ranks, step)
        control.arm(n)
        refused = act(ranks, step + 1)
        tally.armed += 1
        tally.failed += control.failed
        tally.told += bool(refused)
        control.disarm()
        works(d, ranks, step + 2)
    d.verify_all()
    expect(d.stop() == 0, "the daemon's end")
    return tally


def daemon_save(counted, choose):
    with single_node.daemon() as d:
        tally = crowd(d, Starved(d.top / "control" / "starve", counted), choose, lambda *_: None, told_save, most=1000)
        print(f"# a save in ckptd: {tally}")


def nodes_save(counted, choose):
    """In the daemon that coordinates, and in the other one. What cannot be sent costs a session, and so an epoch at most."""
    for starved in "ab":
        top, tally = pathlib.Path(tempfile.mkdtemp()), Tally()
        control, where = Starved(top / "control" / "starve", counted), ("--store", top / "store")
        with loopback_cluster("ab", {starved: control.environment()}, a=where, b=where) as daemons:
            for d in daemons.values():
                d.store = top / "store"
            ranks = [Puppet(d, number, len(daemons), local=1) for number, d in enumerate(daemons.values())]
            gather(ranks)
            save(ranks, 1, 1)
            control.arm(0)
            save(ranks, 2, 2, level=VERIFIED)
            step = 10
            for n in chosen(control.count, choose):
                control.arm(n)
                refused = told_save(ranks, step)
                tally.armed += 1
                tally.failed += control.failed
                tally.told += bool(refused)
                control.disarm()
                works(daemons[starved], ranks, step + 1)
                step += 10
            daemons[starved].verify_all()
        print(f"# a save over two nodes, in {starved}: {tally}")


def daemon_restore(counted, choose):
    """From storage: the step is no longer in memory."""
    def age(ranks, step):
        if step == 10:
            save(ranks, 1, 1)
            for n in range(2, 6):
                save(ranks, n, n)

    def act(ranks, _):
        answers = each(ranks, "join", PATIENCE)
        refused = told(answers)
        if not refused:
            answers = each(ranks, "restore", 1, PATIENCE)
            refused = told(answers)
            for rank in ranks:
                expect(refused or rank.must("get") == "1", "another state is restored:", rank.must("get"))
        if refused:
            each(ranks, "join", PATIENCE)
        if told(each(ranks, "restore", LATEST, PATIENCE)):  # it is this one that fails: half-way, the state is nobody's
            refused = True
            each(ranks, "join", DEADLINE * 1000)
            all_must(ranks, "restore", LATEST, DEADLINE * 1000)
        return refused

    with single_node.daemon() as d:
        tally = crowd(d, Starved(d.top / "control" / "starve", counted), choose, age, act)
        print(f"# a restore from storage in ckptd: {tally}")


def daemon_start(counted, choose):
    """It comes up, or says why not."""
    tally = Tally()
    with single_node.daemon() as d:
        control = Starved(d.top / "control" / "starve", counted)
        with preloaded(control.environment()):
            d.start()
            total = control.count
            d.stop()
            for n in chosen(total, choose):
                d.log.write_text("")
                control.arm(n)
                d.start()
                tally.armed += 1
                tally.failed += control.failed
                control.disarm()
                if d.alive():
                    expect(d.stop() == 0, f"call {n}: the daemon's end")
                else:
                    code = d.process.wait()
                    expect(code > 0 and d.text().strip(), f"call {n}: the daemon's start: exit {code}: {d.text()}")
                    tally.told += 1
    print(f"# the start of ckptd: {tally}")


def daemon_registration(counted, choose):
    """Ranks come; who is refused comes again."""
    tally = Tally()
    with single_node.daemon() as d:
        control = Starved(d.top / "control" / "starve", counted)
        with preloaded(control.environment()):
            d.start()
        control.arm(0)
        total = 0
        for n in [0, *range(1, SAMPLE + 1 if not NIGHTLY else 100000)]:
            number = n if NIGHTLY or not n else choose.randrange(1, total + 1)
            if n and number > total:
                break
            control.arm(number)
            ranks = [Puppet(d, r, WORLD) for r in range(WORLD)]
            refused = False
            for call in (("open", PATIENCE), ("table", 1000, 0), ("join", PATIENCE)):
                refused = refused or told(each(ranks, *call))
                if refused:
                    break
            total = control.count if not n else total
            tally.armed += bool(n)
            tally.failed += control.failed
            tally.told += refused
            control.disarm()
            daemon_lives(d)
            for rank in ranks:
                rank.kill()
            ranks = [Puppet(d, r, WORLD) for r in range(WORLD)]
            gather(ranks)
            each(ranks, "restore", LATEST, PATIENCE)
            works(d, ranks, 100 * n + 100)
            for rank in ranks:
                rank.kill()
        expect(d.stop() == 0, "the daemon's end")
    print(f"# registration in ckptd: {tally}")


def calls(step, patience):
    return (("open", patience), ("table", 1000, 0), ("join", patience), ("restore", LATEST, patience), ("begin", step, STORAGE, 0), ("fence", 0),
            ("wait", 0, DURABLE, patience), ("drop", 0), ("close",))


def life(d, step, control, n):
    """All calls of a rank; whether one was refused. It may end only by itself, at the end."""
    with preloaded(control.environment()):
        rank = Puppet(d, 0, 1)
    control.arm(n)
    refused = False
    for call in calls(step, PATIENCE if n else DEADLINE * 1000):
        answer = rank.ask(*call)
        if call[0] == "restore" and answer.code == -2:  # nothing is saved yet
            continue
        if told([answer]):
            refused = True
            break
    count, failed = control.count, control.failed
    control.disarm()
    rank.process.stdin.close()
    code = rank.process.wait(DEADLINE)
    expect(code == 0, f"call {n}: the rank ended with {code}")
    return count, failed, refused


def rank_life(counted, choose):
    tally = Tally()
    with single_node.daemon() as d:
        d.start()
        control = Starved(d.top / "control" / "starve", counted)
        life(d, 1, control, 0)
        total, _, refused = life(d, 2, control, 0)
        expect(not refused, "a rank is refused without any failure")
        for step, n in enumerate(chosen(total, choose), 3):
            _, failed, refused = life(d, step, control, n)
            tally.armed += 1
            tally.failed += failed
            tally.told += refused
        _, _, refused = life(d, 100000, control, 0)
        expect(not refused, "no rank can save any more")
        d.verify_all()
        expect(d.stop() == 0, "the daemon's end")
    print(f"# a rank's calls: {tally}")


def run_job(d, control, n):
    """A job in which a rank is replaced; only its launcher starves. Its code, and what it said."""
    control.arm(n)
    words = ("run", "-n", 2, "--socket", d.socket, "--daemon", "external", "--inject", "kill:rank=1@step=10", "--", "env", "-u", "LD_PRELOAD",
             BIN / "ckpt-train", "--seq", 16, "--steps", 20, "--save-memory-every", 5)
    with tempfile.TemporaryFile("w+") as said:
        run = subprocess.Popen([BIN / "ckpt", *map(str, words)], env=d.environment(CKPT_JOB=f"job{n}", **control.environment()), stdout=said, stderr=said,
                               stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = run.wait(DEADLINE)
            left = subprocess.run(["pgrep", "-s", str(run.pid)], capture_output=True, text=True, check=False).stdout.split()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        said.seek(0)
        text = said.read()
    expect(not left, f"call {n}: the launcher ended with {code}, and left processes {left} behind: {text[-1500:]}")
    return code, text


def launcher(counted, choose):
    """It goes on, or its ranks end with it."""
    tally = Tally()
    with single_node.daemon() as d:
        d.start()
        control = Starved(d.top / "control" / "starve", counted)
        code, text = run_job(d, control, 0)
        expect(code == 0, f"the launcher ends with {code}: {text}")
        for n in chosen(control.count, choose, night=300):
            code, text = run_job(d, control, n)
            tally.armed += 1
            tally.failed += control.failed
            tally.told += code != 0
            expect(code >= 0 and (code == 0 or text.strip()), f"call {n}: the launcher ended with {code}: {text[-1500:]}")
        expect(d.stop() == 0, "the daemon's end")
    print(f"# ckpt run: {tally}")


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else None


def command(counted, choose, what, *words):
    """`ckpt` on a store: right, or a sentence and a code."""
    top = pathlib.Path(tempfile.mkdtemp())
    control, tally = Starved(top / "control" / "starve", counted), Tally()
    subprocess.run([BIN / "make_store", "--rows", "300", top / "store", "7"], check=True)
    env = dict(os.environ, **control.environment())

    def go(n):
        control.arm(n)
        out = top / f"out{n}"
        return subprocess.run([BIN / "ckpt", *(str(w).format(out=out, store=top / "store") for w in words)], env=env, text=True,
                              capture_output=True, timeout=DEADLINE)

    good = go(0)
    expect(good.returncode == 0, good.stderr)
    for n in chosen(control.count, choose):
        done = go(n)
        tally.armed += 1
        tally.failed += control.failed
        tally.told += done.returncode != 0
        expect(done.returncode >= 0, f"call {n}: signal {-done.returncode}: {done.stderr}")
        expect(done.returncode == 0 or done.stderr.strip(), f"call {n}: exit {done.returncode} without a word")
        if done.returncode == 0:
            expect(written(top / f"out{n}") == written(top / "out0"), f"call {n}: something else is written")
            same = "--json" not in words or done.stdout == good.stdout
            expect(same or "memory" in done.stdout + done.stderr, f"call {n}: {done.stdout}, not {good.stdout}")
        shutil.rmtree(top / f"out{n}", ignore_errors=True)
    print(f"# {what}: {tally}")


def main():
    seed = int(os.environ.get("CKPT_SEED", random.randrange(1 << 32)))
    print(f"# CKPT_SEED={seed}", flush=True)
    cases, choose = Cases(), random.Random(seed)
    for counted, what in ((ALLOCATIONS, "an allocation"), (RESOURCES, "a descriptor, a mapping or a thread")):
        cases.run(f"{what}: ckptd starts", daemon_start, counted, choose)
        cases.run(f"{what}: ranks register", daemon_registration, counted, choose)
        cases.run(f"{what}: ckptd saves", daemon_save, counted, choose)
        cases.run(f"{what}: the daemons of two nodes save", nodes_save, counted, choose)
        cases.run(f"{what}: ckptd restores from storage", daemon_restore, counted, choose)
        cases.run(f"{what}: a rank makes all its calls", rank_life, counted, choose)
        cases.run(f"{what}: ckpt run replaces a rank", launcher, counted, choose)
        cases.run(f"{what}: ckpt verify", command, counted, choose, "ckpt verify", "verify", "--repo", "{store}", "--all", "--read-data")
        cases.run(f"{what}: ckpt list", command, counted, choose, "ckpt list", "list", "--repo", "{store}", "--json")
        cases.run(f"{what}: ckpt restore", command, counted, choose, "ckpt restore", "restore", "--repo", "{store}", "--to", "{out}", "latest")
    return cases.end()


sys.exit(main())
