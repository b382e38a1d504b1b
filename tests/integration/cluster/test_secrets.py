"""What strangers cost, and where keys are: a node of a net whose memory and processor time are looked at."""

import contextlib
import hashlib
import hmac
import os
import pathlib
import re
import select
import socket
import struct
import sys

from authority import Authority
from net_nodes import fresh_net, meet, talk
from tap import DEADLINE, Cases, equal, expect, until

IDENTITIES = 75  # as many as fit into a call that is looked at
TOO_MANY = 1300  # as many as fit into the extension
CALLS = 50
HALF_OPEN_KIB = 64  # of memory that a half-open call may cost, at most
KEPT, KEPT_EACH, NODES = 128, 64, 3  # strangers that a node keeps: of all addresses, beside one for each node; of one


def processor_seconds(node):
    tasks = pathlib.Path(f"/proc/{node.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def block(data, size):
    return len(data).to_bytes(size, "big") + data


def extension(number, data):
    return struct.pack(">H", number) + block(data, 2)


def call_of(*more):
    """The first flight of TLS 1.3, by hand, as anybody can make one."""
    extensions = (extension(43, block(b"\x03\x04", 1)) + extension(10, block(b"\x00\x1d", 2)) + extension(13, block(b"\x04\x03", 2)) +
                  extension(51, block(b"\x00\x1d" + block(os.urandom(32), 2), 2)) + extension(45, block(b"\x01", 1)) + b"".join(more))
    hello = b"\x03\x03" + os.urandom(32) + block(b"", 1) + block(b"\x13\x02", 2) + block(b"\x00", 1) + block(extensions, 2)
    message = b"\x01" + block(hello, 3)
    return b"".join(b"\x16\x03\x01" + block(message[at:at + 16384], 2) for at in range(0, len(message), 16384))


def call_that_claims(count):
    """With so many identities of the cluster's form."""
    identities = b"".join(block(b"ckpt1 x b", 2) + bytes(4) for _ in range(count))
    return call_of(extension(41, block(identities, 2) + block(count * block(bytes(32), 1), 2)))


def cost_of_calls(net, node, call):
    before = processor_seconds(node)
    for _ in range(CALLS):
        with socket.create_connection(net.places[node.name], DEADLINE) as s:
            s.settimeout(DEADLINE)
            s.sendall(call)
            answer = s.recv(7)
            expect(answer[:1] == b"\x15", "an alert", answer)
    return (processor_seconds(node) - before) / CALLS


def who_claims_to_be_many_costs_no_more_than_who_claims_to_be_one(net):
    net.key.write_text(2 * (os.urandom(32).hex() + "\n"))
    a = net.node("a")
    one, many = (cost_of_calls(net, a, call_that_claims(count)) for count in (1, IDENTITIES))
    print(f"# {1e6 * one:.0f} us for one identity, {1e6 * many:.0f} us for {IDENTITIES}", flush=True)
    expect(many < one + 0.003, "seconds of a processor:", one, many)
    with socket.create_connection(net.places[a.name], DEADLINE) as s:
        s.settimeout(DEADLINE)
        with contextlib.suppress(OSError):  # it is closed before all is said
            s.sendall(call_that_claims(TOO_MANY))
            equal(s.recv(1), b"", "an answer to a call that is too long")


# ---- half-open calls


def memory_kib(node):
    text = pathlib.Path(f"/proc/{node.process.pid}/status").read_text()
    return {word: int(re.search(rf"^{word}:\s+(\d+) kB", text, re.M)[1]) for word in ("VmRSS", "VmLck", "VmData")}


def half_open(place, source, said):
    """A call that says this, and then nothing. None: it was not even kept so long."""
    s = socket.socket()
    try:
        s.bind((source, 0))
        s.settimeout(DEADLINE)
        s.connect(place)
        s.sendall(said)
    except OSError:
        s.close()
        return None
    return s


def still_open(sockets):
    return sum(s is not None and not select.select([s], [], [], 0)[0] for s in sockets)


def hears_answer(s):
    with contextlib.suppress(OSError):
        heard = len(s.recv(65536))
        while select.select([s], [], [], 0.01)[0] and (more := len(s.recv(65536))):
            heard += more
        return heard > 0
    return False


def flood(node, place, said, answered):
    """Memory that calls from five addresses cost the node, twice what it keeps, and how many were kept at once."""
    before = memory_kib(node)
    calls = [half_open(place, f"127.0.1.{n % 5}", said) for n in range(2 * KEPT)]
    if answered:
        expect(sum(hears_answer(s) for s in calls if s) > KEPT / 2, "calls to which the node says its own flight")
    until(lambda: still_open(calls) <= KEPT + NODES, "more calls are not kept")
    kept = still_open(calls)
    cost = {word: value - before[word] for word, value in memory_kib(node).items()}
    for s in filter(None, calls):
        s.close()
    return cost, kept


def half_open_calls_cost_a_bounded_amount(net):
    """The dearest that are known: to certificates a node answers whoever calls, and waits for theirs. Others claim a length, or stop short."""
    authority = Authority(net.folder / "ca")
    a, b = net.node("a", authority.certify("a")), net.node("b", authority.certify("b"))
    meet(a, b)
    whole = call_of()
    claims = b"\x16\x03\x01" + block(b"\x01" + (131000).to_bytes(3, "big") + bytes(12), 2)
    for name, said, answered in (("one byte short", whole[:-1], False), ("of a claimed length", claims, False), ("whole", whole, True)):
        cost, kept = flood(a, net.places["a"], said, answered)
        print(f"# {name}: {kept} kept, {cost}", flush=True)
        expect(said == claims or kept > KEPT / 2, "calls that are kept, so that something is measured", kept)
        for word, value in cost.items():
            expect(value < HALF_OPEN_KIB * (KEPT + NODES), name, word, value, "KiB")
        talk(a, b, "still-here")
    one = [half_open(net.places["a"], "127.0.1.9", whole) for _ in range(2 * KEPT_EACH)]
    until(lambda: still_open(one) <= KEPT_EACH, "of one address fewer are kept")
    talk(b, a, "and-back")


# ---- memory


def mappings(pid):
    """(begin, end, flags) of what can be written."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    for found in re.finditer(r"^([0-9a-f]+)-([0-9a-f]+) (rw..)(?:.*\n)+?VmFlags: (.*)$", text, re.M):
        yield int(found[1], 16), int(found[2], 16), found[4].split()


def places_of(pid, secrets):
    """[(secret's number, flags of the mapping that it is in)]."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for begin, end, flags in mappings(pid):
            memory.seek(begin)
            data = memory.read(end - begin)
            found += [(n, flags) for n, secret in enumerate(secrets) for _ in re.finditer(re.escape(secret), data)]
    return found


def secrets_of(key, caller, callee):
    """The key, and the PSK of a connection (credentials.c)."""
    name = hmac.new(key, b"ckpt key name", hashlib.sha384).hexdigest()[:16]
    return [key, hmac.new(key, f"ckpt1 {name} {caller} {callee}".encode(), hashlib.sha384).digest()]


def keys_are_in_memory_that_is_not_dumped(net):
    a, b = net.node("a"), net.node("b")
    meet(a, b)
    talk(a, b, "one")
    text = net.key.read_text().encode()
    secrets = [text, *secrets_of(bytes.fromhex(text.decode()), "a", "b")]
    for node in (a, b):
        found = places_of(node.process.pid, secrets)
        equal({n for n, _ in found if n == 1}, {1}, "the key is found where it is")
        equal([(n, flags) for n, flags in found if "dd" not in flags], [], "secrets in memory that is dumped")
        locked = sum("lo" in flags for _, flags in found)
        print(f"# {node.name}: {len(found)} places, {locked} of them locked", flush=True)
        expect(locked > 0, "places in locked memory")


def what_is_not_needed_any_more_is_wiped(net):
    """The key that was changed, and what was derived from it for connections that have ended."""
    a, b = net.node("a"), net.node("b")
    meet(a, b)
    talk(a, b, "one")
    text = net.key.read_text().encode()
    secrets = [text, bytes.fromhex(text.decode()), *secrets_of(bytes.fromhex(text.decode()), "a", "b")]
    expect(places_of(a.process.pid, secrets), "what is looked for is found while it is needed")
    net.key.write_text(os.urandom(32).hex())
    for node in (a, b):
        equal(node.ask("renew", "renewed"), ["0"])
    a.ask(f"drop {b.number} -71", "dropped")
    a.expect("down", str(b.number))
    b.expect("down", str(a.number))
    meet(a, b)
    talk(b, a, "by-the-new-key")
    for node in (a, b):
        equal(places_of(node.process.pid, secrets), [], f"what is left of the old key in {node.name}")


cases = Cases(around=fresh_net)
cases.run("who claims to be many costs no more than who claims to be one", who_claims_to_be_many_costs_no_more_than_who_claims_to_be_one)
cases.run("half-open calls cost a bounded amount", half_open_calls_cost_a_bounded_amount)
cases.run("keys are in memory that is not dumped", keys_are_in_memory_that_is_not_dumped)
cases.run("what is not needed any more is wiped", what_is_not_needed_any_more_is_wiped)
sys.exit(cases.end())
