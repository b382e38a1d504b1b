"""Ranks that fail, or are lost, when others have ended already: `ckpt run` starts all of them again, since a new epoch needs all.
timeout: 600"""

import contextlib
import sys
import tempfile

import single_node
from single_node import Cases, expect, until
from loopback_cluster import loopback_cluster
from scripted_ranks import CAPTURED, LATEST, MEMORY, STORAGE, Run, all_must, gather, holds, save

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
    code = run.process.wait(single_node.DEADLINE)
    expect(code == 0, "ckpt run ended with", code, d.text()[-2000:])


def fails_after_its_goodbye():
    """The other one has ended with 0."""
    with single_node.daemon() as d:
        run, ranks = began(d)
        finishes(ranks[0])
        ranks[1].must("close")
        until(lambda: 0 not in run.children().values(), "rank 0 has ended")
        fails(ranks[1])
        goes_on(d, run, ranks[1])


def fails_after_its_goodbye_while_another_is_at_work():
    """Who is at work stays so, and goes into the next epoch."""
    with single_node.daemon() as d:
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


def is_lost_after_anothers_goodbye():
    with single_node.daemon() as d:
        run, ranks = began(d)
        finishes(ranks[0])
        until(lambda: 0 not in run.children().values(), "rank 0 has ended")
        run.strike(1)
        goes_on(d, run, ranks[1])


def says_goodbye_when_another_is_lost():
    """It has not heard of the new epoch, or did not care; it ends with 0 all the same."""
    with single_node.daemon() as d:
        run, ranks = began(d)
        run.strike(1)
        until(lambda: "epoch 2: rank 1 is lost" in d.text(), "the epoch is raised")
        finishes(ranks[0])
        goes_on(d, run, ranks[1])


# ---- on two nodes

PATIENCE = 4  # seconds for which ranks wait for each other, and who has finished for the coordinator


@contextlib.contextmanager
def on_two_nodes(*options):
    """A rank on each, with one save that both nodes wrote."""
    options = "--store", tempfile.mkdtemp(), *options
    with loopback_cluster("ab", a=options, b=options) as daemons:
        runs = [Run(daemons[name], 1, "--nodes", "2", "--node-rank", str(k), store=False, first=k) for k, name in enumerate("ab")]
        ranks = [run.rank(k) for k, run in enumerate(runs)]
        gather(ranks)
        save(ranks, 10, 10, STORAGE)
        yield daemons, runs, ranks


def stays(daemons, runs, ranks, k):
    """The rank of node k finishes, and the launcher says why it does not."""
    finishes(ranks[k])
    until(lambda: k not in runs[k].children().values(), f"rank {k} has ended")
    until(lambda: "it stays until those of the others have" in daemons["ab"[k]].text(), "it is said why the launcher stays")


def end_everywhere(daemons, runs):
    for name, run in zip("ab", runs):
        code = run.process.wait(single_node.DEADLINE)
        expect(code == 0, name, "ended with", code)
    for name in "ab":
        until(lambda name=name: not daemons[name].job(), f"the job has ended on {name}")


def go_to_the_end(daemons, runs, ranks):
    """All are there again, have the newest state and finish."""
    gather(ranks)
    restores(ranks)
    save(ranks, 20, 20, MEMORY, CAPTURED)
    for rank in ranks:
        finishes(rank)
    end_everywhere(daemons, runs)


def a_node_whose_ranks_have_ended_stays(lost):
    """Until those of the other node have: one of them is lost, and all go back together."""
    with on_two_nodes() as (daemons, runs, ranks):
        stays(daemons, runs, ranks, 1 - lost)
        runs[lost].strike(lost)
        for k, name in enumerate("ab"):
            started(daemons[name], k, 1)
        go_to_the_end(daemons, runs, [again(run, rank) for run, rank in zip(runs, ranks)])


def waits(rank):
    """In a new epoch, for all the others."""
    rank.must("open")
    rank.must("table", 1000)
    rank.say("join")


def meet(daemons, runs, ranks):
    """Rank 1 is there anew and waits; rank 0, which had finished, is started again. Both have the newest state, and end."""
    started(daemons["b"], 1, 1)
    ranks[1] = again(runs[1], ranks[1])
    waits(ranks[1])
    started(daemons["a"], 0, 1)
    ranks[0] = again(runs[0], ranks[0])
    waits(ranks[0])
    for rank in ranks:
        expect(rank.answer().code == 0, "rank", rank.number, "does not join")
    restores(ranks)
    for rank in ranks:
        finishes(rank)
    end_everywhere(daemons, runs)


