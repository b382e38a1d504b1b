"""Sessions that nobody uses go on without a connection (ckptd/cluster/link/parking.h): six nodes as processes of their own (tools/net_node.c), of which
each has two neighbours. They use their sessions again, show memory, are killed, stopped, started anew, and get another key meanwhile."""

import itertools
import os
import random
import signal
import sys
import time

from net_nodes import PATIENT_MS, fresh_net
from tap import DEADLINE, NIGHTLY, Cases, equal, expect, until

NAMES = "abcdef"
RING = "dfebca"  # who looks after whom (cluster/link/neighbours.c)
IDLE_MS = 400
PARKED_S = 30
SEEN_MS = 6000  # silence after which a node is lost; no other one of a busy machine is silent for so long
MiB = 1 << 20

NEIGHBOURS = {frozenset(pair) for pair in zip(RING, RING[1:] + RING[0])}


class Six:
    """Nodes that have met."""

    def __init__(self, net, timeout=PATIENT_MS, idle=IDLE_MS, way="sealed"):
        self.net, self.options = net, {"timeout": timeout, "idle_ms": idle, "way": way}
        self.nodes = {name: net.node(name, **self.options) for name in NAMES}
        for a, b in itertools.permutations(self.nodes.values(), 2):
            a.expect("up", str(b.number))

    def __getitem__(self, name):
        return self.nodes[name]

    def others(self, *without):
        return [node for name, node in self.nodes.items() if name not in without]

    def is_open(self, a, b):
        return self[a].ask(f"open {self[b].number}", "open") == ["1"]

    def open(self, names=NAMES):
        return {frozenset(pair) for pair in itertools.permutations(names, 2) if self.is_open(*pair)}

    def until_parked(self):
        until(lambda: self.open() == NEIGHBOURS, f"sessions are parked, but for those of neighbours {sorted(map(sorted, NEIGHBOURS))}", PARKED_S)

    def send(self, a, b, text):
        equal(self[a].ask(f"send {self[b].number} 7 {text}", "sent"), ["0"], f"to send from {a} to {b}")
        equal(self[b].next("message", str(self[a].number))[2], text, f"what {b} has from {a}")

    def none_was_lost(self):
        for node in self.nodes.values():
            equal([line for line in node.events if line[0] in ("up", "down")], [], f"ups and downs of {node.name}")

    def lost_by(self, name, nodes):
        for node in nodes:
            node.expect("down", str(self[name].number))
        for node in nodes:
            equal([line for line in node.events if line[0] == "down"], [], f"other losses of {node.name}")


def sessions_without_use_are_parked_and_go_on_when_they_are_used(net):
    six = Six(net)
    six.until_parked()
    for round in range(2):
        for a, b in itertools.permutations(NAMES, 2):
            six.send(a, b, f"{a}{b}{round}")
        six.until_parked()
    six.none_was_lost()
    for node in six.nodes.values():
        equal(node.counts()["sessions"], 5, f"sessions of {node.name}, since ever")
        equal(node.counts()["refused"], 0, f"connections that {node.name} has refused")


def one_side_that_minds_a_loss_keeps_the_connection(net):
    six = Six(net)
    six["a"].ask(f"mind {six['b'].number} 1", "minding")
    six.send("a", "b", "from-now-on")
    until(lambda: six.open() == NEIGHBOURS | {frozenset("ab")}, "all others are parked", PARKED_S)
    for _ in range(8):
        time.sleep(IDLE_MS / 1000)  # until the other one would have parked it, several times
        expect(six.is_open("a", "b"), "its loss is minded")
    six["b"].signal(signal.SIGKILL)
    begun = time.monotonic()
    six["a"].expect("down", "1")
    expect(time.monotonic() - begun < PATIENT_MS / 2000, "who minds hears at once")


def memory_that_is_shown_keeps_the_connection_and_copies_open_it(net, way):
    six = Six(net, way=way)
    six.until_parked()
    a, b = six["a"], six["b"]
    region, ticket = b.expose(a, 4 * MiB, "w", 1)
    a.copy("write", b, ticket, 4 * MiB, 2)
    a.copied(4 * MiB)
    equal(b.ask(f"check {region} 2", "checked"), ["match"])
    for _ in range(8):
        six.send("a", "c", "time-goes-by")
        time.sleep(IDLE_MS / 1000)  # until it would have been parked, several times
        expect(six.is_open("a", "b"), "it is shown memory")
    b.ask(f"withdraw {region}", "withdrawn")
    until(lambda: not six.is_open("a", "b"), "it is parked when nothing is shown any more", PARKED_S)
    _, ticket = b.expose(a, MiB, "r", 5)
    a.copy("read", b, ticket, MiB, 5)
    a.copied(MiB)
    six.none_was_lost()


def a_node_that_dies_is_lost_to_all(net, number, seen, seconds):
    six = Six(net, timeout=seen)
    six.until_parked()
    begun = time.monotonic()
    six["d"].signal(number)
    six.lost_by("d", six.others("d"))
    took = time.monotonic() - begun
    expect(took < seconds, f"all have lost it after {took:.1f} s")
    six["d"].signal(signal.SIGCONT)


def a_node_that_says_goodbye_is_lost_to_all(net):
    six = Six(net)
    six.until_parked()
    equal(six["e"].end(), 0)
    six.lost_by("e", six.others("e"))


