"""Jobs on several nodes whose coordinator is elected in etcd: whichever node coordinates, another one does when it is lost, and nothing that was told durable is
lost with it."""

import json
import signal
import sys

from elected_nodes import HERE, NAMES, WAIT, Rank, back, nodes, restored, saved, spread, told_of_a_new_epoch
from etcd import why_not
from scripted_ranks import CAPTURED, MEMORY, all_must, each, roll_back
from single_node import Cases, expect, until


def one_of_those_that_have_ranks_is_elected():
    with nodes() as n:
        ranks = spread(n)
        saved(ranks, 7)
        who = n.elected()
        expect(sum(HERE in n[name].text() for name in NAMES) == 1, "more than one were elected")
        for name in NAMES:
            text = n[name].status()["cluster"]["registry"]
            expect(text["synced"] and text["coordinates"] == (name == who), name, text)


def its_node_is_lost():
    with nodes() as n:
        ranks = spread(n)
        saved(ranks, 7)
        who = n.elected()
        at = NAMES.index(who)
        ranks[at].kill()
        n[who].kill()
        other = n.elected(who)
        expect(other != who, other)
        told_of_a_new_epoch([r for r in ranks if r is not ranks[at]])
        n[who].start()
        ranks[at] = Rank(n[who], at, len(NAMES), local=1)
        back(ranks)
        restored(ranks, 7)
        saved(ranks, 8)
        expect(n.coordinator() == other, "it has moved again")


def its_daemon_is_stopped_beyond_its_lease():
    """Whatever it still does when it goes on, nobody heeds it."""
    with nodes() as n:
        ranks = spread(n)
        saved(ranks, 7)
        who = n.elected()
        n[who].process.send_signal(signal.SIGSTOP)
        other = n.elected(who)
        n[who].process.send_signal(signal.SIGCONT)
        until(lambda: "it coordinates nothing any more" in n[who].text() or "does not coordinate it any more" in n[who].text(),
              "it has seen that its lease is over")
        until(lambda: any(word in n[other].text() for word in ("go on in epoch 1", "epoch 2:")), "the other one has decided")
        if "epoch 2:" in n[other].text():  # else it was back in time, and all of it goes on
            told_of_a_new_epoch(ranks)
            back(ranks)
            restored(ranks, 7)
        saved(ranks, 8)
        expect(n.coordinator() == other, n.coordinator())


def without_etcd(n):
    """It is stopped, until all nodes say that nobody coordinates."""
    for member in n.etcd:
        member.stop()
    for name in NAMES:
        until(lambda d=n[name]: "no node coordinates it, and the registry is away" in json.dumps(d.status()), f"{name} says what it waits for")


def etcd_is_back(n):
    for member in n.etcd:
        member.go_on()
    n.elected()


def saved_to_memory(ranks, steps):
    for step in steps:
        all_must(ranks, "slot", WAIT)
        for call in (("set", step), ("begin", step, MEMORY, 0), ("fence", 0)):
            all_must(ranks, *call)


def etcd_is_away_for_a_while():
    """Training goes on, and saves to memory, more of them than there are slots; what waits says so; when it is back the newest one is good."""
    with nodes(members="xyz") as n:
        ranks = spread(n)
        saved(ranks, 7)
        n.elected()
        without_etcd(n)
        saved_to_memory(ranks, range(8, 15))
        etcd_is_back(n)
        all_must(ranks, "wait", 0, CAPTURED, WAIT)
        saved(ranks, 20)  # in the same epoch: no rank has joined again
        for name in NAMES:
            expect(n[name].job()["epoch"] == 1, n[name].job())


def a_rank_is_lost_while_etcd_is_away():
    """They go back to the newest step that all have complete in memory, although nobody coordinated the job when it was saved."""
    with nodes(members="xyz") as n:
        ranks = spread(n)
        saved(ranks, 7)
        n.elected()
        without_etcd(n)
        saved_to_memory(ranks, range(8, 15))
        ranks[1].kill()
        etcd_is_back(n)
        told_of_a_new_epoch([ranks[0], ranks[2]])
        ranks[1] = Rank(n[NAMES[1]], 1, len(NAMES), local=1)
        back(ranks)
        restored(ranks, 14)
        saved(ranks, 15)


