"""A restarted daemon: in whatever state of a save the last one was killed, every rank is told of that save what is true, its copy in
memory is not lost while anybody holds it, and no checkpoint mixes steps or epochs."""

import signal
import sys
import time

import single_node
from single_node import DEADLINE, Cases, expect, until
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, Puppet, Run, all_must, each, gather, holds, save

WORLD = 2
EBUSY, ENOTCONN, EUCLEAN = -16, -107, -117
COPY_S = (4, 16, 64)  # that a copy takes
SLOT_KEPT = ("snapshot.state=kill@1", "snapshot.state=kill@2", "commit.job_dir=kill", "commit.mkdir=kill", "commit.data=kill",
             "commit.sidecars=kill", "commit.node=kill", "commit.sync_root=kill", "commit.manifest=kill", "commit.sync_manifest=kill",
             "commit.name=kill", "commit.sync_name=kill", "commit.close_dir=kill", "commit.done=kill", "snapshot.state=kill@3",
             "readback=kill", "snapshot.state=kill@4")


def puppets(d, world=WORLD):
    return [Puppet(d, number, world) for number in range(world)]


def job(d):
    """What the daemon says of the job; {} while there is none."""
    return d.answers() and d.job() or {}


def dies(d):
    until(lambda: not d.alive(), "the daemon dies")


def all_back(d, world=WORLD):
    until(lambda: [r["state"] for r in job(d).get("ranks", [])] == ["joined"] * world, "the ranks are back")


def told_alike(answers):
    expect(len({a.code for a in answers}) == 1, "the ranks are told different things:", answers)
    return answers[0]


def begin(ranks, step, n, target=STORAGE):
    """The daemon may have them back before they have heard it."""
    for rank in ranks:
        def begun(rank=rank):
            answer = rank.ask("begin", step, target, n)
            expect(answer.code in (0, ENOTCONN), f"rank {rank.number}:", answer)
            return answer.code == 0
        until(begun, f"rank {rank.number} goes on")


def save_goes_on(d, ranks, step):
    all_must(ranks, "set", step)
    begin(ranks, step, 2)
    for call in (("fence", 2), ("wait", 2, DURABLE, DEADLINE * 1000), ("drop", 2)):
        all_must(ranks, *call)
    expect(step in {s for _, s in d.committed()}, f"step {step} is not in the store")


def slot_kept(point):
    """The snapshot lives in the arenas: it is written after all."""
    with single_node.daemon() as d:
        d.start(failpoints=point)
        ranks = puppets(d)
        gather(ranks)
        for call in (("set", 7), ("begin", 7, STORAGE, 0), ("fence", 0)):
            each(ranks, *call)  # the daemon may be dead before the last one
        dies(d)
        d.start()
        answer = told_alike(each(ranks, "wait", 0, DURABLE, 20000))
        expect(answer.code == 0, point, answer)
        expect(d.committed() == [(1, 7)], "the store has", d.committed())
        all_back(d)
        save_goes_on(d, ranks, 8)
        d.verify_all()


