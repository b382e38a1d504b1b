"""A job whose ranks are on several nodes: it enters, saves to memory and goes on as one, whichever node or rank is lost."""

import signal
import sys

import single_node
from single_node import Cases, expect, until
from loopback_cluster import loopback_cluster
from scripted_ranks import CAPTURED, LATEST, MEMORY, Puppet, all_must, each, gather

REPLICATED = 2
ESTALE, ETIMEDOUT, EINVAL = -116, -110, -22
NAMES = "abc"


def nodes(timeout="10s"):
    return loopback_cluster(NAMES, **{name: ("--peer-timeout", timeout) for name in NAMES})


def sees(d, other, times=1):
    until(lambda: d.text().count(f"node {other} is there") >= times, f"node {other} is seen in {d.log}")


def spread(daemons, where, local):
    """Rank r on the daemon where[r]."""
    return [Puppet(daemons[name], r, len(where), local=local) for r, name in enumerate(where)]


def epochs(ranks):
    return {rank.ask("epoch").code for rank in ranks}


def saved(ranks, step):
    for call in (("set", step), ("begin", step, MEMORY, 0), ("fence", 0), ("wait", 0, CAPTURED, 20000)):
        all_must(ranks, *call)


def restored(ranks, step):
    for rank, text in zip(ranks, all_must(ranks, "restore", LATEST, 20000)):
        expect(text.split()[0] == str(step), f"rank {rank.number} restored {text}")
    for rank in ranks:
        expect(rank.must("get") == str(step), f"rank {rank.number} has {rank.must('get')}")


def told_of_a_new_epoch(ranks):
    for rank in ranks:
        until(lambda rank=rank: rank.ask("begin", 10**6, MEMORY, 5).code == ESTALE, f"rank {rank.number} is told")


def ranks_of_three_nodes_save_and_restore():
    with nodes() as daemons:
        ranks = spread(daemons, "aabbcc", 2)
        gather(ranks)
        expect(len(epochs(ranks)) == 1, "the ranks are in different epochs")
        saved(ranks, 7)
        all_must(ranks, "join")
        restored(ranks, 7)
        saved(ranks, 8)


def the_first_node_needs_no_ranks():
    with nodes() as daemons:
        ranks = spread(daemons, "bc", 1)
        gather(ranks)
        saved(ranks, 7)


def a_rank_that_dies_is_replaced(where="abc", victim=1):
    with nodes() as daemons:
        ranks = spread(daemons, where, 1)
        gather(ranks)
        saved(ranks, 7)
        ranks[victim].kill()
        others = [r for r in ranks if r is not ranks[victim]]
        told_of_a_new_epoch(others)
        ranks[victim] = Puppet(daemons[where[victim]], victim, len(where), local=1)
        for call in (("open",), ("table", 1000, 0)):
            ranks[victim].must(*call)
        all_must(ranks, "join")
        restored(ranks, 7)
        saved(ranks, 9)


def a_daemon_that_is_restarted_keeps_what_is_in_memory(name):
    """Its ranks hold the arenas; of a member, and of the coordinator."""
    with nodes() as daemons:
        ranks = spread(daemons, "abc", 1)
        gather(ranks)
        saved(ranks, 7)
        before = epochs(ranks)
        daemons[name].kill()
        daemons[name].start()
        for other in set(NAMES) - {name}:
            sees(daemons[other], name, 2)
        told_of_a_new_epoch(ranks)
        all_must(ranks, "join")
        expect(epochs(ranks).isdisjoint(before), "the epoch is that of before")
        restored(ranks, 7)
        saved(ranks, 9)


def a_node_that_is_silent_is_lost_and_comes_back():
    with nodes("2s") as daemons:
        ranks = spread(daemons, "abc", 1)
        gather(ranks)
        saved(ranks, 7)
        daemons["c"].process.send_signal(signal.SIGSTOP)
        until(lambda: "node c is lost" in daemons["a"].text(), "the node is missed")
        told_of_a_new_epoch(ranks[:2])
        answers = each(ranks[:2], "join", 1000)
        expect([a.code for a in answers] == [ETIMEDOUT] * 2, answers)
        daemons["c"].process.send_signal(signal.SIGCONT)
        told_of_a_new_epoch(ranks[2:])
        all_must(ranks, "join")
        restored(ranks, 7)


