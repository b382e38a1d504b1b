"""A save that failed: who begins its step late is told so and waits for no deadline, later ones are not held up, and one that is good is
not given up for another that may still fail."""

import sys

import single_node
from single_node import Cases, expect, until
from scripted_ranks import DURABLE, STORAGE, VERIFIED, Puppet, gather, save

WORLD = 2
SOON = 10000  # ms; the daemon's own deadline for a save is 120 s
ECANCELED, EBADMSG, EINVAL = -125, -74, -22


def job(d):
    return d.job()


def failed(d):
    return {s["step"] for s in job(d)["snapshots"] if s["state"] == "failed"}


def puppets(d, world=WORLD):
    return [Puppet(d, number, world) for number in range(world)]


def learns(rank, step, n, code, *words):
    """Begins the step although it has failed elsewhere."""
    rank.must("begin", step, STORAGE, n)
    rank.ask("fence", n)  # -ECANCELED when the daemon was there first
    answer = rank.ask("wait", n, DURABLE, SOON)
    expect(answer.code == code, answer)
    for word in words:
        expect(word in answer.text, answer, "does not say", word)


def given_up_elsewhere():
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        ranks[0].must("begin", 10, STORAGE, 0)
        ranks[0].must("drop", 0)
        until(lambda: 10 in failed(d), "step 10 has failed")
        learns(ranks[1], 10, 0, ECANCELED, "rank 0 went on without a fence")
        save(ranks, 11, 11, STORAGE, DURABLE, n=1)
        expect(d.committed() == [(1, 11)], "the store has", d.committed())
        until(lambda: not failed(d), "what nobody can begin any more is forgotten")


def several_given_up():
    """More than there are slots, and long before rank 1 comes to them."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        steps = range(10, 18)
        for step in steps:
            until(lambda step=step: ranks[0].ask("begin", step, STORAGE, 0).code == 0, "a slot")
            ranks[0].must("drop", 0)
            until(lambda step=step: step in failed(d), f"step {step} has failed")
        for step in steps:
            until(lambda step=step: ranks[1].ask("begin", step, STORAGE, 1).code == 0, "a slot")
            answer = ranks[1].ask("wait", 1, DURABLE, SOON)
            expect(answer.code == ECANCELED, answer)
        save(ranks, 20, 20, STORAGE, DURABLE, n=2)


def torn_elsewhere():
    """Found damaged while rank 1 has not begun."""
    with single_node.daemon() as d:
        d.start(failpoints="snapshot.digest=error:EIO@1")
        ranks = puppets(d)
        gather(ranks)
        for call in (("begin", 10, STORAGE, 0), ("fence", 0)):
            ranks[0].must(*call)
        expect(ranks[0].ask("wait", 0, DURABLE, SOON).code == EBADMSG, "rank 0 is not told")
        learns(ranks[1], 10, 0, EBADMSG, "torn or damaged")
        save(ranks, 11, 11, STORAGE, DURABLE, n=1)


def finished_elsewhere():
    """Rank 0 has said goodbye and will never begin it."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        save(ranks, 5, 5, STORAGE, DURABLE)
        ranks[0].must("close")
        ranks[1].must("begin", 10, STORAGE, 0)
        answer = ranks[1].ask("fence", 0)  # the daemon may have given it up already
        expect(answer.code in (0, ECANCELED), answer)
        answer = ranks[1].ask("wait", 0, DURABLE, SOON)
        expect(answer.code == ECANCELED and "rank 0 has finished" in answer.text, answer)


def read_back_too_slowly():
    """Checkpoints come faster than they can be read back: what waits is bounded, and nobody waits for what was left out."""
    with single_node.daemon() as d:
        d.start(failpoints="readback=delay:60000")
        ranks = puppets(d, 1)
        gather(ranks)
        for step in range(1, 60):
            save(ranks, step, step, STORAGE, DURABLE)
        waiting = len(job(d)["snapshots"])
        expect(waiting <= 36, waiting, "snapshots are kept for a read-back that does not come")
        expect(len(d.committed()) == 59, "the store has", d.committed())


def never_read_back():
    """A daemon that does not read back says so; nobody waits for the deadline."""
    with single_node.daemon(options=["--no-verify"]) as d:
        d.start()
        ranks = puppets(d, 1)
        gather(ranks)
        for call in (("begin", 1, STORAGE, 0), ("fence", 0), ("wait", 0, DURABLE, SOON)):
            ranks[0].must(*call)
        answer = ranks[0].ask("wait", 0, VERIFIED, SOON)
        expect(answer.code == EINVAL and "--no-verify" in answer.text, answer)
        expect(ranks[0].ask("poll", 0).code == DURABLE, "it is not durable any more")


def main():
    cases = Cases()
    for test in (given_up_elsewhere, several_given_up, torn_elsewhere, finished_elsewhere, read_back_too_slowly,
                 never_read_back):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
