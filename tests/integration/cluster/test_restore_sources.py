"""The loss of a node with its memory: the job goes on elsewhere, without any store, from the copies that other nodes hold."""

import sys

from loopback_cluster import loopback_cluster
from scripted_ranks import LATEST, MEMORY, Puppet, all_must, each, gather, holds, save
from tap import Cases, equal, expect, has, until

REPLICATED, CAPTURED = 2, 1
ESTALE = -116
ELEMENTS = 1_000_000  # of 4 bytes


def ranks_on(daemon, world=2):
    ranks = [Puppet(daemon, number, world) for number in range(world)]
    gather(ranks, ELEMENTS)
    return ranks


def lose(daemon):
    """The node, with all that ran on it, at once: its daemon tells nobody of the end of its ranks."""
    daemon.stands(lambda: True)
    daemon.close()


def holder(daemons):
    return next(name for name, daemon in daemons.items() if daemon.alive() and daemon.held())


def restored(ranks, step, epoch, source):
    for text in all_must(ranks, "restore", LATEST):
        equal(text, f"{step} {epoch} {source}")


def on_a_node_that_held_nothing():
    with loopback_cluster("abc") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 6, 2, target=MEMORY, level=REPLICATED)
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        third = ({"b", "c"} - {holder(daemons)}).pop()
        lose(daemons["a"])
        again = ranks_on(daemons[third])
        all_must(again, "set", 99)
        for answer in each(again, "restore", LATEST):
            has(answer.text, "epoch 1 has begun on other nodes")
        all_must(again, "join")
        restored(again, 7, 1, "peer")
        holds(again, 3)
        recovery = daemons[third].job()["recoveries"]["recent"][-1]
        equal((recovery["source"], recovery["step"], recovery["passed_over"]), ("peer", 7, ""))
        held = ({"b", "c"} - {third}).pop()
        equal([(r["source"], r["from"], r["skipped"]) for r in recovery["ranks"]], [("peer", held, "memory: it is not in this node's")] * 2)
        equal(daemons[third].status()["cluster"]["fetched"], 2)
        all_must(again, "join")
        save(again, 8, 4, target=MEMORY, level=REPLICATED)


def on_the_holder_itself():
    with loopback_cluster("ab") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        lose(daemons["a"])
        again = ranks_on(daemons["b"])
        restored(again, 7, 1, "peer")
        holds(again, 3)


def what_was_only_captured_is_lost_with_the_node():
    with loopback_cluster("ab", a=["--net-bandwidth", "64K"]) as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=CAPTURED)
        lose(daemons["a"])
        again = ranks_on(daemons["b"])
        for answer in each(again, "restore", LATEST):
            has(answer.text, "there is no checkpoint to restore")


def the_job_goes_on_in_a_later_epoch_than_that_of_the_lost_node():
    """Which the other nodes alone know of."""
    with loopback_cluster("abc") as daemons:
        ranks = ranks_on(daemons["a"])
        all_must(ranks, "join")  # once more: epoch 2
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        third = ({"b", "c"} - {holder(daemons)}).pop()
        lose(daemons["a"])
        again = ranks_on(daemons[third])
        for answer in each(again, "restore", LATEST):
            has(answer.text, "epoch 2 has begun on other nodes")
        all_must(again, "join")
        restored(again, 7, 2, "peer")
        holds(again, 3)
        expect(int(again[0].ask("epoch").code) == 3, again[0].ask("epoch"))


def own_memory_comes_first_and_then_the_copies():
    """A killed rank is restored from its arena; the copies are there for the loss of the node."""
    with loopback_cluster("ab") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        ranks[1].kill()
        ranks[1] = Puppet(daemons["a"], 1, 2)
        all_must(ranks[1:], "open")
        all_must(ranks[1:], "table", ELEMENTS, 0)
        all_must(ranks, "join")
        restored(ranks, 7, 1, "memory")
        holds(ranks, 3)


def one_rank_of_two_nodes_is_replaced_on_a_third():
    """Each rank brings only what its own node lacks."""
    with loopback_cluster("abc") as daemons:
        ranks = [Puppet(daemons[name], number, 2, local=1) for number, name in enumerate("ab")]
        gather(ranks, ELEMENTS)
        for rank, value in zip(ranks, (30, 31)):
            rank.must("set", value)
        for call in (("begin", 7, MEMORY, 0), ("fence", 0), ("wait", 0, REPLICATED, 60000)):
            all_must(ranks, *call)
        lose(daemons["b"])
        until(lambda: ranks[0].ask("begin", 8, MEMORY, 1).code == ESTALE, "rank 0 is told")
        ranks[1] = Puppet(daemons["c"], 1, 2, local=1)
        ranks[1].must("open")
        ranks[1].must("table", ELEMENTS, 0)
        all_must(ranks, "set", 99)
        all_must(ranks, "join")
        texts = all_must(ranks, "restore", LATEST)
        equal(texts, ["7 1 memory", "7 1 peer"])
        for rank, value in zip(ranks, (30, 31)):
            equal(rank.must("get"), str(value))
        equal(daemons["a"].status()["cluster"]["fetched"], 0)
        recovery = daemons["c"].job()["recoveries"]["recent"][-1]
        equal((recovery["source"], recovery["ok"]), ("peer", True))
        equal([(r["rank"], r["source"]) for r in recovery["ranks"]], [(1, "peer")])
        here = daemons["a"].job()["recoveries"]["recent"][-1]
        equal([(r["rank"], r["source"]) for r in here["ranks"]], [(0, "memory")])
        # The copies of the lost node are made anew, before the next save.
        until(lambda: all(daemons[n].job()["copies"]["ranks_missing"] == 0 and not daemons[n].job()["copies"]["under_way"] for n in "ac"),
              "copies")
        save(ranks, 9, 5, target=MEMORY, level=REPLICATED)


cases = Cases()
cases.run_beside([("on a node that held nothing", on_a_node_that_held_nothing),
                  ("on the holder itself", on_the_holder_itself),
                  ("what was only captured is lost with the node", what_was_only_captured_is_lost_with_the_node),
                  ("the job goes on in a later epoch than that of the lost node", the_job_goes_on_in_a_later_epoch_than_that_of_the_lost_node),
                  ("own memory comes first, and then the copies", own_memory_comes_first_and_then_the_copies),
                  ("one rank of two nodes is replaced on a third", one_rank_of_two_nodes_is_replaced_on_a_third)])
sys.exit(cases.end())
