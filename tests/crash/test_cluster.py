"""Daemons of a cluster whose network fails them: cables pulled, ways cut in one direction, links that are slow, daemons that are stopped,
nodes that are killed or lose power. Who is lost is named, who comes back is taken back, and nobody else is lost. Clusters side by side: each
waits most of its time."""

import errno
import os
import signal
import sys

from cluster import cluster, why_not
from net_nodes import NetNode
from tap import NIGHTLY, Cases, Failure, equal, expect, until

LIVES = 50 if NIGHTLY else 10  # of the first node, and as many of another
MiB = 1 << 20
SILENCE_MS = 2000  # longer than by default: on a busy machine nobody else is to be lost. bench/detect.py measures with the default
SEEN_S = 10


def memory_only():
    return cluster("abc", store=False, options=["--peer-timeout", f"{SILENCE_MS}ms"])


def none_lost(nodes):
    for node in nodes:
        for other in nodes:
            equal(node.losses(other), 0, f"{node.name} loses {other.name}")


def lost_once(net, lonely, others):
    """Each has lost it, it has lost each, and the others have kept each other."""
    net.part([lonely], others)
    for other in others:
        equal((other.losses(lonely), lonely.losses(other)), (1, 1), f"losses of {other.name} and {lonely.name}")
    none_lost(others)


def a_cable_is_pulled_and_put_back():
    with memory_only() as net:
        net.start()
        b, others = net["b"], net.others(net["b"])
        b.unplug()
        for node in others:
            node.until_said("node b is lost: Connection timed out", seconds=SEEN_S)
        lost_once(net, b, others)
        b.plug()
        net.meet()
        none_lost(others)


def an_interface_is_down_for_longer_than_calls_are_waited_for():
    with memory_only() as net:
        net.start()
        b, others = net["b"], net.others(net["b"])
        b.link_down()
        net.part([b], others)
        for node in (b, *others):
            for other in others if node is b else [b]:
                until(lambda node=node, other=other: node.said().count(f"node {other.name} does not answer") >= 2,
                      f"{node.name} has called {other.name} twice in vain")
        b.link_up()
        net.meet()
        none_lost(others)


def a_way_that_is_cut_in_one_direction_ends_the_session_on_both_sides():
    with memory_only() as net:
        net.start()
        b, others = net["b"], net.others(net["b"])
        b.mute(*others)  # it hears them, and nobody hears it
        lost_once(net, b, others)
        b.unmute(*others)
        net.meet()
        net["a"].mute(b)  # one way of six
        net.part([net["a"]], [b])
        equal(net["c"].losses(b), 1, "c goes on with b")
        net["a"].unmute(b)
        net.meet()
        none_lost(others)


def a_daemon_that_was_stopped_finds_a_new_session():
    with memory_only() as net:
        net.start()
        b, others = net["b"], net.others(net["b"])
        b.process.send_signal(signal.SIGSTOP)
        for node in others:
            node.until_said("node b is lost: Connection timed out", seconds=SEEN_S)
        expect(b.sees(*others), "it is stopped")
        b.process.send_signal(signal.SIGCONT)
        for node in others:  # before the others call it, b may not have said that it has lost them
            until(lambda node=node: b.losses(node), f"b has lost {node.name}")
        net.meet()
        for node in others:
            equal((node.losses(b), b.losses(node)), (1, 1), f"losses of {node.name} and b")
        none_lost(others)


def two_are_cut_off_at_once():
    with memory_only() as net:
        net.start()
        net["b"].unplug()
        net["c"].unplug()
        for node in net.nodes:
            net.part([node], net.others(node))
        net["c"].plug()
        net.meet(net["a"], net["c"])
        expect(not net["b"].sees(net["a"]), "b is still without a cable")
        net["b"].plug()
        net.meet()


def a_node_loses_power_again_and_again(name):
    """Every other time its kernel has the time to close the connections."""
    with memory_only() as net:
        net.start()
        lost, others = net[name], net.others(net[name])
        for life in range(LIVES):
            if life % 2:
                lost.strike()
            else:
                lost.lose_power()
            for node in others:
                until(lambda node=node: node.losses(lost) == life + 1, f"{node.name} has lost {name} {life + 1} times", SEEN_S)
            lost.start()
            net.meet()
        for node in others:
            equal(node.losses(lost), LIVES, f"losses of {node.name}")
        none_lost(others)


def net_pair(net):
    """Two nodes of a net without daemons."""
    pair = [NetNode(node.name, node.number, net.roster, net.key, SILENCE_MS, node.spawn) for node in net.nodes]
    pair[0].expect("up", "1")
    pair[1].expect("up", "0")
    return pair


def copies_over_a_slow_link_end_no_session():
    """They fill it for several times the silence that is allowed."""
    with cluster("ab", store=False) as net:
        a, b = net_pair(net)
        try:
            net["b"].slow("20mbit")
        except Failure as error:
            return f"no links can be slowed down: {error}"
        region, ticket = b.expose(a, 16 * MiB, "w", 1)
        a.copy("write", b, ticket, 16 * MiB, 2)
        result, ms, _ = a.next("done")
        equal(int(result), 16 * MiB)
        expect(float(ms) > 2 * SILENCE_MS, "the link was not slow:", ms, "ms")
        equal(b.ask(f"check {region} 2", "checked"), ["match"])
        equal([line for line in a.events + b.events if line[0] == "down"], [])
    return None


def copies_end_with_the_session_when_a_way_is_cut():
    with cluster("ab", store=False) as net:
        a, b = net_pair(net)
        region, ticket = b.expose(a, 8 * MiB, "w", 1)
        a.copy("write", b, ticket, 8 * MiB, 2)
        a.copied(8 * MiB)
        net["b"].mute(net["a"])
        for _ in range(20):
            a.copy("write", b, ticket, 8 * MiB, 2)
        a.expect("down", "1", seconds=SEEN_S)
        b.expect("down", "0", seconds=SEEN_S)
        ended = [int(line[1]) for line in a.events if line[0] == "done"]
        expect(ended and all(rc < 0 for rc in ended), "copies of which no answer came:", ended)
        a.events.clear()
        late = [int(a.next("done")[0]) for _ in range(20 - len(ended))]
        expect(all(rc == -errno.ENOTCONN for rc in late), "those that end after the session were asked for after it:", late)
        b.ask(f"fill {region} 9", "filled")
        net["b"].unmute(net["a"])
        a.expect("up", "1")
        b.expect("up", "0")
        a.copy("write", b, ticket, 8 * MiB, 3)
        expect(int(a.next("done")[0]) < 0, "a region of the session before is still open")
        equal(b.ask(f"check {region} 9", "checked"), ["match"], "memory of the session before")


CASES = [(a_node_loses_power_again_and_again, "a"), (a_node_loses_power_again_and_again, "b"),
         (an_interface_is_down_for_longer_than_calls_are_waited_for,), (a_way_that_is_cut_in_one_direction_ends_the_session_on_both_sides,),
         (copies_over_a_slow_link_end_no_session,), (a_cable_is_pulled_and_put_back,), (a_daemon_that_was_stopped_finds_a_new_session,),
         (two_are_cut_off_at_once,), (copies_end_with_the_session_when_a_way_is_cut,)]

os.environ["CKPT_LOG"] = "debug"  # calls in vain are told there
sys.exit(Cases().run_chosen([(" ".join([case.__name__.replace("_", " "), *(f"({name})" for name in names)]), case, *names)
                            for case, *names in CASES], why_not()))