def a_save_in_flight_when_a_node_is_lost_is_poisoned():
    with nodes() as daemons:
        ranks = spread(daemons, "abc", 1)
        gather(ranks)
        saved(ranks, 7)
        for call in (("set", 8), ("begin", 8, MEMORY, 1), ("fence", 1)):
            all_must(ranks[:2], *call)
        ranks[2].must("set", 8)
        daemons["c"].kill()
        told_of_a_new_epoch(ranks[:2])
        for answer in each(ranks[:2], "wait", 1, CAPTURED, 20000):
            expect(answer.code == ESTALE, answer)
        daemons["c"].start()
        told_of_a_new_epoch(ranks[2:])
        all_must(ranks, "join")
        restored(ranks, 7)


def nobody_holds_copies_of_a_job_that_has_ended():
    with nodes() as daemons:
        ranks = spread(daemons, "ab", 1)
        gather(ranks)
        for call in (("set", 7), ("begin", 7, MEMORY, 0), ("fence", 0), ("wait", 0, REPLICATED, 20000)):
            all_must(ranks, *call)
        expect(any(d.held() for d in daemons.values()), "nobody holds a copy")
        all_must(ranks, "close")
        for rank in ranks:
            rank.kill()
        until(lambda: not any(d.held() for d in daemons.values()), "the copies are given up")


def contradictions_are_told():
    with nodes() as daemons:
        ranks = [Puppet(daemons["a"], 0, 2, local=1), Puppet(daemons["b"], 0, 2, local=1)]
        for call in (("open",), ("table", 1000, 0)):
            all_must(ranks, *call)
        answers = each(ranks, "join", 5000)
        expect(EINVAL in [a.code for a in answers] and "rank 0 is on another node, too" in str(answers), answers)
        other = Puppet(daemons["c"], 0, 3, local=1)
        for call in (("open",), ("table", 1000, 0)):
            other.must(*call)
        answer = other.ask("join", 5000)
        expect(answer.code == ETIMEDOUT and "runs with world size 2" in answer.text, answer)


def a_blob_of_the_job_that_one_rank_lacks_is_refused():
    with single_node.daemon() as d:
        d.start()
        ranks = [Puppet(d, number, 2) for number in range(2)]
        for call in (("open",), ("table", 1000, 0)):
            all_must(ranks, *call)
        ranks[1].must("blob")
        for answer in each(ranks, "join", 20000):
            expect(answer.code == EINVAL and 'blob "loader" of the job is registered on rank 1, but not on rank 0' in answer.text, answer)


def a_blob_of_the_job_that_one_node_lacks_is_refused():
    """Not before all have come: until then another node may wait for what nobody is against."""
    with nodes() as daemons:
        ranks = spread(daemons, "aabbcc", 2)
        for call in (("open",), ("table", 1000, 0)):
            all_must(ranks, *call)
        all_must(ranks[:4], "blob")
        for answer in each(ranks, "join", 20000):
            expect(answer.code == EINVAL and 'blob "loader" of the job is registered on rank 0, but not on rank 4' in answer.text, answer)
        for rank in ranks[4:]:
            rank.must("close")
            rank.must("open")
            rank.must("table", 1000, 0)
            rank.must("blob")
        all_must(ranks, "join", 20000)
        saved(ranks, 7)


def without_a_cluster_it_is_refused():
    with single_node.daemon() as d:
        d.start()
        answer = Puppet(d, 0, 2, local=1).ask("open", 1000)
        expect(answer.code < 0 and "this ckptd is in no cluster" in answer.text, answer)


def main():
    cases = Cases()
    cases.run_beside([("ranks of three nodes save and restore", ranks_of_three_nodes_save_and_restore),
                      ("the first node needs no ranks", the_first_node_needs_no_ranks),
                      ("a rank that dies is replaced", a_rank_that_dies_is_replaced),
                      ("a rank of the first node that dies is replaced", a_rank_that_dies_is_replaced, "abc", 0),
                      ("a member that is restarted keeps what is in memory", a_daemon_that_is_restarted_keeps_what_is_in_memory, "b"),
                      ("a coordinator that is restarted keeps what is in memory", a_daemon_that_is_restarted_keeps_what_is_in_memory, "a"),
                      ("a node that is silent is lost and comes back", a_node_that_is_silent_is_lost_and_comes_back),
                      ("a save in flight when a node is lost is poisoned", a_save_in_flight_when_a_node_is_lost_is_poisoned),
                      ("nobody holds copies of a job that has ended", nobody_holds_copies_of_a_job_that_has_ended),
                      ("contradictions are told", contradictions_are_told),
                      ("a blob of the job that one rank lacks is refused", a_blob_of_the_job_that_one_rank_lacks_is_refused),
                      ("a blob of the job that one node lacks is refused", a_blob_of_the_job_that_one_node_lacks_is_refused),
                      ("without a cluster it is refused", without_a_cluster_it_is_refused)])
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
