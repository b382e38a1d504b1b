"""What strangers cost: a node of a net whose processor time is looked at."""

import os
import pathlib
import socket
import struct
import sys

from net_nodes import fresh_net
from tap import DEADLINE, Cases, expect

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


cases = Cases(around=fresh_net)
cases.run("who claims to be many costs no more than who claims to be one", who_claims_to_be_many_costs_no_more_than_who_claims_to_be_one)
sys.exit(cases.end())