def a_node_that_comes_back_begins_anew_with_all(net):
    six = Six(net, timeout=SEEN_MS)
    six.until_parked()
    six["c"].signal(signal.SIGKILL)
    six.nodes["c"] = net.node("c", **six.options)
    for node in six.others("c"):
        node.expect("down", "2")
        node.expect("up", "2")
        six["c"].expect("up", str(node.number))
    six.until_parked()
    six.send("c", "f", "as-before")
    six.none_was_lost()


def one_that_is_doubted_and_there_stays(net):
    """Its neighbours are lost to it and it to them; the others call, and find that it is there."""
    six = Six(net, timeout=SEEN_MS)
    six.until_parked()
    a, c = six["a"], six["c"]
    a.ask("drop 2 -71", "dropped")  # what its neighbour says broke the protocol: no rumour
    a.expect("down", "2")
    c.expect("down", "0")
    a.expect("up", "2")
    c.expect("up", "0")
    six.until_parked()
    six.none_was_lost()


def keys_that_change_meanwhile_are_used(net):
    six = Six(net)
    six.until_parked()
    old, new = net.key.read_text(), os.urandom(32).hex()
    for keys in (f"{old}\n{new}\n", f"{new}\n{old}\n", f"{new}\n"):
        net.key.write_text(keys)
        for node in six.nodes.values():
            equal(node.ask("renew", "renewed"), ["0"])
            for other in six.others(node.name):
                six.send(node.name, other.name, "keys-of-two-kinds")
        six.until_parked()
    six.none_was_lost()


def what_is_sent_while_it_is_being_parked_arrives(net):
    """One end has said that it may be parked, and sends before the other one answers: that one agrees, but was stopped."""
    idle = 1000
    six = Six(net, idle=idle)
    for n in range(3):
        six.send("a", "b", f"use{n}")
        time.sleep(1.025 * idle / 1000)  # both find it idle, and neither says so before 1.05 (PARKING_GRACE)
        six["b"].signal(signal.SIGSTOP)
        time.sleep(0.1 * idle / 1000)
        equal(six["a"].ask(f"send {six['b'].number} 7 late{n}", "sent"), ["0"])
        six["b"].signal(signal.SIGCONT)
        equal(six["b"].next("message", "0")[2], f"late{n}")
    six.none_was_lost()


def use_and_parking_at_once(net):
    """Messages at about the time at which sessions are parked, for some seconds: each arrives, once and in order, and no session ends."""
    idle = 30
    six, sent, chance = Six(net, idle=idle), {}, random.Random(19)
    parked, end = 0, time.monotonic() + (120 if NIGHTLY else 12)
    while time.monotonic() < end or (parked <= 20 and time.monotonic() < end + DEADLINE):
        for _ in range(chance.randrange(1, 6)):
            pair = chance.choice("abcdef"), chance.choice("abcdef")
            if pair[0] == pair[1]:
                continue
            parked += not six.is_open(*pair)
            n = sent[pair] = sent.get(pair, 0) + 1
            equal(six[pair[0]].ask(f"send {six[pair[1]].number} 7 {n}", "sent"), ["0"])
        time.sleep(chance.uniform(0, 2.5 * idle) / 1000)
    for (a, b), n in sent.items():
        for k in range(1, n + 1):
            equal(six[b].next("message", str(six[a].number))[2], str(k), f"what {b} has from {a}")
    six.none_was_lost()
    expect(parked > 20, f"of {sum(sent.values())} messages {parked} found their session parked")


ROWS = [("sessions that nobody uses are parked, and go on", sessions_without_use_are_parked_and_go_on_when_they_are_used),
        ("who minds a loss keeps the connection", one_side_that_minds_a_loss_keeps_the_connection),
        ("memory that is shown keeps it, and copies open it (sealed)", memory_that_is_shown_keeps_the_connection_and_copies_open_it, "sealed"),
        ("memory that is shown keeps it, and copies open it (bare)", memory_that_is_shown_keeps_the_connection_and_copies_open_it, "bare"),
        ("memory that is shown keeps it, and copies open it (fabric)", memory_that_is_shown_keeps_the_connection_and_copies_open_it, "fabric"),
        ("a node that is killed is lost to all", a_node_that_dies_is_lost_to_all, signal.SIGKILL, PATIENT_MS, PATIENT_MS / 1000),
        ("a node that is stopped is lost to all", a_node_that_dies_is_lost_to_all, signal.SIGSTOP, SEEN_MS, 4 * SEEN_MS / 1000),
        ("a node that says goodbye is lost to all", a_node_that_says_goodbye_is_lost_to_all),
        ("a node that comes back begins anew with all", a_node_that_comes_back_begins_anew_with_all),
        ("a node that is dropped by one stays with the others", one_that_is_doubted_and_there_stays),
        ("keys that change meanwhile are used", keys_that_change_meanwhile_are_used),
        ("what is sent while it is being parked arrives", what_is_sent_while_it_is_being_parked_arrives),
        ("use and parking at once", use_and_parking_at_once)]


def with_net(case, *args):
    with fresh_net(NAMES) as net:
        case(net, *args)


sys.exit(Cases().run_chosen([(name, with_net, *rest) for name, *rest in ROWS], None))
