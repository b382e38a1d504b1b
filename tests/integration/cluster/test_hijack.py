"""Another user of a node, who has no key, tries to take the node's place for copies, each way that they go: from its address, with noise, and
with what the node itself has said."""

import contextlib
import encodings.idna  # before another user wants it, who may not read it
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures.thread import ThreadPoolExecutor

from middle import Middle
from net_nodes import fresh_net, meet, ports
from tap import BIN, DEADLINE, NIGHTLY, Cases, equal, expect

MiB = 1 << 20
NOBODY = 65534
TRIES = 2000 if NIGHTLY else 100
ALL = ("sealed", "bare", "fabric")


def as_another_user(attack, *nodes):
    """Where we are root, who may be one. The nodes are asked meanwhile: one that hears nothing for a minute ends."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            attack()
            status = 0
        except Exception as e:
            print(f"# {e!r}", flush=True)
        os._exit(status)
    ended = os.pidfd_open(pid)
    while not select.select([ended], [], [], 5)[0]:
        for node in nodes:
            node.counts()
    os.close(ended)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "the attack took place")


def say(place, words, source):
    """And hear how it ends."""
    with socket.create_connection(place, DEADLINE, source_address=(source, 0)) as s, contextlib.suppress(OSError):
        s.sendall(words)
        s.shutdown(socket.SHUT_WR)
        s.settimeout(DEADLINE)
        while s.recv(65536):
            pass


def open_ports(net, node):
    return ports(node.process.pid) - {net.places[node.name][1]}


def only_the_way_of_rdma_has_a_port_of_its_own(net, way):
    a, b = net.node("a", way=way), net.node("b", way=way)
    meet(a, b)
    for node in (a, b):
        equal(len(open_ports(net, node)), way == "fabric", "ports beside the roster's")


def copy_whole(a, b, region, ticket, seed):
    a.copy("write", b, ticket, MiB, seed)
    a.copied(MiB)
    equal(b.ask(f"check {region} {seed}", "checked"), ["match"])


def undisturbed(*nodes):
    equal([line for node in nodes for line in node.events if line[0] in ("down", "message")], [])


def noise_takes_no_nodes_place(net, way):
    a, b = net.node("a", way=way), net.node("b", way=way)
    meet(a, b)
    region, ticket = b.expose(a, MiB, "w", 1)
    copy_whole(a, b, region, ticket, 2)
    doors = [(net.places[node.name][0], port) for node in (a, b) for port in ports(node.process.pid)]

    def make_noise(place):
        for n in range(TRIES):
            say(place, os.urandom(n % 300), net.places["b" if place[0] == net.places["a"][0] else "a"][0])

    def attack():
        with ThreadPoolExecutor(len(doors)) as strangers:
            list(strangers.map(make_noise, doors))

    as_another_user(attack, a, b)
    copy_whole(a, b, region, ticket, 3)
    undisturbed(a, b)


def what_a_node_has_said_opens_nothing(net, way):
    """All that it said first, over each of its connections, from the address that it has."""
    b = net.node("b", way=way)
    door = open_ports(net, b).pop() if way == "fabric" else net.places["b"][1]
    middle = Middle((net.places["b"][0], door))
    a = net.node("a", way=way, environment=middle.environment())
    meet(a, b)
    region, ticket = b.expose(a, MiB, "w", 1)
    copy_whole(a, b, region, ticket, 2)
    said = list(middle.said)
    equal(len(said), 1 if way == "fabric" else 2, "connections")
    refused = b.counts()["refused"]

    def attack():
        for n in range(TRIES):
            say(middle.place, said[n % len(said)], net.places["a"][0])

    as_another_user(attack, a, b)
    if way == "fabric":  # to the others a call that goes no further has been called off
        expect(b.counts()["refused"] >= refused + TRIES, b.counts(), refused)
    copy_whole(a, b, region, ticket, 3)
    equal(len(middle.said), len(said), "a had to open no other")
    undisturbed(a, b)
    middle.close()


def stranger(*words):
    """Run by another user, from a folder that he can reach. What he says."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run([shutil.copy(BIN / "rail_stranger", folder), *map(str, words)], capture_output=True, text=True, timeout=DEADLINE,
                              cwd=folder, check=False, **user)
    equal(done.returncode, 0, done.stderr)
    return done.stdout


def who_has_libfabric_and_no_key_is_refused(net, way):
    """He speaks as libfabric does, in the name of each node, and says the words that a node has said, too."""
    b = net.node("b", way=way)
    door = open_ports(net, b).pop()
    middle = Middle((net.places["b"][0], door))
    a = net.node("a", way=way, environment=middle.environment())
    meet(a, b)
    region, ticket = b.expose(a, MiB, "w", 1)
    copy_whole(a, b, region, ticket, 2)
    words = middle.said[0][-44:].hex()
    expect(words.startswith("00000000" + "01" + 14 * "0"), "the words of the first call", words)
    refused = b.counts()["refused"]
    for more in ([], [words]):
        equal(stranger(net.places["a"][0], net.places["b"][0], door, TRIES, *more), "0\n", "calls that were taken")
    expect(b.counts()["refused"] >= refused + 2 * TRIES, b.counts(), refused)
    copy_whole(a, b, region, ticket, 3)
    undisturbed(a, b)
    middle.close()


cases = Cases(around=fresh_net)
for case, ways in ((only_the_way_of_rdma_has_a_port_of_its_own, ALL), (noise_takes_no_nodes_place, ALL), (what_a_node_has_said_opens_nothing, ALL),
                   (who_has_libfabric_and_no_key_is_refused, ("fabric",))):
    for way in ways:
        name = f"{way}: {case.__name__.replace('_', ' ')}"
        if len(sys.argv) < 2 or sys.argv[1] in name:
            cases.run(name, lambda net, case=case, way=way: case(net, way))
sys.exit(cases.end())