def a_rank_fails_after_its_goodbye_when_those_of_another_node_have_ended():
    with on_two_nodes() as (daemons, runs, ranks):
        stays(daemons, runs, ranks, 0)
        ranks[1].must("close")
        fails(ranks[1])
        meet(daemons, runs, ranks)


def stays_when_another_is_lost(daemons, runs, ranks):
    runs[1].strike(1)
    until(lambda: "epoch 2: rank 1 is lost" in daemons["a"].text(), "the epoch is raised")
    stays(daemons, runs, ranks, 0)


def a_node_says_goodbye_when_a_rank_of_another_one_is_lost():
    """It has not heard of the new epoch, or did not care: who waits in that needs it."""
    with on_two_nodes() as (daemons, runs, ranks):
        stays_when_another_is_lost(daemons, runs, ranks)
        meet(daemons, runs, ranks)


def a_rank_that_is_needed_takes_no_part():
    """Again and again it would be started."""
    with on_two_nodes() as (daemons, runs, ranks):
        stays_when_another_is_lost(daemons, runs, ranks)
        ranks[1] = again(runs[1], ranks[1])
        waits(ranks[1])
        started(daemons["a"], 0, 1)
        ranks[0] = again(runs[0], ranks[0])
        ranks[0].must("open")
        ranks[0].must("table", 1000)
        finishes(ranks[0])
        code = runs[0].process.wait(single_node.DEADLINE)
        expect(code == 0, "node a ended with", code)
        expect("its ranks were needed again, and have ended without taking part" in daemons["a"].text(), "nobody says why")


def a_node_whose_ranks_have_ended_outlives_the_coordinator():
    """That begins a new epoch when it is back, in which all ranks are needed."""
    with on_two_nodes() as (daemons, runs, ranks):
        stays(daemons, runs, ranks, 1)
        daemons["a"].kill()
        daemons["a"].start()
        started(daemons["b"], 1, 1)
        ranks[1] = again(runs[1], ranks[1])
        waits(ranks[1])
        ranks[0].must("join")
        expect(ranks[1].answer().code == 0, "rank 1 does not join")
        restores(ranks)
        for rank in ranks:
            finishes(rank)
        end_everywhere(daemons, runs)


def a_node_whose_ranks_have_ended_is_let_go(how):
    """By the others' end, or when nobody is left who could tell of that."""
    with on_two_nodes("--join-timeout", f"{PATIENCE}s") as (daemons, runs, ranks):
        stays(daemons, runs, ranks, 1)
        if how == "end":
            finishes(ranks[0])
            end_everywhere(daemons, runs)
            return
        if how == "signal":
            runs[1].process.terminate()
            why = "SIGTERM: those of the other nodes are not waited for"
        else:
            daemons["a" if how == "coordinator" else "b"].kill()
            why = "this node does not wait for them" if how == "daemon" else "its launcher is let go"
        code = runs[1].process.wait(single_node.DEADLINE)
        expect(code == 0, "node b ended with", code)
        expect(why in daemons["b"].text(), "nobody says why")


def main():
    cases = Cases()
    for test in (fails_after_its_goodbye, fails_after_its_goodbye_while_another_is_at_work, is_lost_after_anothers_goodbye,
                 says_goodbye_when_another_is_lost):
        cases.run(test.__name__.replace("_", " "), test)
    for lost in (0, 1):
        cases.run(f"a node whose ranks have ended stays: rank {lost} is lost", a_node_whose_ranks_have_ended_stays, lost)
    for test in (a_rank_fails_after_its_goodbye_when_those_of_another_node_have_ended, a_node_says_goodbye_when_a_rank_of_another_one_is_lost,
                 a_rank_that_is_needed_takes_no_part, a_node_whose_ranks_have_ended_outlives_the_coordinator):
        cases.run(test.__name__.replace("_", " "), test)
    for how in ("end", "signal", "coordinator", "daemon"):
        cases.run(f"a node whose ranks have ended is let go: {how}", a_node_whose_ranks_have_ended_is_let_go, how)
    return cases.end()


sys.exit(main())
