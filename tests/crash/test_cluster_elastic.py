"""A job whose ranks are planned over nodes, when nodes and the network between them fail: a spare takes the ranks of who is lost, or the world
shrinks, and whoever comes back finds another in his place. At the same world size not a bit is changed by it. Clusters side by side.
timeout: 1200"""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys

from cluster import cluster, why_not
from etcd import etcd
from etcd import why_not as why_no_etcd
from launcher import CKPT, PACE, SMALL, TRAIN as OWN, final
from registry_nodes import Gate
from tap import BIN, NIGHTLY, Cases, equal, expect, until

# The daemons are what is tried here. The release build's trainer, where there is one, computes in a fifth of the time.
RELEASE = BIN.parents[1] / "release" / "bin" / "ckpt-train"
TRAIN = RELEASE if RELEASE.exists() else OWN
SILENCE = "2s"
FOREVER, WORLD = 1000000, 3
MORE = 30  # steps that are trained after what a case waits for
SHORT = 200  # steps of a job that nothing happens to
TRAINER = [TRAIN, *SMALL, "--batch", 6, "--save-memory-every", 10, "--save-storage-every", 100]
RUN_S = 200
ETCD = 2379  # its port, as the nodes see it
COORDINATOR = "/ckpt/jobs/default/coordinator"


class ElasticJob:
    """ckpt run on every node; the last of them is a spare, unless none is wanted."""

    def __init__(self, net, spares="d", least=WORLD):
        self.net, self.spares, self.least, self.runs = net, spares, least, {}
        for node in net.nodes:
            self.start(node.name)

    def start(self, name, steps=FOREVER):
        node = self.net[name]
        spare = ["--spare"] if name in self.spares else []
        command = [CKPT, "run", "--nodes", WORLD, "-n", 1, "--min-ranks", self.least, *spare, "--json", "--", *TRAINER, *PACE, "--steps", steps]
        environment = node.environment()
        del environment["CKPT_JOB"], environment["CKPT_LOCAL_WORLD"]
        with open(node.top / "out", "wb") as out, open(node.top / "err", "ab") as err:
            self.runs[name] = node.spawn(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)

    def said(self, name):
        return (self.net[name].top / "err").read_text(errors="replace")

    def step(self, name):
        """The newest that a rank of the node has told of."""
        jobs = self.net[name].status()["jobs"]
        return max((rank.get("step") or 0 for job in jobs for rank in job["ranks"]), default=0)

    def newest(self, names):
        return max(map(self.step, names))

    def reaches(self, step, name="a"):
        until(lambda: self.step(name) >= step, f"step {step} on {name}", RUN_S)

    def waits(self, name):
        """It is back, and others have its ranks."""
        until(lambda: "none of them here: this node waits" in self.said(name), f"node {name} waits", RUN_S)

    def halted(self, names):
        """It trains on for some steps and is asked to end; all of the nodes end with success. The line that rank 0 ends with, and the step in it."""
        last = self.newest(names) + MORE
        until(lambda: self.newest(names) >= last, f"step {last}", RUN_S)
        until(lambda: not self.net[names[0]].ckpt("halt", "--now", "--job", "default")[0], "the job is asked to end", RUN_S)
        for name in names:
            code = self.runs[name].wait(RUN_S)
            expect(code == 0, f"ckpt run on {name}: exit {code}:", self.said(name)[-2000:])
            equal(json.loads((self.net[name].top / "out").read_text())["exit"], 0, name)
        line = next(final(said) for said in map(self.said, names) if "final step=" in said)
        return line, int(re.search(r"step=(\d+)", line).group(1))


@contextlib.contextmanager
def elastic_job(names="abcd", options=(), begins=lambda net: None, **how):
    """It begins with the nodes that are meant, however far apart a busy machine starts their launchers: within node-wait."""
    with cluster(names, options=["--peer-timeout", SILENCE, "--copies", "1", "--node-wait", "10s", *options]) as net:
        begins(net)
        net.start()
        made = ElasticJob(net, **how)
        made.reaches(100)
        # What two nodes take with them when they are lost at once is there. A start that a busy machine disturbs is of a later epoch.
        until(lambda: re.search(r"epoch [1-9]\d* durable", net["a"].said()), "a durable checkpoint", RUN_S)
        yield net, made


def whole(net):
    """Every checkpoint that is there."""
    code, out, err = net["a"].ckpt("verify", "--repo", net.store, "--job", "default", "--all", "--read-data")
    expect(code == 0, out, err)


