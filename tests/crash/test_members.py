"""Clusters whose nodes stand in etcd: nodes join with a name, an address and the key, while a job runs; they are replaced by other machines, and removed."""

import contextlib
import json
import shutil
import sys
import tempfile
import pathlib

from etcd import etcd, why_not
from loopback_cluster import Cluster, Neighbour, free_port
from scripted_ranks import LATEST, STORAGE, Puppet, all_must
from single_node import Cases, expect, until

DURABLE, WAIT = 3, 30000


class Nodes:
    """Daemons that know of each other by etcd alone, with one store."""

    def __init__(self, members):
        self.cluster, self.etcd, self.daemons = Cluster(["nobody"]), members, []
        self.store = pathlib.Path(tempfile.mkdtemp()) / "store"
        self.hosts = 0

    def make(self, name, labels=""):
        """Another machine each time, if not another name."""
        self.hosts += 1
        host = f"127.77.{self.hosts}.1"
        d = Neighbour(store=False)
        d.address, d.store, d.name = f"{host}:{free_port(host)}", self.store, name
        d.options = ["--node", name, "--node-address", f"{d.address} {labels}".strip(), "--cluster-key", self.cluster.key,
                     "--peer-timeout", "10s", "--store", self.store, "--registry", self.etcd.url("ckpt"), "--registry-lease", "2s"]
        self.daemons.append(d)
        return d

    def start(self, name, **how):
        d = self.make(name, **how)
        d.start()
        expect(d.alive(), f"node {name} has not started: {d.text()}")
        return d

    def close(self):
        for d in self.daemons:
            d.close()
        shutil.rmtree(self.store.parent, ignore_errors=True)


@contextlib.contextmanager
def nodes():
    with etcd("x") as members:
        made = Nodes(members)
        try:
            yield made
        except Exception as error:
            logs = "".join(f"---- {d.name}\n{d.text()[-2500:]}" for d in made.daemons)
            raise AssertionError(f"{type(error).__name__}: {error}\n{logs}") from error
        finally:
            made.close()


def listed(d):
    """What ckpt nodes says, by name."""
    code, out, err = d.ckpt("nodes", "--json", "--socket", d.socket)
    expect(code == 0, f"ckpt nodes: exit {code}: {err}")
    return {node["name"]: node for node in json.loads(out)["nodes"]}


def meet(*daemons):
    names = {d.name for d in daemons}
    for d in daemons:
        until(lambda d=d: names <= {name for name, node in listed(d).items() if node["state"] == "up"}, f"{d.name} sees {names}")


class Job:
    def __init__(self, *daemons):
        self.ranks = [Puppet(d, r, len(daemons), local=1) for r, d in enumerate(daemons)]
        self.step = 0
        self.begin(self.ranks)

    def begin(self, new):
        for call in (("open",), ("table", 1000, 0)):
            all_must(new, *call)
        all_must(self.ranks, "join")

    def save(self):
        self.step += 1
        for call in (("set", self.step), ("begin", self.step, STORAGE, 0), ("fence", 0)):
            all_must(self.ranks, *call)
        all_must(self.ranks, "wait", 0, DURABLE, WAIT)

    def restored(self):
        for rank, text in zip(self.ranks, all_must(self.ranks, "restore", LATEST, WAIT)):
            expect(text.split()[0] == str(self.step), f"rank {rank.number} restored {text}, not {self.step}")
            expect(rank.must("get") == str(self.step), f"rank {rank.number} has {rank.must('get')}")


def nodes_join_while_a_job_runs():
    """Without a file, and without a restart of those that are there; a copy can stand on one that has come later."""
    with nodes() as n:
        a, b = n.start("a", labels="rack=r1"), n.start("b")
        meet(a, b)
        job = Job(a, b)
        job.save()
        c = n.start("c", labels="rack=r3 switch=s1")
        meet(a, b, c)
        job.save()
        seen = listed(a)["c"]
        expect(seen["address"] == c.address and seen["labels"] == {"rack": "r3", "switch": "s1"}, seen)
        expect(seen["incarnation"] and seen["since_ns"] and not seen["self"], seen)
        until(lambda: c.held() > 0, "the node that has come later holds copies")
        expect(a.job()["epoch"] == 1, "a node that joins has ended the epoch", a.job())


