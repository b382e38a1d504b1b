"""Nodes of a job whose world may change: daemons of a cluster, each with the ckpt run that offers the node, for the tests of elastic jobs. A job
trains until it is halted, after what its test waits for; the end is compared with that of an undisturbed run of as many steps."""

import contextlib
import functools
import json
import re
import subprocess
import tempfile

from launcher import CKPT, PACED, SMALL, TRAIN, Run, final, top
from loopback_cluster import loopback_cluster
from tap import equal, expect, until

FOREVER, BATCH = 1000000, 6
WAIT = "10s"  # the nodes of a test are all there by then, however late one of them is started
MORE = 30  # steps that are trained after what a case waits for


def until_log(daemon, text):
    until(lambda: text in daemon.text(), text)


class Node:
    """A node of the cluster, and what was started there last."""

    def __init__(self, name, daemon):
        self.name, self.daemon, self.run = name, daemon, None

    def start(self, *args, n=3, ranks=1, steps=FOREVER, every=50, memory=10, **env):
        self.run = Run("--nodes", n, "-n", ranks, "--socket", self.daemon.socket, "--json", *args, "--", *PACED, "--batch", BATCH, "--steps",
                       steps, "--save-memory-every", memory, "--save-storage-every", every, **env)
        return self.run

    def lose(self):
        """With all that ran on it, and what it had in memory."""
        self.daemon.kill()
        self.run.child.kill()
        self.run.child.wait()

    def ends(self):
        if self.run and self.run.child.poll() is None:
            self.run.child.kill()
            self.run.child.wait()

    def step(self):
        job = self.daemon.job("default")
        return max((rank.get("step") or 0 for rank in job["ranks"]), default=0) if job else 0

    def reaches(self, step):
        self.run.until(f"step {step} on {self.name}", lambda: self.step() >= step)

    def halt(self):
        """The whole job, asked here."""
        code, _, err = self.daemon.ckpt("halt", "--now", "--job", "default", "--socket", self.daemon.socket)
        expect(code == 0, "halt:", code, err)

    def ended(self, code=0):
        return json.loads(self.run.wait(code).out())

    def said(self):
        return self.run.err()


@contextlib.contextmanager
def cluster(names, *options, store=True, variables=None):
    path = tempfile.mkdtemp(dir=top)
    common = ["--node-wait", WAIT, *(["--store", path] if store else []), *options]
    with loopback_cluster(names, variables, **{name: common for name in names}) as daemons:
        nodes = [Node(name, daemons[name]) for name in names]
        try:
            yield path, nodes
        finally:
            for node in nodes:
                node.ends()


def loss_of(text):
    return float(re.search(r"loss=(\S+)", final(text)).group(1))


def none_twice(nodes, ranks):
    """The epochs that `ranks` ranks began in a changed world began where all had been: no rank has finished a step that was finished again."""
    told = "".join(node.said() for node in nodes)
    begins = {int(e): (int(n), int(step)) for e, n, step in re.findall(r"epoch (\d+): (\d+) ranks go on from (?:a )?\w+ at step (\d+)", told)}
    ends = [(int(e), int(step)) for e, step in re.findall(r"leaves epoch (\d+) after step (\d+)", told)]
    expect(any(n == ranks for n, _ in begins.values()), "no epoch of", ranks, "ranks in", told)
    for epoch, last in ends:
        world, first = begins[min(e for e in begins if e > epoch)]
        if world == ranks:
            equal(last, first, f"a rank left epoch {epoch} after step {last}")
    expect(len(ends) >= 2, "who left which epoch is told by few:", ends)


def whole(store):
    """Every checkpoint in it, also those of which several nodes held the same."""
    done = subprocess.run([CKPT, "verify", "--repo", store, "--all", "--read-data"], capture_output=True, text=True)
    expect(done.returncode == 0, done.stdout, done.stderr)


def from_rank_0(nodes):
    """What the node said on which rank 0 has ended."""
    return next(node.said() + node.run.out() for node in nodes if "final step=" in node.said())


@functools.cache
def undisturbed(ranks, steps):
    """The last line of so many ranks whom nothing happens to."""
    run = Run("-n", ranks, "--", TRAIN, *SMALL, "--batch", BATCH, "--steps", steps).wait()
    return final(run.out() + run.err())


def halted(nodes, world):
    """The job trains on for some steps, is asked to end, and ends with so many ranks: the last line, and the step in it."""
    last = nodes[0].step() + MORE
    for node in nodes:
        node.reaches(last)  # not at once: a daemon may be on its way back to who coordinates
    until(lambda: not nodes[0].daemon.ckpt("halt", "--now", "--job", "default", "--socket", nodes[0].daemon.socket)[0], "the job is asked to end")
    equal([node.ended()["world"] for node in nodes], [world] * len(nodes))
    line = final(from_rank_0(nodes))
    return line, int(re.search(r"final step=(\d+)", line).group(1))


def halted_undisturbed(nodes, world):
    """And not a bit differs from an undisturbed run. The step."""
    line, step = halted(nodes, world)
    equal(line, undisturbed(world, step))
    return step


def halted_alike(nodes, world, ranks):
    """And the loss is that of `ranks` ranks: another number of them is another run in its last bits."""
    line, step = halted(nodes, world)
    expect(abs(loss_of(line) - loss_of(undisturbed(ranks, step))) < 1e-3, line, "undisturbed:", undisturbed(ranks, step))