@functools.cache
def undisturbed(steps):
    """What all ranks on one node end with, if nothing happens to them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
    command = [CKPT, "run", "-n", WORLD, "--", *TRAINER, "--steps", steps]
    return final(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, env=environment, timeout=RUN_S).stdout)


def ends_undisturbed(job, names):
    """Not a bit is changed."""
    line, step = job.halted(names)
    equal(line, undisturbed(step))


def loss_of(line):
    return float(re.search(r"loss=(\S+)", line).group(1))


def ends_shrunk(job, names):
    """Another number of ranks is another run in its last bits."""
    line, step = job.halted(names)
    expect(abs(loss_of(line) - loss_of(undisturbed(step))) < 1e-3, line, undisturbed(step))


def power_is_lost_and_a_spare_takes_over():
    with elastic_job() as (net, job):
        net["c"].lose_power()
        ends_undisturbed(job, "abd")
        expect("3 ranks go on from" in job.said("a"), job.said("a"))
        whole(net)


def a_node_behind_a_pulled_cable_comes_back_and_finds_another_in_its_place():
    with elastic_job() as (net, job):
        net["c"].unplug()
        net["a"].until_said("1 ranks on node d", seconds=RUN_S)
        job.reaches(200)
        net["c"].plug()
        job.waits("c")
        ends_undisturbed(job, "abcd")
        whole(net)


def a_node_that_comes_back_when_the_job_has_ended_is_told():
    with elastic_job() as (net, job):
        net["c"].unplug()
        ends_undisturbed(job, "abd")
        net["c"].plug()
        equal(job.runs["c"].wait(RUN_S), 0, job.said("c"))
        for name in "abcd":  # what was over is not taken for the next job of that name
            job.start(name, SHORT)
        equal([job.runs[name].wait(RUN_S) for name in "abcd"], [0, 0, 0, 0])
        whole(net)


def a_stopped_daemon_wakes_up_after_it_was_replaced():
    with elastic_job() as (net, job):
        net["c"].process.send_signal(signal.SIGSTOP)
        net["a"].until_said("1 ranks on node d", seconds=RUN_S)
        job.reaches(200)
        net["c"].process.send_signal(signal.SIGCONT)
        job.waits("c")
        ends_undisturbed(job, "abcd")
        whole(net)


def a_node_that_hears_nothing_is_replaced():
    with elastic_job() as (net, job):
        net["a"].mute(net["c"])
        net["a"].until_said("1 ranks on node d", seconds=RUN_S)
        job.reaches(200)
        net["a"].unmute(net["c"])
        job.waits("c")
        ends_undisturbed(job, "abcd")
        whole(net)


def the_coordinator_is_stopped_for_a_while():
    with elastic_job() as (net, job):
        net["a"].process.send_signal(signal.SIGSTOP)
        net["b"].until_said("node a is lost")
        net["a"].process.send_signal(signal.SIGCONT)
        ends_undisturbed(job, "abcd")
        whole(net)


def two_nodes_lose_power_at_once_and_the_world_shrinks():
    with elastic_job("abcd", spares="d", least=2) as (net, job):
        net["c"].lose_power()
        net["d"].lose_power()
        ends_shrunk(job, "ab")
        expect("the job goes on with 2 ranks, 1 of them here" in job.said("a"), job.said("a"))
        whole(net)


def the_spare_is_lost_while_it_takes_over():
    with elastic_job("abcd", spares="d", least=2) as (net, job):
        net["c"].lose_power()
        net["a"].until_said("1 ranks on node d", seconds=RUN_S, pause=0.002)
        net["d"].lose_power()
        ends_shrunk(job, "ab")
        whole(net)


def power_is_lost_while_the_world_shrinks():
    """Of another node, while what is newest in memory is brought to storage."""
    with elastic_job("abc", spares="", least=1) as (net, job):
        net["c"].lose_power()
        until(lambda: re.search("it is written as one of epoch|world size changes from 3 to 2", net["a"].said()), "the world changes", RUN_S, 0.002)
        net["b"].lose_power()
        ends_shrunk(job, "a")
        whole(net)


def links_are_slow():
    with elastic_job() as (net, job):
        for node in net.nodes:
            node.slow("300mbit")
        net["c"].lose_power()
        ends_undisturbed(job, "abd")
        whole(net)


@contextlib.contextmanager
def elected_job():
    """With its etcd, and a gate in each node that leads there, whatever becomes of the node's cable."""
    gates = []
    with etcd("x") as members, contextlib.ExitStack() as ends:
        ends.callback(lambda: [gate.close() for gate in gates])

        def lead_there(net):
            for node in net.nodes:
                node.boot()
                gates.append(Gate(next(iter(members)).place, node.net.listener(ETCD)))
        with elastic_job(options=["--registry", f"etcd://127.0.0.1:{ETCD}/ckpt", "--registry-lease", "2s"], begins=lead_there) as (net, job):
            yield net, job, members, gates


def a_coordinator_that_reaches_etcd_and_no_node_gives_way():
    """Its cable is pulled."""
    with elected_job() as (net, job, members, _):
        first = until(lambda: members.get(COORDINATOR), "a coordinator", RUN_S)  # on a busy machine there may be none just then
        net[first].unplug()
        until(lambda: members.get(COORDINATOR) not in (None, first), "another node coordinates", RUN_S)
        # A busy machine may keep it from its lease first. Else it would coordinate for ever, if it did not give way.
        until(lambda: re.search("gives way|lease of this node .* was not renewed", net[first].said()), f"{first} gives way", RUN_S)
        others = [name for name in "abcd" if name != first]
        until(lambda: job.newest(others) >= 200, "step 200", RUN_S)
        net[first].plug()
        ends_undisturbed(job, "abcd")
        whole(net)


