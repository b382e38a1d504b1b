"""The net, with copies over TCP, sealed and not, and over libfabric: nodes as processes of their own (tools/net_node.c) on addresses of loopback, which are killed, stopped, cut off
and refused."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from loopback_cluster import free_port
from middle import TRICKS, Middle
from net_nodes import NetNode
from tap import BIN, DEADLINE, NIGHTLY, Cases, equal, expect

MiB = 1 << 20
LARGE = 1024 * MiB if NIGHTLY else 256 * MiB
COPY = 32 * MiB  # of which many are on the way
PATIENT_MS = 20000  # where nothing is to be lost on a busy machine, or in a moment without it
TIMEOUT_MS = 2000  # where somebody is
OFTEN_MS = 500  # they try again after it
MORE, EBADMSG = 0x8000, "-74"  # in the type of a message: the next one goes on with it
EACCES, ENOBUFS, ETIMEDOUT, ECONNRESET, ESHUTDOWN = -13, -105, -110, -104, -108


class Node(NetNode):
    def __init__(self, net, name, key=None, roster=None, timeout=PATIENT_MS, way=None):
        super().__init__(name, "abc".index(name), roster or net.roster, key or net.key, timeout, net.spawn,
                         way or net.way)


class Net:
    def __init__(self, folder, way):
        self.folder, self.way, self.processes = pathlib.Path(folder), way, []
        self.roster, self.key = self.folder / "roster", self.new_key("key")
        ports = [free_port(f"127.0.0.{n}") for n in (1, 2, 3)]
        self.roster.write_text("".join(f"{name} 127.0.0.{n} {port}\n".replace(f" {port}", f":{port}")
                                       for n, (name, port) in enumerate(zip("abc", ports), 1)))

    def new_key(self, name):
        path = self.folder / name
        path.write_text(os.urandom(32).hex())
        path.chmod(0o600)
        return path

    def pair(self, **options):
        a, b = Node(self, "a", **options), Node(self, "b", **options)
        a.expect("up", "1")
        b.expect("up", "0")
        return a, b

    def spawn(self, command, **how):
        self.processes.append(subprocess.Popen(command, **how))
        return self.processes[-1]

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextlib.contextmanager
def fresh_net(way):
    with tempfile.TemporaryDirectory() as folder:
        net = Net(folder, way)
        try:
            yield net
        finally:
            net.close()


def messages_arrive_in_order_and_a_full_queue_is_told(net):
    a, b = net.pair()
    b.ask("deaf", "deaf")  # its loop, not its net: the session stays
    rc, taken = map(int, a.ask("flood 1 5000 20000", "flooded"))
    equal(rc, ENOBUFS)
    expect(taken >= 256, taken)
    b.ask("counts", "counts")  # it hears again
    for n in range(taken):
        equal(b.next("message", "0")[2], f"{n:06}", "message")
    equal(a.ask("flood 1 1 10", "flooded"), ["0", "1"], "when there is room again")
    b.expect("message", "0", "9", "10")
    equal([line for line in a.events + b.events if line[0] in ("down", "message")], [])
    equal(a.ask("flood 1 1 1048577", "flooded"), ["-90", "0"], "one that is too long")
    equal(a.ask("flood 2 1 10", "flooded"), ["-107", "0"], "to a node that is not there")
    equal((a.end(), b.end()), (0, 0))


def what_several_are_sent_may_be_longer_and_takes_no_room_in_their_queues(net):
    a, b, c = (Node(net, name) for name in "abc")
    for other in "01":
        c.expect("up", other)
    for _ in range(2):
        equal(c.ask(f"share {20 * MiB}", "shared"), ["0", "0"], "twice what a queue has room for")
    equal(c.ask("flood 0 1 1000000", "flooded"), ["0", "1"], "there is room for others")
    for node in (a, b):
        for _ in range(2):
            node.expect("message", "2", "8", str(20 * MiB))
    a.expect("message", "2", "9", "1000000")
    equal(c.ask(f"share {72 * MiB + 1}", "shared"), ["-90", "-90"], "one that is too long")
    equal([line for node in (a, b, c) for line in node.events if line[0] == "down"], [])


def a_body_without_end_is_not_taken(net):
    a, b = net.pair()
    taken = 0
    while taken <= 72:
        taken += int(a.ask(f"flood 1 1 {MiB} {MORE | 9}", "flooded")[1])
    b.expect("down", "0", EBADMSG)
    equal([line for line in b.events if line[0] == "message"], [])
    b.expect("up", "0")
    a.expect("up", "1")
    equal(a.ask("send 1 7 afresh", "sent"), ["0"])
    b.expect("message", "0", "7", "6", "afresh")


def copies_go_both_ways_and_are_whole(net):
    a, b = net.pair()
    region, ticket = b.expose(a, LARGE, "w", 1)
    a.copy("write", b, ticket, LARGE, 2)
    a.copied(LARGE)
    equal(b.ask(f"check {region} 2", "checked"), ["match"])
    _, ticket = b.expose(a, LARGE, "r", 3)
    a.copy("read", b, ticket, LARGE, 3)
    a.copied(LARGE)
    for size in (0, 8, 4096, 8 * MiB + 8):
        a.copy("read", b, ticket, size, 3)
        a.copied(size)
    a.copy("read", b, ticket, LARGE, 3, offset=8)
    a.copied(-34)  # ERANGE
    equal(a.counts()["refused"] + b.counts()["refused"], 0)


def processor_seconds(node):
    tasks = pathlib.Path(f"/proc/{node.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def who_has_nothing_to_copy_sleeps(net):
    pair = net.pair()
    a, b = pair
    _, ticket = b.expose(a, LARGE, "w", 1)
    a.copy("write", b, ticket, LARGE, 2)
    a.copied(LARGE)
    used = [processor_seconds(node) for node in pair]
    expect(min(used) > 0, "seconds of a processor that the copy took:", used)
    time.sleep(1)  # what it does meanwhile is looked at
    used = [processor_seconds(node) - before for node, before in zip(pair, used)]
    expect(max(used) < 0.2, "seconds of a processor:", used)


def one_that_is_killed_is_seen_and_taken_back(net):
    a, b = net.pair()
    c = Node(net, "c")
    a.expect("up", "2")
    _, ticket = b.expose(a, COPY, "w", 1)
    for _ in range(40):
        a.copy("stream", b, ticket, COPY, 2)
    begun = time.monotonic()
    b.signal(signal.SIGKILL)
    a.expect("down", "1")
    expect(time.monotonic() - begun < PATIENT_MS / 2000, "seen after", time.monotonic() - begun)
    ended = [line for line in a.events if line[0] == "done" and int(line[1]) < 0]
    equal(len(ended), 40, "copies in flight that have ended before the session")
    a.events.clear()
    a.copy("write", b, ticket, 8, 2)
    a.copied(-107)
    b = Node(net, "b")
    b.expect("up", "0")
    a.expect("up", "1")
    equal(a.ask("send 1 7 again", "sent"), ["0"])
    equal(b.expect("message", "0", "7"), ["5", "again"])
    region, ticket = b.expose(a, MiB, "w", 1)
    a.copy("write", b, ticket, MiB, 5)
    a.copied(MiB)
    equal([line for line in a.events + c.events if line == ["down", "2", "-104"] or line[:2] == ["down", "0"]], [])


def one_that_is_stopped_is_seen_and_what_it_was_writing_when_it_wakes_up_is_lost(net):
    a, b = net.pair(timeout=TIMEOUT_MS)
    region, ticket = a.expose(b, COPY, "w", 1)
    for _ in range(40):
        b.copy("stream", a, ticket, COPY, 2)
    b.next("done")  # in the midst of the others
    begun = time.monotonic()
    b.signal(signal.SIGSTOP)
    equal(a.expect("down", "1"), [str(ETIMEDOUT)])
    expect(time.monotonic() - begun < 10 * TIMEOUT_MS / 1000, "seen after", time.monotonic() - begun)
    a.ask(f"withdraw {region}", "withdrawn")
    a.ask(f"fill {region} 9", "filled")
    b.signal(signal.SIGCONT)
    b.expect("down", "0")
    a.expect("up", "1")
    b.expect("up", "0")
    b.events = [line for line in b.events if line[0] != "done"]
    b.copy("write", a, ticket, 8 * MiB, 2)
    b.copied(ECONNRESET if net.way == "fabric" else EACCES)
    equal(a.ask(f"check {region} 9", "checked"), ["match"], "memory that was withdrawn")


def end_of_stream(node, size):
    """What ended one of its streams, after all that went well."""
    limit = time.monotonic() + DEADLINE
    while (result := int(node.next("done")[0])) == size:
        expect(time.monotonic() < limit, "a stream goes on")
    return result


def a_region_that_is_withdrawn_is_written_no_more(net):
    a, b = net.pair()
    other, spared = a.expose(b, MiB, "w", 1)
    for round_ in range(8):
        region, ticket = a.expose(b, 64 * MiB, "w", 1)
        for _ in range(4):
            b.copy("stream", a, ticket, 64 * MiB, 2)
        if round_ % 2:
            b.next("done")
        a.ask(f"withdraw {region}", "withdrawn")
        a.ask(f"fill {region} 9", "filled")
        for _ in range(4):
            result = end_of_stream(b, 64 * MiB)
            expect(result in (EACCES, ECONNRESET), result)
        b.copy("write", a, ticket, 8, 2)
        b.copied(EACCES)
        equal(a.ask(f"check {region} 9", "checked"), ["match"], "memory that was withdrawn")
    b.copy("write", a, spared, MiB, 3)
    b.copied(MiB)
    equal(a.ask(f"check {other} 3", "checked"), ["match"], "and another one goes on")
    equal([line for line in a.events + b.events if line[0] == "down"], [], "sessions that ended")


def a_copy_that_is_late_ends_and_the_session_goes_on(net):
    a, b = net.pair()
    region, ticket = b.expose(a, COPY, "w", 1)
    b.signal(signal.SIGSTOP)
    begun = time.monotonic()
    a.copy("write", b, ticket, COPY, 2, ms=300)
    a.copied(ETIMEDOUT)
    expect(time.monotonic() - begun < PATIENT_MS / 2000, "ended after", time.monotonic() - begun)
    mine, _ = a.expose(b, MiB, "w", 1)
    begun = time.monotonic()
    a.ask(f"withdraw {mine}", "withdrawn")
    expect(time.monotonic() - begun < PATIENT_MS / 2000, "withdrawn after", time.monotonic() - begun)
    b.signal(signal.SIGCONT)
    a.copy("write", b, ticket, COPY, 4)
    a.copied(COPY)
    equal(b.ask(f"check {region} 4", "checked"), ["match"])
    equal([line for line in a.events + b.events if line[0] == "down"], [])


def a_session_that_is_dropped_begins_anew(net):
    a, b = net.pair()
    a.ask("drop 1 -71", "dropped")
    equal(a.expect("down", "1"), ["-71"])
    b.expect("down", "0")
    a.expect("up", "1")
    b.expect("up", "0")
    equal(b.end(), 0)
    equal(a.expect("down", "1"), [str(ESHUTDOWN)], "a goodbye")


def what_is_done_to_a_copy_on_its_way_is_found_and_it_is_made_again(net):
    place = net.roster.read_text().splitlines()[1].split()[1].split(":")
    middle = Middle((place[0], int(place[1])))
    environment = {**os.environ, **middle.environment()}
    a = NetNode("a", 0, net.roster, net.key, PATIENT_MS, lambda *args, **how: net.spawn(*args, env=environment, **how), net.way)
    log = net.folder / "log"
    with log.open("w") as errors:
        b = NetNode("b", 1, net.roster, net.key, PATIENT_MS, lambda *args, **how: net.spawn(*args, stderr=errors, **how), net.way)
    a.expect("up", "1")
    b.expect("up", "0")
    region, ticket = b.expose(a, COPY, "w", 1)
    seed = 2
    for number, trick in enumerate([*TRICKS] * 3, 1):
        middle.play(trick)
        a.copy("write", b, ticket, COPY, seed)
        a.copied(ECONNRESET)
        equal(middle.played, number, trick)
        equal(log.read_text().count("copies of node a: what came was changed on its way"), 1, f"told once in a session: {log.read_text()}")
        a.copy("write", b, ticket, COPY, seed + 1)
        a.copied(COPY)
        equal(b.ask(f"check {region} {seed + 1}", "checked"), ["match"], trick)
        seed += 2
    equal([line for line in a.events + b.events if line[0] == "down"], [], "sessions that ended")
    middle.close()


def clock_of(node, other):
    """(round trip, how far it is ahead) in seconds."""
    node.ask("clocks", "asked")
    return tuple(int(ns) / 1e9 for ns in node.expect("clock", str(other.number)))


def a_node_is_asked_for_the_time(net):
    a, b = net.pair()
    for ahead in (0, 3600, 86400):
        equal(b.ask(f"jump {ahead * 10**9}", "jumped"), [])
        for asks, of, by in ((a, b, ahead), (b, a, -ahead)):
            trip, is_ahead = clock_of(asks, of)
            expect(trip > 0, "a round trip takes time")
            expect(abs(is_ahead - by) <= trip / 2 + 0.001, asks.name, is_ahead, "and not", by, "of", trip)
    equal([line for line in a.events + b.events if line[0] in ("down", "clock")], [])


def one_that_does_not_answer_is_not_asked_again_and_nobody_waits(net):
    a, b = net.pair()
    c = Node(net, "c")
    a.expect("up", "2")
    b.signal(signal.SIGSTOP)
    for _ in range(5):
        clock_of(a, c)
    equal([line for line in a.events if line[0] == "clock"], [])
    b.signal(signal.SIGCONT)
    a.expect("clock", "1")
    clock_of(a, b)
    equal([line for line in a.events if line[:2] == ["clock", "1"]], [], "an answer for each question")


def stay_apart(a, b):
    """Both have tried: frames were refused, and none of them is up."""
    limit = time.monotonic() + DEADLINE
    while a.counts()["refused"] < 3 or b.counts()["refused"] < 1:
        expect(time.monotonic() < limit, "nothing was refused", a.counts(), b.counts())
        time.sleep(0.02)
    equal([line for line in a.events + b.events if line[0] == "up"], [])
    equal(a.counts()["sessions"] + b.counts()["sessions"], 0)


def another_key_is_never_up(net):
    stay_apart(Node(net, "a", timeout=OFTEN_MS), Node(net, "b", key=net.new_key("other"), timeout=OFTEN_MS))


def another_roster_is_never_up(net):
    other = net.folder / "other"
    other.write_text(net.roster.read_text() + "d 127.0.0.4:1\n")
    stay_apart(Node(net, "a", timeout=OFTEN_MS), Node(net, "b", roster=other, timeout=OFTEN_MS))


def another_way_of_copies_is_never_up(net):
    b = Node(net, "b", timeout=OFTEN_MS)
    for way in ("bare", "fabric"):
        a = Node(net, "a", timeout=OFTEN_MS, way=way)
        stay_apart(a, b)
        a.signal(signal.SIGKILL)


def what_cannot_begin_says_why(net):
    def fails(name, roster, key):
        done = subprocess.run([BIN / "net_node", roster, name, key, "1000", "fabric"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=DEADLINE)
        equal(done.returncode, 1, done.stdout)
        return done.stdout

    Node(net, "a")
    expect("in use" in fails("a", net.roster, net.key), "the address")
    net.key.chmod(0o644)
    expect("chmod 600" in fails("b", net.roster, net.key), "the key")
    elsewhere = net.folder / "elsewhere"
    elsewhere.write_text("a 127.0.0.1:7000\nb 192.0.2.1:7000\n")
    expect("loopback" in fails("a", elsewhere, net.new_key("key2")), "the address that nobody reaches")


COPIES = [copies_go_both_ways_and_are_whole, who_has_nothing_to_copy_sleeps, one_that_is_killed_is_seen_and_taken_back,
          one_that_is_stopped_is_seen_and_what_it_was_writing_when_it_wakes_up_is_lost, a_region_that_is_withdrawn_is_written_no_more,
          a_copy_that_is_late_ends_and_the_session_goes_on]
REST = [a_node_is_asked_for_the_time, one_that_does_not_answer_is_not_asked_again_and_nobody_waits, what_is_done_to_a_copy_on_its_way_is_found_and_it_is_made_again, messages_arrive_in_order_and_a_full_queue_is_told,
        what_several_are_sent_may_be_longer_and_takes_no_room_in_their_queues, a_body_without_end_is_not_taken, a_session_that_is_dropped_begins_anew, another_key_is_never_up,
        another_roster_is_never_up, another_way_of_copies_is_never_up, what_cannot_begin_says_why]

cases = Cases()
for way, chosen in (("sealed", COPIES + REST), ("bare", COPIES), ("fabric", COPIES)):
    cases.around = lambda way=way: fresh_net(way)
    for case in chosen:
        name = f"{way}: {case.__name__.replace('_', ' ')}"
        if len(sys.argv) < 2 or sys.argv[1].replace("_", " ") in name:
            cases.run(name, case)
sys.exit(cases.end())
