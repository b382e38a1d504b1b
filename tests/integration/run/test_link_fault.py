"""ckpt fault link-down, one-way and link-loss at the interface of a node of a running job: packets are dropped for as long as was said, and no longer
than the command lives; and the job goes on."""

import contextlib
import json
import re
import signal
import subprocess
import sys

from cluster import cluster, why_not
from launcher import CKPT, ENVIRONMENT, PACED
from tap import DEADLINE, Cases, equal, expect, has, until

PARTIAL, FAILED, USAGE = 3, 1, 2
PEER_S = 2
OPTIONS = ("--faults", "--peer-timeout", f"{PEER_S}s", "--span-log", "spans")
NO_BPF = "it needs Linux 6.6"
cases = Cases()
case = cases.case


def command(node, *args):
    """As of an operator on the host: in no namespace of the node."""
    return [CKPT, "fault", *map(str, args), "--job", "gpt", "--socket", node.socket]


def fault(node, *args, code=0):
    done = subprocess.run(command(node, *args), capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, code, f"{args}: {done.stdout} {done.stderr}")
    return done.stdout if code == 0 else done.stderr


def job(node):
    return node.job("gpt") or {}


def saved(nodes):
    """(epoch, step) of the newest checkpoint that all nodes know on storage."""
    ids = [job(node).get("saves", {}).get("durable") or {} for node in nodes]
    return min((d.get("epoch") or 0, d.get("step") or 0) for d in ids)


def goes_on(nodes):
    before = saved(nodes)
    until(lambda: saved(nodes) > before, "a later save")


@contextlib.contextmanager
def at_work():
    with cluster("ab", options=OPTIONS) as nodes:
        a, b = nodes.nodes
        nodes.start()
        for k, node in enumerate((a, b)):
            node.spawn([CKPT, "run", "--nodes", 2, "--node-rank", k, "-n", 1, "--job", "gpt", "--socket", node.socket, "--max-restarts", 100, "--", *PACED,
                        "--address", node.address, "--batch", 2, "--steps", 10 ** 6, "--save-memory-every", 2, "--save-storage-every", 10],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(node.top / "run.log").open("w"), env=node.environment())
        until(lambda: saved((a, b)) > (0, 0), "a save on storage")
        yield a, b


def why_no_bpf(node):
    done = subprocess.run(command(node, "link-down", "--interface", "eth0", "--for", "100ms"), capture_output=True, text=True, env=ENVIRONMENT,
                          timeout=DEADLINE)
    return done.stderr.strip() if NO_BPF in done.stderr else None


def with_job(test):
    """A skip says why."""
    if why_not():
        return why_not()
    with at_work() as (a, b):
        return why_no_bpf(a) or test(a, b)


@case("a cable that is pulled: the nodes lose each other, and meet again when the time is over")
def _():
    def test(a, b):
        lost = a.losses(b), b.losses(a)
        said = fault(a, "link-down", "--interface", "eth0", "--for", f"{3 * PEER_S}s")
        found = re.search(rf"gpt: link-down has fired after (\d+) ms: (\d+) packets were dropped at eth0 in {3000 * PEER_S} ms", said)
        expect(found and int(found[1]) >= 3000 * PEER_S and int(found[2]), said)
        until(lambda: (a.losses(b), b.losses(a)) > lost and a.sees(b) and b.sees(a), "they have lost each other, and meet again")
        goes_on((a, b))
        told = [(f["kind"], f["outcome"]) for f in job(a)["faults"]]
        equal(told[-1], ("link-down", "fired"))
        spans = [json.loads(line) for line in (a.top / "spans").read_text().splitlines() if '"link-down"' in line]
        equal([s["outcome"] for s in spans][-2:], ["caused", "fired"])
    return with_job(test)


@case("a command that is killed takes its fault with it, and nothing of the interface has changed")
def _():
    def test(a, b):
        ways = [a.net.run("ip", "-4", *what) for what in (("route",), ("addr",), ("link",))]
        lost = a.losses(b)
        child = subprocess.Popen(command(a, "link-down", "--interface", "eth0", "--for", "10m"), env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            until(lambda: a.losses(b) > lost, "the nodes have lost each other")
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        until(lambda: a.sees(b) and b.sees(a), "they meet again")
        goes_on((a, b))
        equal([a.net.run("ip", "-4", *what) for what in (("route",), ("addr",), ("link",))], ways)
    return with_job(test)


@case("one way, and some packets of a hundred: both fire, and the job goes on")
def _():
    def test(a, b):
        has(fault(b, "one-way", "--interface", "eth0", "--for", "1s"), "gpt: one-way has fired after ", " packets were dropped at eth0 in 1000 ms")
        goes_on((a, b))
        has(fault(a, "link-loss", "--interface", "eth0", "--percent", 20, "--for", "2s"), "gpt: link-loss has fired after ", " packets were dropped")
        goes_on((a, b))
        has(fault(a, "link-down", "--interface", "lo", "--for", "100ms", code=PARTIAL), "link-down has not fired", "no packet came to lo in 100 ms")
        has(fault(a, "link-down", "--interface", "no0", "--for", "1s", code=FAILED), "there is no interface no0")
    return with_job(test)


@case("what is wrong is named before anything is asked")
def _():
    def refused(*args):
        done = subprocess.run([CKPT, "fault", *args], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
        equal(done.returncode, USAGE, done.stderr)
        return done.stderr
    has(refused("link-down", "--for", "1s"), "of which interface? link-down needs --interface NAME")
    has(refused("link-down", "--interface", "eth0"), "for how long? link-down needs --for TIME")
    has(refused("link-down", "--interface", "eth0", "--for", "11m"), "link-down lasts 10 minutes at most")
    has(refused("link-down", "--interface", "eth0", "--for", "1s", "--percent", "5"), "link-down takes no --percent")
    has(refused("link-loss", "--interface", "eth0", "--for", "1s", "--percent", "91"), "a number from 1 to 90 is wanted")
    has(refused("kill", "1", "--interface", "eth0"), "kill takes no --interface")
    for kind in ("link-slow", "link-delay", "partition", "reboot"):
        has(refused(kind, "--for", "1s", "--interface", "eth0"), f"{kind}: it needs CAP_NET_ADMIN, and a network that may be broken: ckpt campaign")


sys.exit(cases.end())
