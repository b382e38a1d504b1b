"""What happens to etcd, and to a coordinator's way to it, beside a job that trains: the run ends with the bits of one that nothing happened to, and what it
has saved last is on storage. It trains slowly until all has happened, and is halted some saves later: most of the time is waiting.
timeout: 1200"""

import contextlib
import errno
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from elastic import cluster, halted_undisturbed
from etcd import etcd, why_not
from launcher import listed, tidy
from registry_nodes import Gate
from tap import BIN, DEADLINE, NIGHTLY, Cases, equal, expect, has, until

NAMES = "abc"
AT, MORE = 60, 20  # the step at which it happens; steps that are made meanwhile
SLOW, LASTS = "slow:rank=0:for=100ms@step=", 30  # steps that one such fault slows
SLOWLY = ",".join(f"{SLOW}{AT + LASTS * n}" for n in range(200))
AWAY_S = 30 if NIGHTLY else 8  # longer than all leases, and than any call
FULL_MIB = 192  # of which a member takes 128 for its log at once
COORDINATOR = "/ckpt/jobs/default/coordinator"


def train(nodes):
    for rank, node in enumerate(nodes):
        node.start("--node-rank", rank, *(["--inject", SLOWLY] if not rank else []))


def elected(members, nodes, *no):
    """The node that coordinates, and knows it."""
    def found():
        name = members.get(COORDINATOR)
        node = next((node for node in nodes if node.name == name), None)
        return node if node and name not in no and "this node coordinates it, term" in node.daemon.text() else None
    return until(found, f"a coordinator that is none of {no}")


def while_it_trains(happens, url=None, members="xyz", options=()):
    """happens(members, nodes) in mid-run; url: of a node, where it is not that of the members."""
    with etcd(members) as n:
        with cluster(NAMES, "--registry", n.url("ckpt"), "--registry-lease", "2s", *options) as (store, nodes):
            if url:
                url(n, nodes)
            until(lambda: all(node.daemon.status()["cluster"]["registry"]["synced"] for node in nodes), "the registry is followed")
            train(nodes)
            for node in nodes:
                node.reaches(AT)
            happens(n, nodes)
            expect(all(node.run.child.poll() is None for node in nodes), "the job is at work when it has happened")
            last = halted_undisturbed(nodes, len(nodes))
            expect(last in listed(store), listed(store))
            return [node.daemon.text() for node in nodes]


def etcds_leader_is_killed():
    def happens(members, nodes):
        elected(members, nodes)
        until(members.leader, "a leader").kill()
        until(members.leader, "another leader")
    while_it_trains(happens)


def a_member_that_does_not_lead_is_killed():
    def happens(members, nodes):
        elected(members, nodes)
        next(member for member in members if member is not until(members.leader, "a leader")).kill()
        for node in nodes:
            node.reaches(nodes[0].step() + MORE)
    while_it_trains(happens)


def the_clock_of_the_coordinators_node_is_set():
    """A day ahead, and a day back: leases are counted by time that is never set."""
    def happens(members, nodes):
        first = elected(members, nodes)
        epoch, records = first.daemon.job("default")["epoch"], members.record(COORDINATOR)["create_revision"]
        for by in ("24h", "-24h"):
            fault = ["fault", "clock-jump", "--for", "3s", "--by", by, "--job", "default", "--socket", first.daemon.socket]
            done = subprocess.run([BIN / "ckpt", *fault], capture_output=True, text=True, timeout=DEADLINE)
            equal(done.returncode, 0, done.stderr)
            has(done.stdout + done.stderr, f"the time of day was 24.0 h {'behind' if by[0] == '-' else 'ahead'}")
        for node in nodes:
            node.reaches(first.step() + MORE)
        seen = first.daemon.job("default")["epoch"], members.record(COORDINATOR)["create_revision"]
        equal(seen, (epoch, records), "epoch and term")
    while_it_trains(happens, options=["--faults", "--registry-lease", "20s"])  # which no busy machine lets lapse


def etcd_stops_for_a_while():
    def happens(members, nodes):
        elected(members, nodes)
        for member in members:
            member.stop()
        time.sleep(AWAY_S)  # that is what happens
        for node in nodes:
            until(lambda d=node.daemon: {"REGISTRY_AWAY", "COORDINATOR_AWAY"} <= {found["code"] for found in d.status()["health"]["findings"]}, "it is away")
            code, _, err = node.daemon.ckpt("halt", "--now", "--job", "default", "--socket", node.daemon.socket)
            expect(code == 1, "halt is refused while nobody can be told", code, err)
            has(err, "the other nodes cannot be told", "send SIGTERM to each ckpt run of the job")
            said = {found["code"]: found["remedy"] for found in node.daemon.status()["health"]["findings"]}
            has(said["REGISTRY_AWAY"], "nothing is written", "SIGTERM to each ckpt run")
            has(said["COORDINATOR_AWAY"], "ranks save to memory")
        for member in members:
            member.go_on()
    logs = while_it_trains(happens)
    expect(all("the registry is away" in log for log in logs), "each daemon says that it is away")


