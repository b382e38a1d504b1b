"""Who gets into a net: nodes with certificates, and those who attack its port without the credentials, or with another node's."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import sys
import time

from authority import Authority
from net_nodes import fresh_net, meet, talk
from tap import DEADLINE, NIGHTLY, Cases, equal, expect, until

OFTEN_MS = 500
FLOOD = 100_000 if NIGHTLY else 5_000
HELLO, DATA, LANE, DOUBT, LOST, PARK, STAY = 1, 2, 7, 9, 12, 13, 14
PROTOCOL = 16
MiB = 1 << 20
LARGE = 32 * MiB


def stay_apart(a, b):
    """Both have tried, and neither is up."""
    until(lambda: a.counts()["refused"] + b.counts()["refused"] >= 3, "both try")
    equal([line for line in a.events + b.events if line[0] == "up"], [])


def nodes_with_certificates_talk(net):
    authority = Authority(net.folder / "ca")
    a, b = net.node("a", authority.certify("a")), net.node("b", authority.certify("b"))
    meet(a, b)
    talk(a, b, "one")
    talk(b, a, "two")


def another_authority_is_not_believed(net):
    ours, theirs = Authority(net.folder / "ours"), Authority(net.folder / "theirs")
    stay_apart(net.node("a", ours.certify("a"), OFTEN_MS), net.node("b", theirs.certify("b"), OFTEN_MS))


def a_certificate_that_has_expired_is_not_believed(net):
    authority = Authority(net.folder / "ca")
    b = net.node("b", authority.certify("b", days=-1), OFTEN_MS)
    stay_apart(net.node("a", authority.certify("a"), OFTEN_MS), b)


def a_key_and_a_certificate_do_not_meet(net):
    stay_apart(net.node("a", timeout=OFTEN_MS), net.node("b", Authority(net.folder / "ca").certify("b"), OFTEN_MS))


def text(word):
    return struct.pack("<H", len(word)) + word.encode()


def hello(sender, receiver, protocol=PROTOCOL):
    body = struct.pack("<I", protocol) + text(sender) + text(receiver) + bytes(32) + struct.pack("<QQQB", 1, 1, 1, 1) + text("") + b"\0"
    return struct.pack("<HH", HELLO, len(body)) + body


def dial(net, files, to="a"):
    """A TLS connection by somebody who has these files of a node."""
    cert, key, ca = files.split(",")
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    context.load_cert_chain(cert, key)
    return context.wrap_socket(socket.create_connection(net.places[to], DEADLINE))


def closed(connection):
    """It is ended by the other side, which says nothing before."""
    connection.settimeout(DEADLINE)
    with contextlib.suppress(OSError):
        return connection.recv(1) == b""
    return True


def who_has_the_certificate_of_one_node_is_no_other(net):
    authority = Authority(net.folder / "ca")
    c = authority.certify("c")
    a = net.node("a", authority.certify("a"))
    b = net.node("b", authority.certify("b"))
    meet(a, b)
    for said in (hello("b", "a"), hello("a", "a"), hello("c", "b"), hello("nobody", "a"), hello("b", "a", 99), b"\xff" * 64,
                 *(struct.pack("<HH", kind, 8) + bytes(8) for kind in (DATA, PARK, STAY)),
                 *(struct.pack("<HHIIII", kind, 16, 1, 2, 0, 9) for kind in (DOUBT, LOST))):
        with dial(net, c) as connection:
            connection.sendall(said)
            expect(closed(connection), said)
    talk(a, b, "still-here")
    equal([line for line in a.events + b.events if line[0] in ("up", "down", "message")], [])


def lane(sender, token):
    body = text(sender) + token
    return struct.pack("<HH", LANE, len(body)) + body


def a_lane_without_the_token_of_the_session_reaches_nothing(net):
    """Even by a node of the cluster, whose session stands: to take its own place it would have to know the token."""
    authority = Authority(net.folder / "ca")
    of_b, of_c = authority.certify("b"), authority.certify("c")
    a = net.node("a", authority.certify("a"))
    b = net.node("b", of_b)
    meet(a, b)
    region, ticket = a.expose(b, MiB, "w", 1)
    b.copy("write", a, ticket, MiB, 2)
    b.copied(MiB)
    key = int(ticket.split()[0])
    write = struct.pack("<IIQQ", 1, 8, key, 0) + bytes(8)
    for files, sender, token in ((of_b, "b", bytes(32)), (of_b, "b", os.urandom(32)), (of_c, "b", os.urandom(32)), (of_c, "c", bytes(32)),
                                 (of_b, "b", b""), (of_b, "nobody", bytes(32))):
        with dial(net, files) as connection:
            connection.sendall(lane(sender, token) + write)
            expect(closed(connection), sender, token)
    equal(a.ask(f"check {region} 2", "checked"), ["match"], "memory that b was shown")
    b.copy("write", a, ticket, MiB, 3)
    b.copied(MiB)
    equal(a.ask(f"check {region} 3", "checked"), ["match"])
    equal([line for line in a.events + b.events if line[0] == "down"], [])


def a_node_does_not_start_with_the_certificate_of_another(net):
    authority = Authority(net.folder / "ca")
    with contextlib.suppress(Exception):
        net.node("a", authority.certify("b"))
    net.processes[-1].wait(DEADLINE)
    equal(net.processes[-1].returncode, 1)


# ---- floods


def record_call(net, node):
    """What a genuine node says first, as somebody who stands between them would have it."""
    host, port = net.places["a"]
    with socket.create_server((host, port)) as trap:
        trap.settimeout(DEADLINE)
        node_b = node("b")
        connection, _ = trap.accept()
        with connection:
            said = connection.recv(65536)
    node_b.signal(signal.SIGKILL)
    expect(len(said) > 200, len(said))
    return said


def flood(place, said, count, stop):
    """Connections without end, of which many are kept open: silent ones, noise, and the recorded call."""
    kept, n = [], 0
    while n < count or not stop():
        s = socket.socket()
        with contextlib.suppress(OSError):
            s.settimeout(1)
            s.connect(place)
            if n % 3:
                s.sendall(said if n % 3 == 1 else os.urandom(200))
        kept.append(s)
        if len(kept) > 400:
            for old in kept[:200]:
                old.close()
            kept = kept[200:]
        n += 1
    return n


def strangers_without_end_keep_nobody_out(net):
    said = record_call(net, net.node)
    a, b = net.node("a"), net.node("b")
    meet(a, b)
    a.counts()
    ready = net.folder / "stop"
    pid = os.fork()
    if not pid:
        count = flood(net.places["a"], said, FLOOD, ready.exists)
        (net.folder / "count").write_text(str(count))
        os._exit(0)
    try:
        until(lambda: a.counts()["refused"] > 200, "the flood has begun")
        for n in range(50):
            talk(a, b, f"in-the-flood-{n}")
            talk(b, a, f"and-back-{n}")
        equal([line for line in a.events + b.events if line[0] == "down"], [])
        b.signal(signal.SIGKILL)
        a.expect("down", "1")
        begun = time.monotonic()
        b = net.node("b")
        meet(a, b)
        print(f"# a node comes back in {time.monotonic() - begun:.2f} s beside the flood", flush=True)
        talk(b, a, "back")
        ready.touch()
        os.waitpid(pid, 0)
        pid = 0
        expect(int((net.folder / "count").read_text()) >= FLOOD, "connections")
        descriptors = len(os.listdir(f"/proc/{a.process.pid}/fd"))
        expect(descriptors < 250, "descriptors", descriptors)
        until(lambda: len(os.listdir(f"/proc/{a.process.pid}/fd")) < 40, "the strangers are gone")
        talk(a, b, "after-it")
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def a_recorded_call_opens_nothing_and_disturbs_nothing(net):
    said = record_call(net, net.node)
    a, b = net.node("a"), net.node("b")
    meet(a, b)
    for _ in range(300):
        with socket.create_connection(net.places["a"], DEADLINE) as s:
            s.sendall(said)
            s.settimeout(DEADLINE)
            expect(s.recv(1), "it is answered, as a genuine one is")
            with contextlib.suppress(ConnectionResetError):
                s.sendall(said)  # in place of what the answer asks for
                while s.recv(65536):
                    pass
    talk(a, b, "undisturbed")
    equal([line for line in a.events + b.events if line[0] in ("up", "down")], [])


# ---- rotation


def begin_anew(a, b):
    """A session by the keys that are used now."""
    a.ask(f"drop {b.number} -71", "dropped")
    a.expect("down", str(b.number))
    b.expect("down", str(a.number))
    meet(a, b)


def a_key_is_changed_under_load(net, way):
    """After each step the session goes on, and a new one begins, whichever of both nodes calls; copies go on all the time."""
    old, new = (os.urandom(32).hex() for _ in range(2))
    keys = {name: net.folder / f"key-{name}" for name in "ab"}

    def write(name, *words):
        keys[name].write_text("".join(f"{word}\n" for word in words))
        keys[name].chmod(0o600)

    for name in "ab":
        write(name, old)
    nodes = {name: net.node(name, keys[name], way=way) for name in "ab"}
    a, b = nodes.values()
    meet(a, b)
    for step, (name, words) in enumerate([(name, words) for words in ((old, new), (new, old), (new,)) for name in "ab"]):
        _, ticket = b.expose(a, LARGE, "w", 1)
        for _ in range(2):
            a.copy("stream", b, ticket, LARGE, 2)
        a.next("done")
        write(name, "broken")
        expect(nodes[name].ask("renew", "renewed") != ["0"], "a file that is broken")
        write(name, *words)
        equal(nodes[name].ask("renew", "renewed"), ["0"])
        talk(a, b, f"step-{step}")
        equal(a.next("done")[::2], [str(LARGE), "match"], "a copy after it")
        equal([line for line in a.events + b.events if line[0] == "down"], [], "sessions that ended")
        begin_anew(*((a, b) if step % 2 else (b, a)))
        talk(b, a, f"anew-{step}")
        a.events, b.events = [], []
    c = net.node("c", keys["a"], way=way)  # with the new key, and one more with the old one
    a.expect("up", "2")
    c.signal(signal.SIGKILL)
    a.expect("down", "2")
    write("a", old)
    refused = a.counts()["refused"]
    c = net.node("c", keys["a"], OFTEN_MS, way)
    until(lambda: a.counts()["refused"] > refused, "the old key is tried")
    equal([line for line in a.events + c.events if line[0] == "up"], [])


def a_key_is_changed_under_load_of_sealed_copies(net):
    a_key_is_changed_under_load(net, "sealed")


def a_key_is_changed_under_load_of_bare_copies(net):
    a_key_is_changed_under_load(net, "bare")


def a_certificate_is_renewed_under_load(net):
    """And one that has expired meanwhile is not taken any more."""
    authority = Authority(net.folder / "ca")
    files = authority.certify("b")
    a, b = net.node("a", authority.certify("a")), net.node("b", files)
    meet(a, b)
    cert, key = (pathlib.Path(word) for word in files.split(",")[:2])
    for days, opens in ((2, True), (-1, False), (2, True)):
        for new, place in zip(authority.certify("b", days).split(","), (cert, key)):
            shutil.copy(new, place)
        equal(b.ask("renew", "renewed"), ["0"])
        talk(a, b, "still-here")
        a.ask("drop 1 -71", "dropped")
        a.expect("down", "1")
        if opens:
            meet(a, b)
        else:
            refused = a.counts()["refused"]
            until(lambda: a.counts()["refused"] > refused + 2, "it tries")
            equal([line for line in a.events if line[0] == "up"], [])
            for new, place in zip(authority.certify("b").split(","), (cert, key)):
                shutil.copy(new, place)
            equal(b.ask("renew", "renewed"), ["0"])
            meet(a, b)
        a.events, b.events = [], []


CASES = [nodes_with_certificates_talk, a_key_is_changed_under_load_of_sealed_copies, a_key_is_changed_under_load_of_bare_copies,
         a_certificate_is_renewed_under_load, a_lane_without_the_token_of_the_session_reaches_nothing,
         another_authority_is_not_believed, a_certificate_that_has_expired_is_not_believed,
         a_key_and_a_certificate_do_not_meet, who_has_the_certificate_of_one_node_is_no_other,
         a_node_does_not_start_with_the_certificate_of_another, a_recorded_call_opens_nothing_and_disturbs_nothing,
         strangers_without_end_keep_nobody_out]

cases = Cases(around=fresh_net)
for case in CASES:
    if len(sys.argv) < 2 or sys.argv[1] in case.__name__:
        cases.run(case.__name__.replace("_", " "), case)
sys.exit(cases.end())
