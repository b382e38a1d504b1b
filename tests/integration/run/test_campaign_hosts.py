"""ckpt campaign --nodes HOSTS: the nodes are reached by a remote shell, which here runs all on this machine. Faults hit them and all holds; what cannot
be caused or reached is said before the start; and whatever ends the campaign, nothing of it is left.
timeout: 900"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from launcher import CKPT, ENVIRONMENT, PACED, top
from remote_shell import RemoteShell
from tap import DEADLINE, Cases, equal, expect, has, until

OK, FAILED, USAGE, CANCELLED = 0, 1, 2, 130
cases = Cases()
case = cases.case

HEAD = "seed 3\nnodes 3\nranks 3\nsave-storage-every 4\nhang-timeout 6s\n"
# The last fault is far away: this one is interrupted.
LONG = HEAD + "at 500ms kill rank=1\nat 600s kill rank=2\n"


class Hosts(RemoteShell):
    """node-K is the K-th letter, at an address of its own on loopback."""

    def __init__(self, names):
        super().__init__({name: "" for name in names})
        self.names = names
        self.relays()  # as sshd does: what ends here does not end there

    def nodes(self):
        return ",".join(f"{name}=127.0.0.{k + 1}" for k, name in enumerate(self.names))

    def start(self, text, folder, *options, nodes=None):
        file = top / f"{folder}.campaign"
        file.write_text(text)
        return subprocess.Popen([CKPT, "campaign", "--json", "--dir", top / folder, "--nodes", nodes or self.nodes(), "--remote-shell", self.shell,
                                 *options, file, *PACED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True)

    def run(self, text, folder, *options, code=OK, nodes=None):
        return ended(self.start(text, folder, *options, nodes=nodes), code)


def ended(child, code=OK):
    try:
        out, err = child.communicate(timeout=3 * DEADLINE)
    finally:
        child.kill()
    equal(child.returncode, code, f"{out} {err}")
    return json.loads(out) if out else {}, err


def journal(folder, event):
    """What stands there: the last line may be under way."""
    file = top / folder / "journal"
    return [line for line in map(json.loads, file.read_text().split("\n")[:-1]) if line["event"] == event] if file.exists() else []


def tagged(folder):
    """Processes of the campaign, on any of the hosts."""
    tag = b"CAMPAIGN_ON_HOST=" + (top / folder / "hosts").read_bytes()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if tag in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def nothing_left(folder):
    until(lambda: not tagged(folder), "all that it made has ended")
    token = (top / folder / "hosts").read_text()
    equal(list(pathlib.Path("/tmp").glob(f"ckpt-{token}-*")), [], "sockets of the hosts")
    equal(journal(folder, "left"), [])


ALL = HEAD + """at 500ms kill rank=1
at 500ms kill-daemon node=0
with absent rank=2
at 1s link-down node=1
at 1s stop-daemon node=1 for=500ms
at 1s restart-daemon node=2
at 1s flip-file
at 2s kill-node node=1
at 2s disk-full node=2 for=1s
at 2s clock-jump node=0 for=500ms
at 2s flip-replica rank=0
"""


@case("faults of many kinds hit the hosts, what needs their network is left out by name, and all that was promised holds")
def _():
    hosts = Hosts("abc")
    document, said = hosts.run(ALL, "all")
    equal([document[name] for name in ("fired", "not_fired", "left_out", "exit")], [10, 0, 1, 0], said)
    expect(all(i["held"] and (i["looked_at"] or i["name"] == "losses") for i in document["invariants"]), document["invariants"])
    equal(document["params"], document["calm_params"])
    has(said, "left out, since this command does not break the network of hosts: link-down (1)", "node-1 is b, at 127.0.0.2:")
    equal([(line["node"], line["host"]) for line in journal("all", "host")], [(0, "a"), (1, "b"), (2, "c")])
    equal((top / "all" / "roster").read_text().split()[::2], ["node-0", "node-1", "node-2"])
    has((top / "all" / "node-2.log").read_text(), "ckpt run: rank 2 hangs")
    equal([line["text"] for line in journal("all", "fault") if line["kind"] == "kill-node"], ["all processes of node-1 have died"])
    nothing_left("all")


@case("the report has what the ranks of all hosts measured, in the order of time")
def _():
    lines = [json.loads(line) for line in (top / "all" / "train.jsonl").read_text().splitlines()]
    equal({line["rank"] for line in lines if line["event"] == "end"}, {0, 1, 2})
    equal(len(lines), sum(len((top / "all" / f"node-{k}.train.jsonl").read_text().splitlines()) for k in range(3)))
    times = [line["at_ns"] for line in lines if line["rank"] == 0]
    equal(times, sorted(times))
    report = json.loads((top / "all" / "report.json").read_text())
    equal([(f["kind"], f["node"], f["fired"]) for f in report["faults"] if f["kind"] in ("kill-node", "kill-daemon", "stop-daemon")],
          [("kill-daemon", 0, True), ("stop-daemon", 1, True), ("kill-node", 1, True)])


@case("ranks go from host to host")
def _():
    hosts = Hosts("abc")
    text = "nodes 3\nspares 1\nranks 2\nhang-timeout 6s\nat 500ms kill-node node=1\nat 1s drain node=0 for=500ms\nat 2s kill rank=1\n"
    document, said = hosts.run(text, "moved")
    equal([document["fired"], document["exit"]], [3, 0], said)
    has(said, "1 of 3: kill-node: all processes of node-1 have died; next: drain\n")
    equal(re.findall(r"(\d) of 3: .*; next: (\S+)\n", said), [("1", "drain"), ("2", "kill")])
    equal(document["params"], document["calm_params"])
    nothing_left("moved")


@case("a campaign of nothing but what cannot be caused is refused, by name")
def _():
    _, said = Hosts("abc").run(HEAD + "at 1s link-down\nat 2s partition\nat 3s reboot\n", "impossible", code=FAILED)
    has(said, "no fault is left", "reboot (1)", "link-down (1)", "partition (1)")
    expect(not (top / "impossible").exists(), "nothing was begun")


@case("a host that is not reached, or cannot be a node, is named before the start, with what to do")
def _():
    hosts = Hosts("abc")
    (hosts.folder / "b.socket").unlink()
    _, said = hosts.run(LONG, "unreached", code=FAILED)
    has(said, "host b cannot be reached: connect to host b: No route to host: see to it that", "true` works without a question")
    expect(not journal("unreached", "begin") and not hosts.pids("c"), "nothing was begun")
    _, said = hosts.run(LONG, "unreached", code=FAILED, nodes="a=127.0.0.1,nowhere.invalid,c=127.0.0.3")
    has(said, "nowhere.invalid has no address here", "nowhere.invalid=ADDRESS")
    _, said = hosts.run(LONG, "unreached", code=FAILED, nodes="a=127.0.0.1,c=192.0.2.1,b=127.0.0.2")
    has(said, "host c cannot be a node: no port at 192.0.2.1: it is no address of this host")
    _, said = hosts.run(LONG, "unreached", code=USAGE, nodes="a=127.0.0.1,c=127.0.0.3")
    has(said, "--nodes names 2 hosts, and the file is for 3 nodes")


@case("a host that has another folder at that path, or another program, is no node")
def _():
    hosts = Hosts("abc")
    script = hosts.shell.read_text()
    other = top / "other"
    other.mkdir()
    hosts.shell.write_text(script.replace("#!/bin/sh\n", f"#!/bin/sh\n[ $1 = b ] && exec sh -c \"$(echo \"$2\" | sed 's#{top}/apart#{other}#')\"\n"))
    _, said = hosts.run(LONG, "apart", code=FAILED)
    has(said, "host b cannot be a node: ", "give a --dir that all hosts share")
    hosts.shell.write_text(script.replace("#!/bin/sh\n", "#!/bin/sh\n[ $1 = c ] && exit 127\n"))
    _, said = hosts.run(LONG, "apart", code=FAILED)
    has(said, "host c has no ", "install the same version at the same place")
    hosts.shell.write_text(script.replace("#!/bin/sh\n", "#!/bin/sh\n[ $1 = c ] && { echo Welcome; echo 'ckpt 0.0.9, port 1, time 1'; exit 0; }\n"))
    _, said = hosts.run(LONG, "apart", code=FAILED)
    has(said, "host c has ckpt 0.0.9, and this is ")
    hosts.shell.write_text(script.replace("#!/bin/sh\n", "#!/bin/sh\n[ $1 = c ] && { sh -c \"$2\" | sed 's/time .*/time 1000000000/'; exit 0; }\n"))
    _, said = hosts.run(LONG, "apart", code=FAILED)
    has(said, "the clock of host c is ", " s behind")
    late = "[ $1 = a ] && { sh -c \"$2\"; code=$?; sleep 2.5; exit $code; }"
    hosts.shell.write_text(script.replace("#!/bin/sh\n", f"#!/bin/sh\n{late}\n[ $1 = b ] && {{ echo nobody is there >&2; exit 255; }}\n"))
    _, said = hosts.run(LONG, "apart", code=FAILED)
    has(said, "host b cannot be reached: nobody is there")  # an answer that comes late says nothing of the clock of a
    hosts.shell.write_text(script)
    expect(not journal("apart", "begin"), "nothing was begun")


def fired_once(child, folder):
    until(lambda: child.poll() is not None or journal(folder, "fault"), "a fault has fired")
    expect(child.poll() is None, "it goes on", child.returncode)


@case("one that is interrupted ends all that it made, on every host, and goes on from its journal")
def _():
    hosts = Hosts("abc")
    child = hosts.start(LONG, "cut")
    fired_once(child, "cut")
    until(lambda: len(tagged("cut")) >= 12, "of each host its bridge, ckptd, ckpt run and rank; one has just been killed")
    child.send_signal(signal.SIGINT)
    _, said = ended(child, CANCELLED)
    has(said, "stopped; --resume goes on from here")
    nothing_left("cut")
    document, said = hosts.run(LONG, "cut", "--resume")
    equal([document["fired"], document["exit"]], [2, 0], said)
    nothing_left("cut")


@case("one that is killed leaves nothing either, and goes on")
def _():
    hosts = Hosts("abc")
    child = hosts.start(LONG, "killed")
    fired_once(child, "killed")
    child.kill()
    child.communicate(timeout=DEADLINE)
    document, said = hosts.run(LONG, "killed", "--resume")  # waits for what is left
    equal([document["fired"], document["exit"]], [2, 0], said)
    nothing_left("killed")


@case("when the way to a host breaks the campaign says which, and ends all that it made, there, too")
def _():
    hosts = Hosts("abc")
    child = hosts.start(LONG, "broken")
    fired_once(child, "broken")
    for pid in hosts.pids("b"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, said = ended(child, FAILED)
    expect(re.search(r"the remote shell of b, which has (ckptd|ckpt run), was killed by signal 9 \(Killed\)", said), said)
    nothing_left("broken")


@case("something that is left on a host breaks the promise that nothing is")
def _():
    hosts = Hosts("abc")
    child = hosts.start(HEAD + "at 500ms kill rank=1\nat 9s kill rank=1\n", "leaves")
    fired_once(child, "leaves")
    token = (top / "leaves" / "hosts").read_text()
    stray = subprocess.Popen(["sleep", "1000"], env=dict(ENVIRONMENT, CAMPAIGN_ON_HOST=f"{token}-1"))
    try:
        document, said = ended(child, FAILED)
    finally:
        stray.kill()
        stray.wait()
    equal([i["text"] for i in document["invariants"] if not i["held"]], [f"host b: process {stray.pid} (sleep) is left behind"], said)


def arena_of(folder, node):
    """The memory that the daemon of the node shares with its rank, opened here."""
    for pid in tagged(folder):
        path = pathlib.Path("/proc") / str(pid)
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"ckptd") and f"node-{node}".encode() in words:
                return next(os.open(fd, os.O_RDONLY) for fd in (path / "fd").iterdir() if os.readlink(fd).startswith("/memfd:ckpt:campaign"))
    raise AssertionError(f"node-{node} has no daemon with an arena")


@case("memory of a rank that somebody has yet on a host is left behind there")
def _():
    child = Hosts("abc").start(HEAD + "at 500ms kill rank=0\nat 9s kill rank=0\n", "held")
    fired_once(child, "held")
    held = arena_of("held", 1)
    try:
        document, said = ended(child, FAILED)
    finally:
        os.close(held)
    equal([i["text"] for i in document["invariants"] if not i["held"]], [f"host b: process {os.getpid()} has the shared memory /memfd:ckpt:campaign still"], said)
    equal(sorted(path.name for path in (top / "held").glob("*.memory")), [f"node-{k}.memory" for k in range(3)])


sys.exit(cases.end())