def a_save_costs_nothing_in_etcd_and_an_epoch_little():
    """Unless a busy machine keeps a node from its lease meanwhile: then it is elected anew, or another one is."""
    def costs(n, ranks, step):
        before = n.etcd.transactions()
        for more in range(3):
            saved(ranks, step + more)
        saves = n.etcd.transactions()
        ranks[1].kill()
        told_of_a_new_epoch([ranks[0], ranks[2]])
        ranks[1] = Rank(n[NAMES[1]], 1, len(NAMES), local=1)
        back(ranks)
        restored(ranks, step + 2)
        return saves - before, n.etcd.transactions() - saves
    with nodes() as n:
        ranks = spread(n)
        n.elected()
        seen = []
        for turn in range(3):
            saves, epoch = costs(n, ranks, 10 * (turn + 1))
            seen.append((saves, epoch))
            if saves == 0 and 0 < epoch <= 4:
                return
        expect(False, f"transactions of three saves, and of an epoch: {seen}")


def a_member_of_etcd_is_lost_with_the_coordinator():
    with nodes(members="xyz") as n:
        ranks = spread(n)
        saved(ranks, 7)
        who = n.elected()
        next(iter(n.etcd)).kill()
        n[who].kill()
        n.elected(who)
        n[who].start()
        n.meet()
        told_of_a_new_epoch(ranks)
        back(ranks)
        restored(ranks, 7)
        saved(ranks, 8)


def jobs_have_coordinators_of_their_own():
    """Those that begin on other nodes are not coordinated by one that has no part in them, and their loss is none of the others'."""
    with nodes(names="abcd") as n:
        one, two = spread(n, "ab", CKPT_JOB="one"), spread(n, "cd", CKPT_JOB="two")
        saved(one, 3)
        saved(two, 4)
        expect(n.elected(job="one") in "ab" and n.elected(job="two") in "cd", n.coordinator("one"), n.coordinator("two"))
        n[n.coordinator("one")].kill()
        saved(two, 5)


def what_the_job_went_back_from_is_known_to_the_next_one():
    """The coordinator is lost before anything was saved since."""
    with nodes() as n:
        ranks = spread(n)
        for step in (1, 2, 3):
            saved(ranks, step)
        who = n.elected()
        roll_back(n[next(name for name in NAMES if name != who)], 1)
        record = json.loads(n.etcd.get("/ckpt/jobs/main/epoch"))
        expect(record["back"] == [[2, 1, 1]], record)
        told_of_a_new_epoch(ranks)
        lost = NAMES.index(who)
        n[who].kill()
        ranks[lost].kill()
        n.elected(who)
        n[who].start()
        n.meet()
        ranks[lost] = Rank(n[who], lost, len(NAMES), local=1)
        back(ranks)
        restored(ranks, 1)
        saved(ranks, 2)


def main():
    return Cases().run_chosen([
        ("one of those that have ranks is elected", one_of_those_that_have_ranks_is_elected),
        ("the node of the coordinator is lost", its_node_is_lost),
        ("the daemon of the coordinator is stopped beyond its lease", its_daemon_is_stopped_beyond_its_lease),
        ("etcd is away for a while", etcd_is_away_for_a_while),
        ("a rank is lost while etcd is away", a_rank_is_lost_while_etcd_is_away),
        ("a save costs nothing in etcd and an epoch little", a_save_costs_nothing_in_etcd_and_an_epoch_little),
        ("a member of etcd is lost with the coordinator", a_member_of_etcd_is_lost_with_the_coordinator),
        ("what the job went back from is known to the next one", what_the_job_went_back_from_is_known_to_the_next_one),
        ("jobs have coordinators of their own", jobs_have_coordinators_of_their_own),
    ], why_not())


if __name__ == "__main__":
    sys.exit(main())