def elections_of(node):
    return [line for line in node.said().splitlines() if re.search("ranks go on in epoch|: epoch [0-9]+: ", line)]


def elections(net):
    """What new coordinators have made of the epoch that they found."""
    return [line for node in net.nodes for line in elections_of(node)]


def halts(net):
    """What each node knows that the job is to do later."""
    return [(net[name].status()["jobs"][0]["halt"] or {}).get("when") for name in "abc"]


def asks(net, name, *what):
    """Again where nobody answers: a busy machine may keep the coordinator from its lease, and the next one has yet to be elected."""
    until(lambda: not net[name].ckpt("halt", *what, "--job", "default")[0], f"the job is asked {what}", RUN_S)


def coordinates_nobody(members):
    done = members.ctl("get", "--print-value-only", COORDINATOR)
    return done.returncode == 0 and not done.stdout.strip()


def nobody_repeats_a_step_because_etcd_was_away():
    """Until all leases have lapsed. A node that a busy machine keeps from answering begins an epoch, too: then it is away once more. What was asked
    of the job is not forgotten."""
    def goes_on(net, members, gates):
        before = len(elections(net))
        until(lambda: members.get(COORDINATOR), "a coordinator", RUN_S)
        for gate in gates:
            gate.close_door()
        until(lambda: coordinates_nobody(members), "its lease lapses", RUN_S)  # on a busy machine it may have done so just before
        for gate in gates:
            gate.open_door()
        until(lambda: len(elections(net)) > before, "another coordinator", RUN_S)
        return "ranks go on in epoch" in "".join(elections(net)[before:])
    with elected_job() as (net, job, members, gates):
        asks(net, "b", "--before", "2099-01-01T00:00Z")
        until(lambda: halts(net) == ["before"] * WORLD, "each node knows when the job is to end", RUN_S)
        expect(any(goes_on(net, members, gates) for _ in range(3)), elections(net))
        until(lambda: halts(net) == ["before"] * WORLD, "each node knows it still", RUN_S)
        asks(net, "c", "--cancel")
        until(lambda: halts(net) == [None] * WORLD, "it is taken back", RUN_S)
        ends_undisturbed(job, "abcd")
        whole(net)


def coordinates(net, members, gates, name):
    """Only this node is led to etcd until it has been elected. On a busy machine it may have been so since the job began, and found no epoch."""
    if members.get(COORDINATOR) == name:
        return
    before, others = len(elections_of(net[name])), [gate for node, gate in zip(net.nodes, gates) if node.name != name]
    for gate in others:
        gate.close_door()
    until(lambda: members.get(COORDINATOR) == name, f"node {name} coordinates", RUN_S)
    for gate in others:
        gate.open_door()
    until(lambda: len(elections_of(net[name])) > before, f"node {name} has made something of the epoch", RUN_S)


def nobody_repeats_a_step_because_a_coordinator_without_ranks_was_lost():
    """It costs no epoch, and nobody waits for it: steps are made before another node coordinates."""
    def goes_on(net, job, members, gates):
        coordinates(net, members, gates, "d")
        before, epoch, at = len(elections(net)), net["a"].status()["jobs"][0]["epoch"], job.newest("abc")
        net["d"].kill()
        until(lambda: job.newest("abc") > at + 3, "training does not wait", RUN_S)
        unheard = members.get(COORDINATOR) == "d"
        until(lambda: members.get(COORDINATOR) not in (None, "d") and len(elections(net)) > before, "another coordinator", RUN_S)
        same = net["a"].status()["jobs"][0]["epoch"] == epoch and "ranks go on in epoch" in "".join(elections(net)[before:])
        net["d"].start()
        net.meet()
        return unheard and same
    with elected_job() as (net, job, members, gates):
        expect(any(goes_on(net, job, members, gates) for _ in range(3)), elections(net))  # on a busy machine a node may be lost beside it
        ends_undisturbed(job, "abcd")
        whole(net)


CASES = [a_coordinator_that_reaches_etcd_and_no_node_gives_way, nobody_repeats_a_step_because_etcd_was_away,
         nobody_repeats_a_step_because_a_coordinator_without_ranks_was_lost] if not why_no_etcd() else []
CASES += [a_node_behind_a_pulled_cable_comes_back_and_finds_another_in_its_place, a_stopped_daemon_wakes_up_after_it_was_replaced,
         a_node_that_comes_back_when_the_job_has_ended_is_told, the_spare_is_lost_while_it_takes_over, power_is_lost_while_the_world_shrinks]
if NIGHTLY:  # integration/test_elastic_run has some of it, with less of a network
    CASES += [power_is_lost_and_a_spare_takes_over, a_node_that_hears_nothing_is_replaced, the_coordinator_is_stopped_for_a_while,
              two_nodes_lose_power_at_once_and_the_world_shrinks, links_are_slow]

reason = why_not()
if reason:
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)
sys.exit(Cases().run_chosen([(case.__name__.replace("_", " "), case) for case in CASES]))
