"""Jobs on several nodes whose coordinator is elected in etcd: whichever node coordinates, another one does when it is lost, and nothing that was told durable is
lost with it."""

import contextlib
import pathlib
import shutil
import signal
import sys
import tempfile

from etcd import etcd, why_not
from loopback_cluster import Cluster
from scripted_ranks import DURABLE, LATEST, MEMORY, STORAGE, Puppet, all_must, each
from single_node import Cases, expect, until

NAMES = "abc"
WAIT = 30000
ESTALE = -116
HERE = "this node coordinates it, term"


class Nodes:
    """Daemons of a cluster with one store, and etcd."""

    def __init__(self, members, names, options):
        cluster = Cluster(list(names))
        self.etcd, self.store = members, pathlib.Path(tempfile.mkdtemp()) / "store"
        self.daemons = {name: cluster.daemon(name, "--store", self.store, "--registry", members.url("ckpt"), "--registry-lease", "2s",
                                             "--peer-timeout", "2s", *options) for name in names}
        for d in self.daemons.values():
            d.store = self.store
            d.start()
        self.meet()

    def __getitem__(self, name):
        return self.daemons[name]

    def meet(self):
        for name, d in self.daemons.items():
            until(lambda d=d: all(n["up"] for n in d.status()["cluster"]["nodes"]), f"node {name} sees the others")

    def coordinator(self, job="main"):
        """Who has the record; None: nobody."""
        return self.etcd.get(f"/ckpt/jobs/{job}/coordinator")

    def elected(self, *no, job="main"):
        """Waits until somebody but these has been elected, and knows it."""
        def found():
            name = self.coordinator(job)
            return name and name not in no and HERE in self[name].text()
        until(found, f"one is elected that is none of {no}")
        return self.coordinator(job)

    def close(self):
        for d in self.daemons.values():
            d.close()
        shutil.rmtree(self.store.parent, ignore_errors=True)


@contextlib.contextmanager
def nodes(options=(), names=NAMES, members="x"):
    with etcd(members) as cluster:
        made = Nodes(cluster, names, options)
        try:
            yield made
        except Exception as error:
            logs = "".join(f"---- {name}\n{d.text()[-2500:]}" for name, d in made.daemons.items())
            raise AssertionError(f"{type(error).__name__}: {error}\n{logs}") from error
        finally:
            made.close()


class Rank(Puppet):
    opened = False


def spread(n, where=NAMES, **variables):
    ranks = [Rank(n[name], r, len(where), local=1, **variables) for r, name in enumerate(where)]
    back(ranks)
    return ranks


def saved(ranks, step, level=DURABLE):
    for call in (("set", step), ("begin", step, STORAGE, 0), ("fence", 0)):
        all_must(ranks, *call)
    all_must(ranks, "wait", 0, level, WAIT)


def restored(ranks, step):
    for rank, text in zip(ranks, all_must(ranks, "restore", LATEST, WAIT)):
        expect(text.split()[0] == str(step), f"rank {rank.number} restored {text}")
        expect(rank.must("get") == str(step), f"rank {rank.number} has {rank.must('get')}")


def back(ranks):
    """All join again, those that were there and those that are new."""
    new = [rank for rank in ranks if not rank.opened]
    for call in (("open",), ("table", 1000, 0)):
        all_must(new, *call)
    for rank in new:
        rank.opened = True
    all_must(ranks, "join")


def told_of_a_new_epoch(ranks):
    for rank in ranks:
        until(lambda rank=rank: rank.ask("begin", 10**6, MEMORY, 5).code == ESTALE, f"rank {rank.number} is told")


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


def etcd_is_away_for_a_while():
    """Training goes on, and saves to memory; what waits says so; when it is back all goes on."""
    with nodes(members="xyz") as n:
        ranks = spread(n)
        saved(ranks, 7)
        n.elected()
        for member in n.etcd:
            member.stop()
        for name in NAMES:
            until(lambda d=n[name]: "the registry is away" in d.text(), f"{name} says that it is away")
        until(lambda: any("it coordinates nothing any more" in n[name].text() for name in NAMES), "the lease is over")
        for step in (8, 9):
            all_must(ranks, "set", step)
            for answer in each(ranks, "begin", step, MEMORY, 0):
                expect(answer.code >= 0, answer)
            for answer in each(ranks, "fence", 0):
                expect(answer.code >= 0, answer)
        for member in n.etcd:
            member.go_on()
        n.elected()
        all_must(ranks, "slot", WAIT)  # those that were begun meanwhile are told of first
        saved(ranks, 20)  # in the same epoch: no rank has joined again
        for name in NAMES:
            expect(n[name].job()["epoch"] == 1, n[name].job())


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


def main():
    return Cases().run_chosen([
        ("one of those that have ranks is elected", one_of_those_that_have_ranks_is_elected),
        ("the node of the coordinator is lost", its_node_is_lost),
        ("the daemon of the coordinator is stopped beyond its lease", its_daemon_is_stopped_beyond_its_lease),
        ("etcd is away for a while", etcd_is_away_for_a_while),
        ("a member of etcd is lost with the coordinator", a_member_of_etcd_is_lost_with_the_coordinator),
        ("jobs have coordinators of their own", jobs_have_coordinators_of_their_own),
    ], why_not())


if __name__ == "__main__":
    sys.exit(main())
