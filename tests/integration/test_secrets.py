"""What strangers cost, and where keys are: a node of a net whose memory and processor time are looked at."""

import hashlib
import hmac
import os
import pathlib
import re
import socket
import struct
import sys

from net_nodes import fresh_net, meet, talk
from tap import DEADLINE, Cases, equal, expect

IDENTITIES = 1300  # as many as fit into the extension
CALLS = 50


def processor_seconds(node):
    tasks = pathlib.Path(f"/proc/{node.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def block(data, size):
    return len(data).to_bytes(size, "big") + data


def extension(number, data):
    return struct.pack(">H", number) + block(data, 2)


def call_that_claims(count):
    """The first flight of TLS 1.3, by hand, with so many identities of the cluster's form."""
    identities = b"".join(block(b"ckpt1 x b", 2) + bytes(4) for _ in range(count))
    binders = count * block(bytes(32), 1)
    extensions = (extension(43, block(b"\x03\x04", 1)) + extension(10, block(b"\x00\x1d", 2)) + extension(13, block(b"\x04\x03", 2)) +
                  extension(51, block(b"\x00\x1d" + block(os.urandom(32), 2), 2)) + extension(45, block(b"\x01", 1)) +
                  extension(41, block(identities, 2) + block(binders, 2)))
    hello = b"\x03\x03" + os.urandom(32) + block(b"", 1) + block(b"\x13\x02", 2) + block(b"\x00", 1) + block(extensions, 2)
    message = b"\x01" + block(hello, 3)
    return b"".join(b"\x16\x03\x01" + block(message[at:at + 16384], 2) for at in range(0, len(message), 16384))


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


cases = Cases(around=fresh_net)
cases.run("who claims to be many costs no more than who claims to be one", who_claims_to_be_many_costs_no_more_than_who_claims_to_be_one)
cases.run("keys are in memory that is not dumped", keys_are_in_memory_that_is_not_dumped)
sys.exit(cases.end())
