"""A job of scripted ranks on several nodes whose coordinator is elected in etcd: the nodes, and what their ranks do together."""

import contextlib
import pathlib
import shutil
import tempfile

from etcd import etcd
from loopback_cluster import Cluster
from scripted_ranks import DURABLE, ESTALE, LATEST, MEMORY, STORAGE, Puppet, all_must
from single_node import expect, until

NAMES = "abc"
WAIT = 30000
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