def begun_by_one():
    """Rank 0 has begun, rank 1 begins only when the daemon is back."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        all_must(ranks, "set", 7)
        for call in (("begin", 7, STORAGE, 0), ("fence", 0)):
            ranks[0].must(*call)
        d.kill()
        d.start()
        all_back(d)
        for call in (("begin", 7, STORAGE, 0), ("fence", 0)):
            until(lambda call=call: ranks[1].ask(*call).code == 0, "rank 1 goes on")
        expect(told_alike(each(ranks, "wait", 0, DURABLE, 20000)).code == 0, "the save of both lives")
        d.verify_all()


def copying():
    """The rank still copies when the daemon is back, and gives the save up: its slot is not handed out before the copy has ended."""
    for copy_s in COPY_S:  # a busy machine may not come to the point while a copy lasts
        if met_while_it_copies(copy_s):
            return
    expect(False, f"no daemon came back within {COPY_S} s")


def met_while_it_copies(copy_s):
    """False: the copy had ended, or may have."""
    with single_node.daemon() as d:
        d.start()
        rank = Puppet(d, 0, 1, failpoints=f"device.copy=delay:{copy_s * 1000}@1")
        gather([rank])
        begun = time.monotonic()

        def is_late():
            return time.monotonic() - begun >= copy_s
        rank.must("begin", 1, MEMORY, 0)
        d.kill()
        d.start()
        all_back(d, 1)
        begin([rank], 2, 0, MEMORY)
        rank.must("begin", 3, MEMORY, 0)
        until(lambda: is_late() or sum(s["state"] == "failed" for s in job(d)["snapshots"]) == 2, "two are given up")
        answer = rank.ask("begin", 4, MEMORY, 0)
        if is_late():
            return False
        expect(answer.code == EBUSY and "slots are in use" in answer.text, "a slot that is still written to is handed out:", answer)
        until(lambda: rank.ask("begin", 5, MEMORY, 1).code == 0, "the slots come back")
        rank.must("fence", 1)
        rank.must("wait", 1, CAPTURED, 20000)
        return True


def stopped_before_the_fence():
    """It is being written already. A fence may be a step of the training away: the end does not wait for that, and the next daemon writes it."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        all_must(ranks, "set", 7)
        begin(ranks, 7, 0)
        until(lambda: list(d.store.glob("main/.writing-*/*")), "its files are begun")
        expect(d.stop() == 0, d.text())
        expect("leaving it" not in d.text(), d.text())
        d.start()
        all_back(d)
        all_must(ranks, "fence", 0)
        all_must(ranks, "wait", 0, DURABLE, DEADLINE * 1000)
        expect(d.committed() == [(1, 7)], "the store has", d.committed())
        save_goes_on(d, ranks, 8)
        d.verify_all()


def slot_given_back(point, stands):
    """A later save has taken the place in memory: only the store can say what became of the first."""
    with single_node.daemon() as d:
        # The second save is complete before the data of the first one is: the daemon goes on only then, and the delays let it see that.
        d.start(failpoints=f"commit.data=delay:600,commit.sidecars=delay:600,{point}")
        ranks = puppets(d)
        gather(ranks)
        d.stands(lambda: True)
        for step, target in ((7, STORAGE), (8, MEMORY)):
            for call in (("set", step), ("begin", step, target, step), ("fence", step)):
                all_must(ranks, *call)
        d.goes_on()
        dies(d)
        d.start()
        answer = told_alike(each(ranks, "wait", 7, DURABLE, 20000))
        expect("ms after begin (committed before a restart)" not in d.text(), "the first save was still in its slots: this tests nothing")
        expect(((1, 7) in d.committed()) == stands, "the store has", d.committed())
        expect(answer.code == 0 if stands else answer.code < 0, point, answer)
        expect(told_alike(each(ranks, "poll", 7)).code == (DURABLE if stands else answer.code), "poll says another thing than wait")
        all_back(d)
        save_goes_on(d, ranks, 9)
        d.verify_all()


def replacement_comes_late():
    """Longer than ranks are waited for after a restart: the epoch is raised before anybody has looked at the arenas."""
    with single_node.daemon(store=False) as d:
        run = Run(d, WORLD, store=False, again="until test -e go; do sleep 0.05; done")
        ranks = run.ranks()
        gather(ranks)
        save(ranks, 5, 5, MEMORY, CAPTURED)
        run.strike("ckptd", 1)
        until(lambda: job(d).get("epoch") == 2, "the epoch is raised without rank 1")
        (d.top / "go").touch()
        ranks[1] = run.rank(1)
        ranks[1].must("open")
        ranks[1].must("table", 1000)
        all_must(ranks, "join")
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said == "5 1 memory", "restored", said)
        holds(ranks, 5)


def rank_dies_before_the_job_forms():
    """It has handed its arena back and dies before the other one is there."""
    with single_node.daemon(store=False) as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        save(ranks, 5, 5, MEMORY, CAPTURED)
        ranks[1].signal(signal.SIGSTOP)
        d.kill()
        d.start()
        until(lambda: "the arena of rank 0 is back" in d.text(), "rank 0 hands its arena back")
        ranks[0].die()
        until(lambda: "rank 0 is gone" in d.text(), "the daemon sees it")
        ranks[1].signal(signal.SIGCONT)
        ranks[0] = Puppet(d, 0, WORLD)
        ranks[0].must("open")
        ranks[0].must("table", 1000)
        all_must(ranks, "join")
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said == "5 1 memory", "restored", said)
        holds(ranks, 5)


