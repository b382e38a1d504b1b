"""Daemons of six nodes that have nothing to do, so that each is looked after by two others alone: what is lost is lost to all, and nothing else."""

import signal
import sys
import time

from cluster import cluster, why_not
from tap import Cases, equal, until

SILENCE_MS = 2000  # as in test_cluster.py
SEEN_S = 8  # within it the kernel has noticed nothing yet
PARKED_S = 60  # sessions that nobody uses are parked after 20 s, a few of them after the next try
KEPT_S = 30  # the kernel notices within 10 s that a way is cut, if nobody else does

# Who looks after whom: the ring is d f e b c a (cluster/link/neighbours.c).
NEIGHBOURS = ("be", "ac", "df")
OTHERS = ("ab", "cf", "de")  # and pairs of which none looks after the other


def idle():
    return cluster("abcdef", store=False, options=["--peer-timeout", f"{SILENCE_MS}ms"])


def start(net):
    """They have met, and the time is over for which a session that has begun is looked at."""
    net.start()
    time.sleep(1.5 * SILENCE_MS / 1000)  # nothing happens then, nor does anything tell of it
    net.before = {(node, other): node.losses(other) for node in net.nodes for other in net.others(node)}  # calls that crossed on a busy machine


def losses(net, node, other):
    """Since they have met."""
    return node.losses(other) - net.before[node, other]


def connections(node):
    """Over TCP, that are set up: both sides of each have an address of a node."""
    lines = node.net.run("cat", "/proc/net/tcp").splitlines()[1:]
    return sum(line.split()[3] == "01" for line in lines)


def start_and_park(net):
    start(net)
    for node in net.nodes:
        until(lambda node=node: connections(node) == 2, f"{node.name} has connections with its neighbours alone", PARKED_S)


def until_lost(net, lonely):
    """All others have lost these, once, and kept each other."""
    rest = net.others(*lonely)
    for node in rest:
        for other in lonely:
            until(lambda node=node, other=other: losses(net, node, other), f"{node.name} has lost {other.name}", SEEN_S)
            equal(losses(net, node, other), 1, f"losses of {other.name} by {node.name}")
        for other in net.others(node, *lonely):
            equal(losses(net, node, other), 0, f"losses of {other.name} by {node.name}")


def pair_of(net, names):
    return [net[name] for name in names]


def a_node_without_a_cable_is_lost_to_all(name):
    with idle() as net:
        start(net)
        lost = net[name]
        lost.unplug()
        until_lost(net, [lost])
        net.part([lost], net.others(lost))
        lost.plug()
        net.meet()


def a_node_is_lost_to_all_that_have_parked_their_sessions(how):
    """They call it, and are not answered. It comes back, and all begin anew."""
    with idle() as net:
        start_and_park(net)
        lost = net["e"]
        how(lost)
        until_lost(net, [lost])
        lost.plug() if how is unplug else lost.start()
        net.meet()


def unplug(node):
    node.unplug()


def kill(node):
    node.process.kill()
    node.process.wait()


def a_daemon_that_is_stopped_is_lost_to_all():
    with idle() as net:
        start(net)
        lost = net["c"]
        lost.process.send_signal(signal.SIGSTOP)
        until_lost(net, [lost])
        lost.process.send_signal(signal.SIGCONT)
        net.meet()


def two_that_look_after_each_other_are_lost_to_all():
    with idle() as net:
        start(net)
        lost = pair_of(net, "be")
        for node in lost:
            node.unplug()
        until_lost(net, lost)
        net.part(lost, net.others(*lost))
        net.part(lost[:1], lost[1:])
        for node in lost:
            node.plug()
        net.meet()


def a_way_that_is_cut_between_two_is_the_loss_of_nobody_else(pairs, seconds):
    """In one direction, of each pair. It is noticed by both, and by nobody else, who would have asked by then."""
    with idle() as net:
        start(net)
        cut = [pair_of(net, names) for names in pairs]
        for one, other in cut:
            one.mute(other)
        for one, other in cut:
            for a, b in ((one, other), (other, one)):
                until(lambda a=a, b=b: losses(net, a, b), f"{a.name} has lost {b.name}", seconds)
        for one in net.nodes:
            for other in net.others(one):
                if [one, other] not in cut and [other, one] not in cut:
                    equal(losses(net, one, other), 0, f"losses of {other.name} by {one.name}")
        for one, other in cut:
            one.unmute(other)
        net.meet()


ROWS = [("a node without a cable is lost to all (a)", a_node_without_a_cable_is_lost_to_all, "a"),
        ("a node without a cable is lost to all (f)", a_node_without_a_cable_is_lost_to_all, "f"),
        ("a node without a cable is lost to those that have parked their sessions", a_node_is_lost_to_all_that_have_parked_their_sessions, unplug),
        ("a daemon that is killed is lost to those that have parked their sessions", a_node_is_lost_to_all_that_have_parked_their_sessions, kill),
        ("a daemon that is stopped is lost to all", a_daemon_that_is_stopped_is_lost_to_all),
        ("two that look after each other are lost to all", two_that_look_after_each_other_are_lost_to_all),
        ("a way between neighbours that is cut in one direction", a_way_that_is_cut_between_two_is_the_loss_of_nobody_else, NEIGHBOURS, SEEN_S),
        ("a way between others that is cut in one direction", a_way_that_is_cut_between_two_is_the_loss_of_nobody_else, OTHERS, KEPT_S)]

sys.exit(Cases().run_chosen(ROWS, why_not()))
