"""Ranks that fail, or are lost, when others have ended already: `ckpt run` starts all of them again, since a new epoch needs all.
timeout: 600"""

import sys

import fleet
from fleet import Cases, expect, until
from puppets import CAPTURED, LATEST, MEMORY, STORAGE, Run, all_must, gather, holds, save

WORLD = 2


def began(d):
    """Both ranks at work, with one save. Who had finished is not one that is replaced: one restart is enough."""
    run = Run(d, WORLD, "--max-restarts", "1")
    ranks = run.ranks()
    gather(ranks)
    save(ranks, 10, 10, STORAGE)
    return run, ranks


def finishes(rank):
    rank.must("close")
    ends(rank)


def ends(rank):
    """Its stdin does: it exits with 0."""
    rank.pipe.close()


def fails(rank):
    """What it is told is no call."""
    rank.send("nonsense\n")


def again(run, old):
    """The rank that is started in its place. What the old one was told by is kept open until then: the new one would see it end."""
    rank = run.rank(old.number)
    old.pipe.close()
    return rank


def started(d, rank, times):
    until(lambda: d.text().count(f"rank {rank} runs again") == times, f"rank {rank} was started {times} times more")


def goes_on(d, run, old):
    """Rank 1 is there anew and waits for rank 0, which is started again, too. They have the newest state, and end; so does `ckpt run`."""
    started(d, 1, 1)
    ranks = [None, again(run, old)]
    for call in (("open",), ("table", 1000)):
        ranks[1].must(*call)
    ranks[1].say("join")
    started(d, 0, 1)
    expect("rank 0 had finished, but the job needs it again" in d.text(), d.text()[-2000:])
    ranks[0] = run.rank(0)
    for call in (("open",), ("table", 1000), ("join",)):
        ranks[0].must(*call)
    expect(ranks[1].answer().code == 0, "rank 1 does not join")
    restores(ranks)
    end_together(d, run, ranks)


def restores(ranks):
    for said in all_must(ranks, "restore", LATEST, 0):
        expect(said.startswith("10 1 "), "restored", said)
    holds(ranks, 10)


def end_together(d, run, ranks):
    for rank in ranks:
        finishes(rank)
    code = run.process.wait(fleet.DEADLINE)
    expect(code == 0, "ckpt run ended with", code, d.text()[-2000:])


def fails_after_its_farewell():
    """The other one has ended with 0."""
    with fleet.daemon() as d:
        run, ranks = began(d)
        finishes(ranks[0])
        ranks[1].must("close")
        until(lambda: 0 not in run.children().values(), "rank 0 has ended")
        fails(ranks[1])
        goes_on(d, run, ranks[1])


def fails_after_its_farewell_while_another_is_at_work():
    """Who is at work stays so, and goes into the next epoch."""
    with fleet.daemon() as d:
        run, ranks = began(d)
        ranks[1].must("close")
        fails(ranks[1])
        started(d, 1, 1)
        ranks[1] = again(run, ranks[1])
        ranks[1].must("open")
        ranks[1].must("table", 1000)
        all_must(ranks, "join")
        restores(ranks)
        save(ranks, 20, 20, MEMORY, CAPTURED)
        end_together(d, run, ranks)
        expect("rank 0 runs again" not in d.text(), d.text()[-2000:])


def is_lost_after_anothers_farewell():
    with fleet.daemon() as d:
        run, ranks = began(d)
        finishes(ranks[0])
        until(lambda: 0 not in run.children().values(), "rank 0 has ended")
        run.strike(1)
        goes_on(d, run, ranks[1])


def says_farewell_when_another_is_lost():
    """It has not heard of the new epoch, or did not care; it ends with 0 all the same."""
    with fleet.daemon() as d:
        run, ranks = began(d)
        run.strike(1)
        until(lambda: "epoch 2: rank 1 is lost" in d.text(), "the epoch is raised")
        finishes(ranks[0])
        goes_on(d, run, ranks[1])


def main():
    cases = Cases()
    for test in (fails_after_its_farewell, fails_after_its_farewell_while_another_is_at_work, is_lost_after_anothers_farewell,
                 says_farewell_when_another_is_lost):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
