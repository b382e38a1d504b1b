"""The cluster's key is changed while a job runs: with cluster-key-old both count, and no node misses another one at any time. The nodes are changed one
after the other; after each of them a node begins anew, so that all sessions and lanes with it are opened in each mixture of keys."""

import os
import signal
import sys

from loopback_cluster import Cluster
from scripted_ranks import MEMORY, Puppet, all_must
from single_node import Cases, expect, until

RANKS, GUEST = "abc", "d"
NAMES = RANKS + GUEST
REPLICATED, WAIT = 2, 30000


class Nodes:
    def __init__(self):
        self.cluster = Cluster(list(NAMES))
        self.cluster.key.rename(self.cluster.top / "old")
        self.write("new", os.urandom(32).hex())
        self.daemons = {}
        for name in NAMES:
            d = self.cluster.daemon(name, "--config", self.cluster.top / f"{name}.conf")
            at = d.options.index("--cluster-key")
            del d.options[at:at + 2]
            self.daemons[name] = d
            self.configure(name, "old")
            d.start()
        self.meet()

    def write(self, name, text):
        path = self.cluster.top / name
        path.write_text(text + "\n")
        path.chmod(0o600)

    def configure(self, name, key, old=None):
        top = self.cluster.top
        self.write(f"{name}.conf", f"[node]\ncluster-key = {top / key}\n" + (f"cluster-key-old = {top / old}\n" if old else "") + "[job]\ncopies = 2\n")

    def meet(self):
        for name, d in self.daemons.items():
            until(lambda d=d: all(n["up"] for n in d.status()["cluster"]["nodes"]), f"{name} sees the others")

    def reread(self, name):
        d, says = self.daemons[name], "has been read again"
        before = d.text().count(says)
        d.process.send_signal(signal.SIGHUP)
        until(lambda: d.text().count(says) > before, f"{name} reads its key: {d.text()[-500:]}")

    def begin_anew(self, name):
        self.daemons[name].kill()
        for other, d in self.daemons.items():
            if other != name:
                until(lambda d=d: not all(n["up"] for n in d.status()["cluster"]["nodes"]), f"{other} misses {name}")
        self.daemons[name].start()
        self.meet()

    def close(self):
        for d in self.daemons.values():
            d.close()


class Job:
    """Each of its saves stands on two nodes besides its own before the next one."""

    def __init__(self, nodes):
        self.ranks = [Puppet(nodes.daemons[name], r, len(RANKS), local=1) for r, name in enumerate(RANKS)]
        self.step = 0
        for call in (("open",), ("table", 100000, 0), ("join",)):
            all_must(self.ranks, *call)

    def save(self, times=2):
        for _ in range(times):
            self.step += 1
            for call in (("set", self.step), ("begin", self.step, MEMORY, 0), ("fence", 0)):
                all_must(self.ranks, *call)
            all_must(self.ranks, "wait", 0, REPLICATED, WAIT)


def both_keys_count_while_they_are_changed():
    nodes = Nodes()
    try:
        job = Job(nodes)
        job.save()
        for key, old in (("new", "old"), ("new", None)):
            for name in NAMES:
                nodes.configure(name, key, old)
                nodes.reread(name)
                job.save()
                nodes.begin_anew(GUEST)
                job.save()
        for name in RANKS:
            text = nodes.daemons[name].text()
            expect(not any(f"node {other} is lost" in text for other in RANKS), f"{name} has missed one that was only told of a key: {text}")
            expect(nodes.daemons[name].job()["epoch"] == 1, nodes.daemons[name].job())
    except Exception as error:
        logs = "".join(f"---- {name}\n{d.text()[-2500:]}" for name, d in nodes.daemons.items())
        raise AssertionError(f"{type(error).__name__}: {error}\n{logs}") from error
    finally:
        nodes.close()


def the_old_key_opens_nothing_once_it_is_gone():
    nodes = Nodes()
    try:
        for name in RANKS:
            nodes.configure(name, "new")
            nodes.reread(name)
        nodes.daemons[GUEST].kill()  # it begins anew with the old key
        nodes.daemons[GUEST].start()
        until(lambda: any("were refused" in nodes.daemons[name].text() for name in RANKS), "its calls are refused")
        expect(not any(n["up"] for n in nodes.daemons[GUEST].status()["cluster"]["nodes"] if not n["self"]), "it is in")
        nodes.configure(GUEST, "new", "old")
        nodes.reread(GUEST)
        nodes.meet()
    finally:
        nodes.close()


def what_cannot_be_read_changes_nothing():
    nodes = Nodes()
    try:
        d = nodes.daemons["a"]
        nodes.configure("a", "new", "nowhere")
        d.process.send_signal(signal.SIGHUP)
        until(lambda: "stays as it was: cluster key" in d.text() and "nowhere" in d.text(), "it says so")
        nodes.begin_anew(GUEST)
    finally:
        nodes.close()


def main():
    cases = Cases()
    cases.run("both keys count while they are changed, over a job that saves", both_keys_count_while_they_are_changed)
    cases.run("the old key opens nothing once it is gone", the_old_key_opens_nothing_once_it_is_gone)
    cases.run("a key that cannot be read changes nothing", what_cannot_be_read_changes_nothing)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
