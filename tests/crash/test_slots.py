"""Whose a slot is: what ranks are restoring from is not given away, what a dead process wrote to is neither lost nor leaked, and what a
living one may still write to is not handed out."""

import signal
import sys

import single_node
from single_node import DEADLINE, Cases, expect, until
from scripted_ranks import CAPTURED, LATEST, MEMORY, STORAGE, VERIFIED, Puppet, all_must, ended, gather, holds, save

WORLD = 2
SLOTS = 3
LARGE = 24_000_000  # elements: a copy and a restore take long enough to be met in the middle
COPY_MS = 2000  # that a copy takes at least
TRIES = 10


def puppets(d, world=WORLD):
    return [Puppet(d, number, world) for number in range(world)]


def snapshots(d):
    return {s["step"]: s for s in d.job()["snapshots"]}


def slow_reader():
    """Rank 1 is stopped with the answer to its restore of an older step on its way; rank 0 has restored and saves on and on."""
    with single_node.daemon() as d:
        d.start(failpoints="recover.scan=delay:1500@1")
        ranks = puppets(d)
        gather(ranks, elements=1_000_000, replicated=1)
        for step in (1, 2, 3):
            save(ranks, step, step, STORAGE, VERIFIED)
        all_must(ranks, "join")
        for rank in ranks:
            rank.say("restore", 1, 0)
        until(lambda: d.fired.exists() and "fired recover.scan" in d.fired.read_text(), "both have asked")
        ranks[1].signal(signal.SIGSTOP)
        answer = ranks[0].answer()
        expect(answer.code == 0 and answer.text.startswith("1 "), answer)
        holds(ranks[:1], 1)
        begun = 0
        for step in (10, 11, 12, 13):
            ranks[0].must("set", step)
            answer = ranks[0].ask("begin", step, MEMORY, step)
            if answer.code == 0:
                begun += 1
                ranks[0].must("fence", step)
        expect(begun, "rank 0 could save nothing: this tests nothing")
        ranks[1].signal(signal.SIGCONT)
        answer = ranks[1].answer()
        expect(answer.code == 0 and answer.text.startswith("1 "), answer)
        holds(ranks[1:], 1)


def held_by_a_child():
    """A child of the rank holds its socket, its arena and its doorbell; the rank dies and is replaced all the same."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        save(ranks, 5, 5, MEMORY, CAPTURED)
        child = ranks[0].must("fork")
        dead = ranks[0]
        dead.die()
        until(lambda: "rank 0 is lost" in d.text(), "the daemon sees the death")
        ranks[0] = Puppet(d, 0, WORLD)
        ranks[0].must("open", 5000)
        ranks[0].must("table", 1000)
        all_must(ranks, "join")
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said == "5 1 memory", "restored", said)
        holds(ranks, 5)
        save(ranks, 6, 6, MEMORY, CAPTURED)
        dead.process.stdin.close()  # the child ends: that is nobody's death
        until(lambda: ended(child), "the child ends")
        save(ranks, 7, 7, MEMORY, CAPTURED)
        expect(ranks[0].ask("epoch").code == 2, "the end of the child raised the epoch")


def killed_in_capture():
    """More often than there are slots: each death leaves a slot that says "still copying"."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d, 1)
        gather(ranks, LARGE)
        for n in range(SLOTS + 1):
            ranks[0].must("begin", 10 + n, MEMORY, 0)
            ranks[0].die()
            until(lambda n=n: d.text().count("rank 0 is lost") == n + 1, "the daemon sees the death")
            until(lambda n=n: f"epoch {n + 2} began before every rank was captured" in d.text(), "it was met in mid-capture")
            ranks = puppets(d, 1)
            gather(ranks, LARGE)
        expect(not snapshots(d), "what is left of the dead:", snapshots(d))
        for step in range(50, 50 + SLOTS):
            answer = ranks[0].ask("begin", step, MEMORY, step - 50)
            expect(answer.code == 0, "a slot has leaked:", answer)
            ranks[0].must("fence", step - 50)
        ranks[0].must("wait", SLOTS - 1, CAPTURED, DEADLINE * 1000)


def gone_on_without_fence():
    """The process lives: its slot stays taken until the copy has ended, and is free then."""
    with single_node.daemon() as d:
        d.start()
        ranks = [Puppet(d, 0, 1, failpoints=f"device.copy=delay:{COPY_MS}")]
        gather(ranks, LARGE)
        held = 0
        for step in range(1, TRIES * SLOTS):  # each begin gives the one before up; on a busy machine its copy may have ended by then
            answer = ranks[0].ask("begin", step, MEMORY, 0)
            expect(answer.code == 0 or "slots are in use" in answer.text, "a slot that is still written to is handed out:", answer)
            held += answer.code != 0
            if held and step >= 3 * SLOTS:
                break
        expect(held, "no slot was still being copied to: this tests nothing")
        until(lambda: ranks[0].ask("begin", 100, MEMORY, 1).code == 0, "the slots come back")
        ranks[0].must("fence", 1)
        ranks[0].must("wait", 1, CAPTURED, DEADLINE * 1000)


def main():
    cases = Cases()
    for test in (slow_reader, held_by_a_child, killed_in_capture, gone_on_without_fence):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