def etcd_is_compacted():
    """Behind the back of a node that has lost its way to it: what it asks for next is gone."""
    def happens(members, nodes):
        for member in members:
            member.stop()
        until(lambda: all("the registry is away" in node.daemon.text() for node in nodes), "the registry is away")
        for member in members:
            member.go_on()
        until(members.healthy, "etcd is healthy")
        for n in range(20):
            members.must("put", "/ckpt/passing", str(n))
        members.must("del", "/ckpt/passing")
        members.must("compaction", members.revision())
    while_it_trains(happens)


def the_coordinators_daemon_is_stopped_beyond_its_lease():
    def happens(members, nodes):
        first = elected(members, nodes)
        first.daemon.process.send_signal(signal.SIGSTOP)
        try:
            elected(members, nodes, first.name)
        finally:
            first.daemon.process.send_signal(signal.SIGCONT)
        until(lambda: "it coordinates nothing any more" in first.daemon.text() or "coordinates it, term" in first.daemon.text(), "it has seen it")
    while_it_trains(happens)


def the_coordinator_is_cut_from_etcd_alone():
    gates = {}

    def through_gates(members, nodes):
        """Each node has a gate of its own to each member."""
        for node in nodes:
            gates[node.name] = [Gate(member.place) for member in members]
            node.daemon.stop()
            at = node.daemon.options.index("--registry") + 1
            node.daemon.options[at] = members.url("ckpt", [gate.place for gate in gates[node.name]])
            node.daemon.start()
        for node in nodes:
            until(lambda d=node.daemon: all(n["up"] for n in d.status()["cluster"]["nodes"]), "the nodes find each other again")

    def happens(members, nodes):
        first = elected(members, nodes)
        epoch = first.daemon.job("default")["epoch"]
        for gate in gates[first.name]:
            gate.close_door()
        other = elected(members, nodes, first.name)
        until(lambda: f"node {other.name} coordinates it, term" in first.daemon.text(), "it believes who announces itself")
        for node in nodes:
            node.reaches(first.step() + MORE)
        equal([node.daemon.job("default")["epoch"] for node in nodes], [epoch] * len(nodes), "the epoch goes on")
        expect(not first.daemon.status()["cluster"]["registry"]["synced"], "it is still cut off")
        for gate in gates[first.name]:
            gate.open_door()
    try:
        while_it_trains(happens, through_gates)
    finally:
        for gate in (gate for some in gates.values() for gate in some):
            gate.close()


@contextlib.contextmanager
def small_disk():
    """A file system of its own, so that it can be full. None: it may not be mounted here."""
    folder = pathlib.Path(tempfile.mkdtemp())
    mounted = not subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_MIB}m", "tmpfs", folder], capture_output=True).returncode
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


def fill_up(path):
    fill = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fill, bytes(1 << 16))
    except OSError as error:
        equal(error.errno, errno.ENOSPC)
    finally:
        os.close(fill)


def the_disk_of_one_member_is_full():
    with small_disk() as disk:
        if not disk:
            return "a file system cannot be mounted here: it needs root"

        def happens(members, nodes):
            elected(members, nodes)
            member = next(iter(members))
            member.kill()
            shutil.copytree(members.top / member.name, disk / "data")
            shutil.rmtree(members.top / member.name)
            (members.top / member.name).symlink_to(disk / "data")
            member.start()
            fill_up(disk / "fill")
            expect(shutil.disk_usage(disk).free < 1 << 16, "it is full")
            for n in range(60):  # its data do not fit any more, and it ends; the others go on
                members.ctl("put", f"/others/{n}", "x" * 100_000, member=members.leaves(member)[0])
            until(lambda: member.process.poll() is not None, "the member ends")
        while_it_trains(happens)
    return None


def main():
    why = why_not()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    cases = Cases(tidy)
    for test in (etcds_leader_is_killed, a_member_that_does_not_lead_is_killed, the_clock_of_the_coordinators_node_is_set, etcd_stops_for_a_while,
                 etcd_is_compacted, the_coordinators_daemon_is_stopped_beyond_its_lease, the_coordinator_is_cut_from_etcd_alone,
                 the_disk_of_one_member_is_full):
        if len(sys.argv) < 2 or sys.argv[1] in test.__name__:
            cases.run(test.__name__.replace("_", " ").replace("etcds ", "etcd's ").replace("coordinators ", "coordinator's "), test)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