def a_replaced_machine_is_let_in_and_its_ranks_restored():
    with nodes() as n:
        a, b, c = (n.start(name) for name in "abc")
        meet(a, b, c)
        job = Job(a, b, c)
        job.save()
        was = listed(a)["b"]
        job.ranks[1].kill()
        b.kill()
        other = n.start("b")  # it waits until the lease of the first one has ended
        meet(a, other, c)
        now = listed(a)["b"]
        expect(now["address"] == other.address != was["address"] and now["incarnation"] != was["incarnation"], now)
        expect(f"node b is at {other.address} now, was at {b.address}" in a.text(), "a does not say so")
        job.ranks[1] = Puppet(other, 1, 3, local=1)
        job.begin([job.ranks[1]])
        job.restored()
        job.save()


def of_two_that_claim_one_name_the_second_is_refused():
    with nodes() as n:
        a, first = n.start("a"), n.start("b")
        meet(a, first)
        second = n.make("b")
        second.start(ready=False)
        until(lambda: not second.alive(), "it has given up")
        expect(second.process.returncode == 1 and f"node b is in the cluster already, at {first.address}" in second.text(), second.text())
        expect(first.alive() and listed(a)["b"]["address"] == first.address, listed(a))
        meet(a, first)
        expect("is lost" not in a.text(), "the first one was disturbed", a.text())


def a_daemon_that_begins_anew_is_back_at_once():
    """It need not wait for the end of its own lease."""
    with nodes() as n:
        a, b = n.start("a"), n.start("b")
        meet(a, b)
        b.kill()
        b.start()
        expect("waiting until its lease has ended" not in b.text(), b.text())
        meet(a, b)


def a_node_is_removed_and_may_come_again():
    with nodes() as n:
        a, b, c = (n.start(name) for name in "abc")
        meet(a, b, c)

        def remove(name):
            code, _, err = a.ckpt("nodes", "remove", name, "--socket", a.socket)
            return code, err
        code, err = remove("c")
        expect(code == 1 and f"node c is there, at {c.address}" in err, code, err)
        code, err = remove("z")
        expect(code == 1 and "no node" in err, code, err)
        c.stop()
        until(lambda: listed(a)["c"]["state"] == "away", "its lease is given back")
        code, err = remove("c")
        expect(code == 0, code, err)
        for d in (a, b):
            until(lambda d=d: "c" not in listed(d), "all have forgotten it")
        c.start()
        meet(a, b, c)


def a_daemon_that_was_removed_or_replaced_meanwhile_ends():
    """As after it was cut from etcd for longer than its lease."""
    with nodes() as n:
        a, b = n.start("a"), n.start("b")
        meet(a, b)
        until(lambda: n.etcd.ctl("del", "/ckpt/cluster/b").returncode == 0, "etcd has removed it")
        until(lambda: not b.alive(), "it ends")
        expect(b.process.returncode == 1 and "node b was removed from the cluster" in b.text(), b.text())
        until(lambda: "b" not in listed(a), "the other one has forgotten it")
        b.start()
        meet(a, b)


def without_what_it_needs_it_does_not_start():
    with nodes() as n:
        a = n.start("a")
        for options, says in ((["--registry", n.etcd.url("ckpt"), "--cluster-key", n.cluster.key], "needs node-address"),
                              (["--node-address", "127.0.0.1:7", "--cluster-key", n.cluster.key], "needs registry"),
                              (["--node-address", "127.0.0.1", "--registry", n.etcd.url("ckpt"), "--cluster-key", n.cluster.key], "is not HOST:PORT"),
                              (["--node-address", a.address, "--registry", n.etcd.url("ckpt"), "--cluster-key", n.cluster.key], "cannot listen there"),
                              (["--node-address", "127.0.0.1:7", "--registry", n.etcd.url("ckpt"), "--cluster", n.cluster.roster,
                                "--cluster-key", n.cluster.key], "in a file, or in the registry")):
            d = Neighbour(store=False)
            n.daemons.append(d)
            d.name = "z"
            d.options = ["--node", "z", *options]
            d.start(ready=False)
            until(lambda d=d: not d.alive(), "it ends")
            expect(d.process.returncode == 1 and says in d.text(), says, d.text())


def main():
    return Cases().run_chosen([
        ("nodes join while a job runs", nodes_join_while_a_job_runs),
        ("a replaced machine is let in, and its ranks restored", a_replaced_machine_is_let_in_and_its_ranks_restored),
        ("of two that claim one name the second is refused", of_two_that_claim_one_name_the_second_is_refused),
        ("a daemon that begins anew is back at once", a_daemon_that_begins_anew_is_back_at_once),
        ("a node is removed, and may come again", a_node_is_removed_and_may_come_again),
        ("a daemon that was removed meanwhile ends", a_daemon_that_was_removed_or_replaced_meanwhile_ends),
        ("without what it needs it does not start", without_what_it_needs_it_does_not_start),
    ], why_not())


if __name__ == "__main__":
    sys.exit(main())
