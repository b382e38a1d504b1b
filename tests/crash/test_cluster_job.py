"""A job whose ranks are on several nodes, when nodes and the network between them fail: whoever is left is told of a new epoch, nobody goes on in
the old one, and when all are there again they go on from the newest step that all of them had. Clusters side by side: each waits most of its time."""

import contextlib
import signal
import sys

from cluster import cluster, why_not
from scripted_ranks import CAPTURED, LATEST, MEMORY, Puppet, all_must, each
from tap import Cases, equal, expect, until

ESTALE, ETIMEDOUT = -116, -110
REPLICATED = 2
SILENCE = "2s"
TELLS_S = 30  # from a fault until all ranks that can be reached have been told, on a busy machine
PATIENCE_MS = 60000


class Job:
    """A rank on every node of `where`; none of it where the node is down."""

    def __init__(self, net, where="abc"):
        self.net, self.where = net, where
        self.ranks = [None] * len(where)
        for name in where:
            self.place(name)
        self.enter()

    def place(self, name):
        number = self.where.index(name)
        rank = Puppet(self.net[name], number, len(self.where), local=1)
        self.ranks[number] = rank
        for call in (("open", PATIENCE_MS), ("table", 1000, 0)):
            rank.must(*call)

    def on(self, names):
        return [self.ranks[self.where.index(name)] for name in names]

    def enter(self):
        all_must(self.ranks, "join", PATIENCE_MS)
        found = {rank.ask("epoch").code for rank in self.ranks}
        equal(len(found), 1, "epochs of the ranks")
        self.epoch = found.pop()

    def save(self, step):
        for call in (("set", step), ("begin", step, MEMORY, 0), ("fence", 0), ("wait", 0, CAPTURED, PATIENCE_MS)):
            all_must(self.ranks, *call)

    def told(self, names):
        """These ranks are sent out of their epoch."""
        for rank in self.on(names):
            until(lambda rank=rank: rank.ask("begin", 10**6, MEMORY, 5).code == ESTALE, f"rank {rank.number} is told", TELLS_S)

    def recover(self):
        """Until they have entered an epoch and were restored in it; what they were told."""
        self.enter()
        answers = each(self.ranks, "restore", LATEST, PATIENCE_MS)
        return self.recover() if any(answer.code == ESTALE for answer in answers) else answers

    def goes_on_from(self, step):
        """All enter an epoch that is new, and have what was saved."""
        before = self.epoch
        for rank, answer in zip(self.ranks, self.recover()):
            equal(answer.text.split()[0], str(step), f"step that rank {rank.number} has restored")
        expect(self.epoch > before, f"epoch {self.epoch} after {before}")
        for rank in self.ranks:
            equal(rank.must("get"), str(step), f"state of rank {rank.number}")
        self.save(step + 1)


@contextlib.contextmanager
def job(where="abc"):
    with cluster("abc", store=False, options=["--peer-timeout", SILENCE]) as net:
        net.start()
        made = Job(net, where)
        made.save(7)
        yield net, made


def others(name):
    return [other for other in "abc" if other != name]


def a_cable_is_pulled(name):
    with job() as (net, spread):
        net[name].unplug()
        if name != "a":
            spread.told(others(name))
        else:
            net.part([net["a"]], [net["b"], net["c"]])
        net[name].plug()
        spread.told("abc")
        spread.goes_on_from(7)


def a_way_is_cut_in_one_direction(source, target):
    with job() as (net, spread):
        net[source].mute(net[target])
        net.part([net[source]], [net[target]])
        net[source].unmute(net[target])
        spread.told("abc")
        spread.goes_on_from(7)


def a_daemon_is_stopped(name):
    with job() as (net, spread):
        net[name].process.send_signal(signal.SIGSTOP)
        for other in others(name):
            net[other].until_said(f"node {name} is lost")
        if name != "a":
            spread.told(others(name))
            for answer in each(spread.on(others(name)), "join", 1000):
                equal(answer.code, ETIMEDOUT, answer)
        net[name].process.send_signal(signal.SIGCONT)
        spread.told("abc")
        spread.goes_on_from(7)


def what_a_stopped_node_wrote_counts_no_more():
    """All but one of its ranks have copied the step; it wakes up and copies its part, too late."""
    with job() as (net, spread):
        for call in (("set", 8), ("begin", 8, MEMORY, 1)):
            all_must(spread.ranks, *call)
        all_must(spread.on("ab"), "fence", 1)
        net["c"].process.send_signal(signal.SIGSTOP)
        net["a"].until_said("node c is lost")
        spread.told("ab")
        spread.on("c")[0].ask("fence", 1)
        net["c"].process.send_signal(signal.SIGCONT)
        for answer in each(spread.ranks, "wait", 1, CAPTURED, PATIENCE_MS):
            equal(answer.code, ESTALE, answer)
        spread.told("c")
        spread.goes_on_from(7)


def members_that_cannot_reach_each_other_go_on():
    """Copies between them take another way; nothing else is between them."""
    with job() as (net, spread):
        net["b"].mute(net["c"])
        net.part([net["b"]], [net["c"]])
        spread.save(8)
        equal({rank.ask("epoch").code for rank in spread.ranks}, {spread.epoch}, "epochs")


def two_are_cut_off_at_once():
    with job() as (net, spread):
        net["b"].unplug()
        net["c"].unplug()
        net.part([net["a"]], [net["b"], net["c"]])
        net["c"].plug()
        net["b"].plug()
        spread.told("abc")
        spread.goes_on_from(7)


def one_is_lost_while_they_recover_from_the_loss_of_another():
    with job() as (net, spread):
        net["b"].unplug()
        spread.told("ac")
        for rank in spread.on("ac"):
            rank.say("join", PATIENCE_MS)
        net["c"].unplug()
        net.part([net["a"]], [net["b"], net["c"]])
        net["b"].plug()
        net["c"].plug()
        net.meet()
        spread.told("b")
        spread.on("b")[0].say("join", PATIENCE_MS)
        for rank in spread.ranks:  # those who have waited since before the second was lost go on with the others
            answer = rank.answer()
            expect(answer.code >= 0, f"rank {rank.number}:", answer)
        spread.goes_on_from(7)


def a_node_loses_power(name):
    """With it what its rank had in memory; another node has a copy."""
    with job() as (net, spread):
        all_must(spread.ranks, "wait", 0, REPLICATED, PATIENCE_MS)
        net[name].lose_power()
        if name != "a":
            spread.told(others(name))
        net[name].start()
        net.meet()
        spread.place(name)
        spread.told(others(name))
        spread.goes_on_from(7)


CASES = [(what_a_stopped_node_wrote_counts_no_more,), (members_that_cannot_reach_each_other_go_on,), (two_are_cut_off_at_once,), (one_is_lost_while_they_recover_from_the_loss_of_another,)]
CASES += [(case, name) for case in (a_cable_is_pulled, a_daemon_is_stopped, a_node_loses_power) for name in "ac"]
CASES += [(a_way_is_cut_in_one_direction, *ways) for ways in ("ac", "ca")]

sys.exit(Cases().run_chosen([(" ".join([case.__name__.replace("_", " "), *([f"({' to '.join(names)})"] if names else [])]), case, *names)
                            for case, *names in CASES], why_not()))