def killed_while_it_fetches():
    """The slots that the daemon was filling from storage are the next one's to fill, however often that goes wrong."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        save(ranks, 5, 5, STORAGE, DURABLE)
        for rank in ranks:
            rank.must("close")
            rank.kill()
        expect(d.stop() == 0, "the daemon's end")
        d.start(failpoints="recover.fetch=kill")
        ranks = puppets(d)
        gather(ranks)
        for point in ("recover.fetch=kill", "recover.fetch=kill", ""):  # one slot after the other
            for answer in each(ranks, "restore", LATEST, 20000):
                expect(answer.code == ENOTCONN, answer)
            dies(d)
            d.start(failpoints=point)
            all_back(d)
        for said in all_must(ranks, "restore", LATEST, 20000):
            expect(said == "5 1 storage", "restored", said)
        holds(ranks, 5)
        save(ranks, 6, 6, MEMORY, CAPTURED)


def all_killed(store):
    """Daemon and ranks at once in mid-save: rank 0 has step 10, rank 1 has not begun it."""
    with single_node.daemon() as d:
        run = Run(d, WORLD, store=store)
        ranks = run.ranks()
        gather(ranks)
        save(ranks, 5, 5, STORAGE if store else MEMORY, DURABLE if store else CAPTURED)
        for call in (("set", 10), ("begin", 10, STORAGE if store else MEMORY, 1), ("fence", 1)):
            ranks[0].must(*call)
        run.strike("ckptd", 0, 1)
        ranks = run.ranks()
        gather(ranks)
        epoch = ranks[0].ask("epoch").code
        expect(epoch > 1, "the epoch of the dead is entered again:", epoch)
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said.startswith("5 1 "), "restored", said)
        holds(ranks, 5)
        save(ranks, 10, 20, STORAGE if store else MEMORY, DURABLE if store else CAPTURED)
        all_must(ranks, "join")
        for said in all_must(ranks, "restore", 10, 0):
            expect(said.startswith(f"10 {epoch} "), "restored", said)
        holds(ranks, 20)
        if store:
            expect(d.committed() == [(1, 5), (epoch, 10)], "the store has", d.committed())
            d.verify_all()


def deviated():
    """Replicas differ in one save, the daemon is killed, and are alike again in the next one of the epoch: that came of what was wrong."""
    with single_node.daemon() as d:
        d.start()
        ranks = [Puppet(d, number, WORLD, CKPT_VOTE="1") for number in range(WORLD)]
        gather(ranks, replicated=1)
        for step, values in ((7, (1, 1)), (8, (1, 2)), (9, (3, 3)), (10, (4, 4))):
            if step >= 9:
                d.kill()
                d.start()
                all_back(d)
            for rank, value in zip(ranks, values):
                rank.must("set", value)
            begin(ranks, step, step)
            all_must(ranks, "fence", step)
            answer = told_alike(each(ranks, "wait", step, DURABLE, 20000))
            expect(answer.code == (0 if step == 7 else EUCLEAN), f"step {step}:", answer)
            all_must(ranks, "drop", step)
        all_must(ranks, "join")
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said.startswith("7 1 "), "restored", said)
        save_goes_on(d, ranks, 8)


def main():
    cases = Cases()
    for point in SLOT_KEPT:
        cases.run(f"the save goes on after {point}", slot_kept, point)
    for test in (begun_by_one, copying, replacement_comes_late, rank_dies_before_the_job_forms, killed_while_it_fetches,
                 deviated):
        cases.run(test.__name__.replace("_", " "), test)
    cases.run("a daemon that ends before the fence leaves the save to the next one", stopped_before_the_fence)
    cases.run("what was named is told durable although its slot was given back", slot_given_back, "commit.sync_name=kill", True)
    cases.run("what was not named is told lost", slot_given_back, "commit.manifest=kill", False)
    cases.run("all killed in mid-save, with a store", all_killed, True)
    cases.run("all killed in mid-save, memory only", all_killed, False)
    return cases.end()


sys.exit(main())
