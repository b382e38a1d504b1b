"""A job on three nodes whose coordinator is elected in etcd, when the way between the coordinator and one of them is cut: in one direction, in the other, in
both. The third node reaches both, and coordinates from then on. No epoch begins, no step is lost, saves go on, also the one that is just being
written. Clusters side by side."""

import contextlib
import json
import sys
import time

from cluster import cluster, why_not
from elected_nodes import HERE
from etcd import etcd
from etcd import why_not as why_no_etcd
from registry_nodes import Gate
from scripted_ranks import DURABLE, STORAGE, VERIFIED, Puppet, all_must
from tap import Cases, equal, expect, until

NAMES, SILENCE_S = "abc", 2
PATIENCE_MS, PATIENCE_S = 60000, 60
ETCD = 2379  # its port, as the nodes see it
COORDINATOR = "/ckpt/jobs/main/coordinator"
SAVES, MOST = 10, 4  # changes in etcd while a job is handed over
ELEMENTS, MANY = 1000, 150000  # of a rank's state
SLOWLY = ("--job-write-bandwidth", "128K", "--job-read-bandwidth", "256K")  # many elements are written and read for longer than a hand-over takes


class Job:
    """A rank on each node; a gate in each node leads to etcd."""

    def __init__(self, net, members, elements):
        self.net, self.members, self.step = net, members, 0
        self.ranks = [Puppet(node, number, len(NAMES), local=1) for number, node in enumerate(net.nodes)]
        for call in (("open", PATIENCE_MS), ("table", elements, 0), ("join", PATIENCE_MS)):
            all_must(self.ranks, *call)
        self.epoch = self.ranks[0].ask("epoch").code

    def coordinator(self, *no):
        """Waits for one that is none of these, and knows it."""
        def found():
            name = self.members.get(COORDINATOR)
            return name and name not in no and HERE in self.net[name].said() and self.net[name]
        return until(found, f"a coordinator that is none of {no}", PATIENCE_S)

    def begins(self, n):
        """The n-th of the saves that are followed."""
        self.step += 1
        for call in (("set", self.step), ("begin", self.step, STORAGE, n), ("fence", n)):
            all_must(self.ranks, *call)

    def saves(self, n=0):
        """Whoever is told of another epoch meanwhile refuses that."""
        self.begins(n)
        all_must(self.ranks, "wait", n, DURABLE, PATIENCE_MS)

    def same_epoch(self):
        equal([rank.ask("epoch").code for rank in self.ranks], [self.epoch] * len(NAMES), "epochs of the ranks")


@contextlib.contextmanager
def job(*more, elements=ELEMENTS):
    options = [*more, "--peer-timeout", f"{SILENCE_S}s", "--registry", f"etcd://127.0.0.1:{ETCD}/ckpt", "--registry-lease", "2s", "--span-log", "spans"]
    with etcd("x") as members, contextlib.ExitStack() as ends, cluster(NAMES, options=options) as net:
        for node in net.nodes:
            node.boot()
            gate = Gate(next(iter(members)).place, node.net.listener(ETCD))
            ends.callback(gate.close)
        net.start()
        made = Job(net, members, elements)
        yield made
        for rank in made.ranks:
            rank.kill()


def spans(node):
    return [line for line in map(json.loads, (node.top / "spans").read_text().splitlines()) if line["span"] == "hand_over"]


def begun(j):
    """Who coordinates has done so for longer than it takes to be believed, and saves cost nothing in etcd."""
    first, at = j.coordinator(), time.monotonic()
    while time.monotonic() < at + 2 * SILENCE_S:
        j.saves()
    before = after = None
    while before is None or (after != before and time.monotonic() < at + PATIENCE_S):  # on a busy machine a lease may lapse, and is taken anew
        before = j.members.revision()
        for _ in range(SAVES):
            j.saves()
        after = j.members.revision()
    equal(after, before, f"changes in etcd while {SAVES} saves are made")
    return j.coordinator(), after


def cut(*, there, back):
    with job() as j:
        first, revision = begun(j)
        other = next(node for node in j.net.nodes if node is not first)
        third = next(node for node in j.net.nodes if node not in (first, other))
        if there:
            first.mute(other)
        if back:
            other.mute(first)
        expect(j.coordinator(first.name) is third, f"node {third.name} reaches both")
        for _ in range(SAVES):
            j.saves()
        j.same_epoch()
        expect(j.members.revision() <= revision + MOST, f"{j.members.revision() - revision} changes in etcd")
        told, = until(lambda: spans(first), "the span is written", PATIENCE_S)
        equal((told["to"], told["silent"], told["epoch"]), (third.name, other.name, j.epoch))
        for node in (third, other):
            equal(spans(node), [])
        if there:
            first.unmute(other)
        if back:
            other.unmute(first)
        j.net.meet()
        j.saves()
        j.same_epoch()


def a_save_is_just_being_written():
    """Its files are in a directory that the next coordinator does not use: it is written anew. What was on storage before is read back all the
    same."""
    with job(*SLOWLY, elements=MANY) as j:
        at = time.monotonic()
        while time.monotonic() < at + 2 * SILENCE_S:
            j.saves()
        first = j.coordinator()
        other, third = (node for node in j.net.nodes if node is not first)
        j.begins(1)
        first.mute(other)
        other.mute(first)
        expect(j.coordinator(first.name) is third, f"node {third.name} reaches both")
        all_must(j.ranks, "wait", 1, DURABLE, PATIENCE_MS)
        until(lambda: any("is written anew, for another coordinator" in node.said() for node in j.net.nodes), "it was being written", PATIENCE_S)
        j.saves(2)
        all_must(j.ranks, "wait", 0, VERIFIED, PATIENCE_MS)
        j.same_epoch()


def a_coordinator_does_not_reach_a_node():
    cut(there=True, back=False)


def a_node_does_not_reach_its_coordinator():
    cut(there=False, back=True)


def neither_reaches_the_other():
    cut(there=True, back=True)


CASES = [a_save_is_just_being_written, a_coordinator_does_not_reach_a_node, a_node_does_not_reach_its_coordinator, neither_reaches_the_other]

reason = why_not() or why_no_etcd()
if reason:
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)
sys.exit(Cases().run_chosen([(case.__name__.replace("_", " "), case) for case in CASES]))
