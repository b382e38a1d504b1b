"""A snapshot whose fence was forgotten is never promoted; in strict mode a mutation during the capture is caught and the tensor named;
every wait has a deadline and names who is late, at begin, fence, register, join and restore."""

import os
import signal
import sys

import single_node
from tap import Cases, expect, until

SMALL = ("--elements", 3000, "--storage", 1)
SOON = 6000  # ms; a rank that is late on purpose is so by thrice that. A busy machine makes others late, but not by so much
PATIENCE = 60000  # ms, where nobody is to be late


def ended(*ranks):
    for rank in ranks:
        expect(rank.wait() == 0, f"rank {rank.number} ended with {rank.process.returncode}: {rank.lines()[-3:]}")


def said(rank, *words):
    """A line with all of these words."""
    return next((line for line in rank.lines() if all(w in line for w in words)), None)


def must_say(rank, *words):
    expect(said(rank, *words), f"rank {rank.number} does not say {words}:", *rank.lines())


def forgotten_fence():
    with single_node.daemon() as d:
        d.start()
        ranks = [d.rank(0, 2, *SMALL, "--steps", 6, "--wait", "durable", "--deadline", SOON, "--skip-fence", 3),
                 d.rank(1, 2, *SMALL, "--steps", 6, "--wait", "durable", "--deadline", SOON)]
        ended(*ranks)
        for rank in ranks:
            expect(3 not in {step for _, step in rank.reached("captured")}, "step 3 was promoted")
            expect(6 in {step for _, step in rank.reached("durable")}, "later steps are not saved:", *rank.lines())
        must_say(ranks[1], "failed 3", "rank 0")
        expect(3 not in {step for _, step in d.directories()}, "step 3 is in the store")


def forgotten_at_the_end():
    """Nothing follows that would give it up: the end of the session does."""
    with single_node.daemon() as d:
        d.start()
        rank = d.rank(0, 1, *SMALL, "--steps", 3, "--deadline", SOON, "--skip-fence", 3)
        ended(rank)
        expect(3 not in {step for _, step in rank.reached("captured")}, "step 3 was promoted")
        expect(3 not in {step for _, step in d.directories()}, "step 3 is in the store")


def strict_mutation():
    with single_node.daemon() as d:
        d.start()
        # Large enough that the copy is still under way when begin has returned.
        job = ("--elements", 4 << 20, "--storage", 1, "--steps", 5, "--wait", "durable", "--deadline", 20000, "--strict")
        ranks = [d.rank(0, 2, *job, "--mutate", 3), d.rank(1, 2, *job)]
        ended(*ranks)
        must_say(ranks[0], "fence 3", "EBADMSG", "own")
        for rank in ranks:
            expect(3 not in {step for _, step in rank.reached("captured")}, "step 3 was promoted")
            expect(5 in {step for _, step in rank.reached("durable")}, "later steps are not saved:", *rank.lines())
        expect(3 not in {step for _, step in d.directories()}, "step 3 is in the store")


def late(where, option, steps):
    """Rank 1 is late at step 3, by that option of drive; rank 0 is told by whom and where."""
    with single_node.daemon(options=["--save-timeout", 2 * SOON]) as d:
        d.start()
        job = (*SMALL, "--steps", steps, "--wait", "captured", "--deadline", SOON)
        ranks = [d.rank(0, 2, *job), d.rank(1, 2, *job, option, 3)]
        ended(*ranks)
        must_say(ranks[0], "late 3", "rank 1", where)


def late_at_begin():
    late("begin", "--late", 4)


def late_at_fence():
    late("fence", "--late-fence", 3)


def save_timeout():
    """The daemon's own deadline gives the snapshot up and says who was late."""
    with single_node.daemon(options=["--save-timeout", SOON // 2]) as d:
        d.start()
        ranks = [d.rank(0, 2, *SMALL, "--steps", 4, "--wait", "captured", "--deadline", PATIENCE),
                 d.rank(1, 2, *SMALL, "--steps", 4, "--wait", "captured", "--deadline", SOON, "--late-fence", 3)]
        ended(*ranks)
        must_say(ranks[0], "failed 3", "ETIMEDOUT", "rank 1", "fence")
        expect(3 not in {step for _, step in d.directories()}, "step 3 is in the store")


def late_at_register():
    with single_node.daemon() as d:
        d.start()
        rank = d.rank(0, 2, *SMALL, "--join", 800)
        expect(rank.wait() == 1, "rank 0 ended with", rank.process.returncode)
        must_say(rank, "refused join ETIMEDOUT", "rank 1 (absent)")


def late_at_join():
    with single_node.daemon() as d:
        d.start()
        ranks = [d.rank(r, 3, *SMALL, "--until-file", d.top / "stop", "--pause", 5, "--join", SOON if not r else PATIENCE) for r in range(3)]
        until(lambda: all(r.reached("captured") for r in ranks), "they work")
        os.kill(ranks[1].process.pid, signal.SIGSTOP)
        ranks[2].kill()
        expect(ranks[0].wait() == 1, "rank 0 ended with", ranks[0].process.returncode)
        must_say(ranks[0], "refused join ETIMEDOUT", "rank 1", "2 (absent)")


def late_at_restore():
    with single_node.daemon() as d:
        d.start()
        ranks = [d.rank(0, 2, *SMALL, "--steps", 2, "--join", SOON),
                 d.rank(1, 2, *SMALL, "--steps", 2, "--join", SOON, "--late-restore")]
        expect(ranks[0].wait() == 1, "rank 0 ended with", ranks[0].process.returncode)
        must_say(ranks[0], "refused restore ETIMEDOUT", "rank 1 (joined)")


def main():
    cases = Cases()
    rows = [(test.__name__.replace("_", " "), test) for test in (late_at_begin, late_at_fence, save_timeout, late_at_restore, late_at_join, forgotten_fence,
                                                                 forgotten_at_the_end, late_at_register, strict_mutation)]
    cases.run_beside(rows)
    return cases.end()


sys.exit(main())
