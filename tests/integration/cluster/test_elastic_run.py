"""A job on several nodes whose world may change: nodes that are lost, wait as spares, grow it again, or are let go.
timeout: 1200"""

import json
import pathlib
import re
import signal
import sys

from elastic import cluster, from_rank_0, halted, halted_alike, halted_undisturbed, none_twice, until_log, whole
from launcher import final, listed, tidy
from tap import DEADLINE, Cases, equal, expect, has, until

STEPS = 200
PARTS = ("detect_ms", "decide_ms", "gather_ms", "choose_ms", "fetch_ms", "load_ms", "first_step_ms")

cases = Cases(tidy)
case = cases.case


def replicated(node):
    """The newest step of which its log says that every rank has its copies."""
    steps = re.findall(r"step (\d+) epoch \d+ replicated", node.daemon.text())
    return int(steps[-1]) if steps else 0


@case("ranks are planned, with the bits of a run whose ranks were told by hand")
def _():
    with cluster("abc") as (_, nodes):
        for node in nodes:
            node.start("--min-ranks", 2, "--nodes", 3, steps=STEPS, CKPT_JOB="planned")
        equal([node.ended()["world"] for node in nodes], [3, 3, 3])
        planned = final(from_rank_0(nodes))
        for k, node in enumerate(nodes):
            node.start("--node-rank", k, steps=STEPS, CKPT_JOB="told")
        equal([node.ended()["world"] for node in nodes], [3, 3, 3])
        equal(final(from_rank_0(nodes)), planned)


@case("a spare takes the ranks of a lost node, out of the memory of another: not a bit is changed")
def _():
    with cluster("abcd", "--copies", 1, store=False) as (_, nodes):
        a, b, c, d = nodes
        for node in (a, b, c):
            node.start("--min-ranks", 3)
        d.start("--min-ranks", 3, "--spare")
        a.run.until("copies of a step", lambda: replicated(a) >= 100)
        c.lose()
        a.run.until_err("3 ranks go on from memory")
        halted_undisturbed([a, b, d], 3)
        has(d.daemon.text(), "epoch 1 from peer, ready")


def recovered(node, epoch):
    """Once all of its ranks have done a step."""
    def look():
        told = json.loads(node.daemon.ckpt("recoveries", "--job", "default", "--json", "--socket", node.daemon.socket)[1])["recoveries"]
        return [r for r in told if r["epoch"] == epoch and r["state"] == "done"]
    return until(look, f"the recovery of epoch {epoch}", pause=0.1)[0]


@case("a spare that holds the copies has them still when it takes the ranks; the coordinator tells how long each part took")
def _():
    wait = DEADLINE  # seconds that are for jobs without a spare, not for this one
    with cluster("abc", "--copies", 1, "--node-wait", f"{wait}s", store=False) as (_, nodes):
        a, b, c = nodes
        a.start("--min-ranks", 2, n=2)
        b.start("--min-ranks", 2, n=2)
        c.start("--min-ranks", 2, "--spare", n=2)
        a.run.until("copies of a step", lambda: replicated(a) >= 100)
        equal(a.daemon.held(), 0)  # so that c has those of b
        b.lose()
        lost = recovered(a, 2)
        expect(lost["detect_ms"] > 0 and lost["decide_ms"] > 0 and lost["total_ms"] < 1000 * wait / 2, lost)
        expect(abs(sum(lost[part] for part in PARTS) - lost["total_ms"]) < 1e-3, lost)
        for node in (a, c):
            node.run.child.send_signal(signal.SIGTERM)
        equal([node.ended()["world"] for node in (a, c)], [2, 2])
        has(a.said(), "2 ranks go on from memory")
        has(c.daemon.text(), "epoch 1 from peer, ready")


@case("without a spare the world shrinks; a node that comes back makes it grow")
def _():
    with cluster("abc", "--copies", 1) as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2)
        a.reaches(120)
        c.lose()
        a.run.until_err("the job goes on with 2 ranks, 1 of them here")
        a.reaches(200)
        c.daemon.start()
        c.start("--min-ranks", 2)
        c.run.until_err("job default: 3 ranks, 1 of them here")
        a.run.until_err("3 ranks go on from storage")
        a.halt()
        equal([node.ended()["world"] for node in nodes], [3, 3, 3])
        has(a.said(), "2 ranks go on from storage", "3 ranks go on from storage")
        none_twice(nodes, 3)
        whole(store)


def holder_of(node, nodes):
    """Who holds the copies of what the node's ranks have saved."""
    name, = until(lambda: node.daemon.job("default")["copies"]["holders"], f"copies of what node {node.name} has")
    return next(other for other in nodes if other.name == name)


def durable(node):
    """The newest step of the first epoch that its log calls durable."""
    return max(map(int, re.findall(r"step (\d+) epoch 1 durable", node.daemon.text())), default=0)


@case("what of a lost node is in memory elsewhere is written before the world shrinks")
def _():
    with cluster("abc", "--copies", 1) as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2, every=0)
        a.run.until("copies of a step that is not on storage", lambda: replicated(a) >= 200)
        c.lose()
        least = replicated(a)
        a.run.until_err("2 ranks go on from storage")
        halted_alike([a, b], 2, 3)
        back = int(re.search(r"2 ranks go on from storage at step (\d+)", a.said()).group(1))
        expect(least <= back, "replicated", least, "goes on from", back)
        has(a.daemon.text(), f"step {back} is on storage, as one of epoch")
        whole(store)


def half_written(node, store):
    """The step of a checkpoint of epoch 1 that is being written, and of which every rank has its copies; None: there is none."""
    for path in pathlib.Path(store, "default").glob(".writing-step-*.e0001-*"):
        step = int(re.match(r"\.writing-step-(\d+)", path.name).group(1))
        if not (path / "MANIFEST.json").exists() and list(path.glob("rank-*")) and replicated(node) >= step:
            return step
    return None


def caught(node, victim, store):
    """half_written, and the victim's daemon is stopped, and has not written its part: it stays half written."""
    step = half_written(node, store)
    if not step:
        return None
    victim.daemon.process.send_signal(signal.SIGSTOP)
    if half_written(node, store) == step and not list(pathlib.Path(store, "default").glob(f"*step-{step:012}.e0001*/node-{victim.name}.json")):
        return step
    victim.daemon.process.send_signal(signal.SIGCONT)
    return None


@case("what was being written when a node was lost is written again, under another name")
def _():
    with cluster("abc", "--copies", 1, "--write-bandwidth", "256K") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2, every=150, memory=150)
        step = until(lambda: caught(a, c, store), "a checkpoint is being written, and all have copies of it", pause=0.005)
        c.lose()
        a.run.until_err(f"2 ranks go on from storage at step {step}")
        halted_alike([a, b], 2, 3)
        has(a.daemon.text(), f"step {step} is on storage, as one of epoch 2")
        expect(not list(pathlib.Path(store, "default").glob(f"step-{step:012}.e0001")), "what was half written became a checkpoint")
        whole(store)


@case("a coordinator that is restarted while a node is lost has what that had in memory written, too")
def _():
    with cluster("abcd", "--copies", 1, "--node-wait", "15s") as (store, nodes):
        for node in nodes:
            node.start("--min-ranks", 2, n=4, every=0)
        a = nodes[0]
        a.run.until("copies of a step that is not on storage", lambda: replicated(a) >= 200)
        victim = next(node for node in nodes[1:] if holder_of(node, nodes) is not a)
        a.daemon.kill()
        victim.lose()
        least = replicated(a)
        a.daemon.start()
        a.run.until_err("3 ranks go on from storage")
        halted([node for node in nodes if node is not victim], 3)
        back = int(re.search(r"3 ranks go on from storage at step (\d+)", a.said()).group(1))
        expect(least <= back, "replicated", least, "goes on from", back)
        whole(store)


@case("when who holds the copies is lost, too, the world goes on from storage")
def _():
    with cluster("abcd", "--copies", 1, "--peer-timeout", "60s") as (store, nodes):  # who is stopped is not lost before it is to be
        for node in nodes:
            node.start("--min-ranks", 2, n=4, every=150)
        a = nodes[0]
        a.run.until("copies of a step that is not on storage, and one that is", lambda: replicated(a) > durable(a) > 0)
        victim = next(node for node in nodes[1:] if holder_of(node, nodes) is not a)
        holder = holder_of(victim, nodes)
        left = [node for node in nodes if node not in (victim, holder)]
        holder.daemon.process.send_signal(signal.SIGSTOP)  # it does not answer what it has
        victim.lose()
        until_log(a.daemon, "its 4 ranks are about to become 3")
        holder.lose()
        a.run.until_err("2 ranks go on from storage")
        a.halt()
        equal([node.ended()["world"] for node in left], [2, 2])
        has(a.said(), f"2 ranks go on from storage at step {durable(a)}", "passed over:", "nobody has the part of rank")
        has(a.daemon.ckpt("recoveries", "--job", "default", "--socket", a.daemon.socket)[1], "nobody has the part of rank")
        whole(store)


@case("SIGTERM lets a node go, and the others go on from the next save")
def _():
    with cluster("abc") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 2, memory=10)
        a.reaches(100)
        c.run.child.send_signal(signal.SIGTERM)
        c.ended()
        has(c.said(), "the ranks go to other nodes", "the job goes on with 2 ranks on other nodes")
        a.run.until_err("2 ranks go on from")
        halted_alike([a, b], 2, 3)
        none_twice(nodes, 2)


@case("SIGTERM to a node lets a spare take its ranks: no finished step is computed again, not a bit is changed")
def _():
    with cluster("abcd", "--copies", 1) as (store, nodes):
        a, b, c, d = nodes
        for node in (a, b, c):
            node.start("--min-ranks", 3)
        d.start("--min-ranks", 3, "--spare")
        a.reaches(100)
        c.run.child.send_signal(signal.SIGTERM)
        c.ended()
        a.run.until_err("3 ranks go on from")
        halted_undisturbed([a, b, d], 3)
        none_twice([a, b, c, d], 3)
        whole(store)


@case("a drained node has no ranks until that is undone; any daemon of the cluster can be asked")
def _():
    with cluster("abcd") as (store, nodes):
        a, b, c, d = nodes
        nodes = [a, b, c]
        for node in nodes:
            node.start("--min-ranks", 2)
        a.reaches(60)
        code, out, err = d.daemon.ckpt("drain", "c", "--job", "default", "--socket", d.daemon.socket)
        expect(code == 0, code, out, err)
        equal(out, "default: node c has no ranks any more\n")
        c.run.until_err("none of them here: this node waits")
        for node in (a, b):
            code, out, err = node.daemon.ckpt("drain", "b", "--job", "default", "--socket", node.daemon.socket)
            has(err, "without node b job 'default' would have 1 ranks, and it needs 2")
            equal(code, 1)
        code, out, err = b.daemon.ckpt("drain", "c", "--job", "other", "--socket", b.daemon.socket)
        has(err, "no job 'other' is planned by this cluster")
        equal(code, 1)
        world, = a.daemon.status()["worlds"]
        equal([(node["node"], node["ranks"], node["leaving"]) for node in world["nodes"]], [("a", 1, False), ("b", 1, False), ("c", 0, True)])
        equal(c.daemon.ckpt("drain", "c", "--undo", "--job", "default", "--socket", c.daemon.socket)[0], 0)
        c.run.until_err("the job goes on with 3 ranks, 1 of them here", "none of them here")
        a.run.until_err("3 ranks go on from")
        b.halt()
        equal([node.ended()["world"] for node in nodes], [3, 3, 3])
        none_twice(nodes, 2)
        none_twice(nodes, 3)
        whole(store)


@case("where nobody holds what a node has, no save waits for the node to be let go, and why is said")
def _():
    with cluster("abc", "--copies", 0, store=False) as (_, nodes):
        a, b, c = nodes
        for node in (a, b):
            node.start("--min-ranks", 2, n=2)
        c.start("--min-ranks", 2, "--spare", n=2)
        a.reaches(60)
        code, out, err = a.daemon.ckpt("drain", "b", "--job", "default", "--socket", a.daemon.socket)
        has(err, "job 'default' has no store and makes no copies (copies = 0): what the ranks of node b have would be lost")
        equal((code, out), (1, ""))
        b.run.child.send_signal(signal.SIGTERM)
        why = "has not all its copies: none are wanted (copies = 0)"
        until_log(a.daemon, why)
        before = a.daemon.job("default")["saves"]["captured"]["step"]
        a.reaches(before + 100)  # ten saves; each of their fences would have waited for half a minute
        has(a.daemon.status()["worlds"][0]["stuck"], why)
        equal(a.daemon.text().count("its world does not change"), 1)
        a.run.child.send_signal(signal.SIGTERM)
        for node in nodes[:2]:
            node.ended()


@case("SIGTERM to more nodes than can be spared ends the job with a last checkpoint")
def _():
    with cluster("abc") as (store, nodes):
        for node in nodes:
            node.start("--min-ranks", 2)
        nodes[0].reaches(60)
        for node in nodes:
            node.run.child.send_signal(signal.SIGTERM)
        for node in nodes:
            node.ended()
        step = int(re.search(r"final step=(\d+)", from_rank_0(nodes)).group(1))
        equal(listed(store)[-1], step)


@case("any node of a job can be asked to flush it, and to halt it")
def _():
    with cluster("abc") as (store, nodes):
        a, b, c = nodes
        for node in nodes:
            node.start("--min-ranks", 3, every=0)
        a.reaches(60)
        code, out, err = b.daemon.ckpt("flush", "--job", "default", "--socket", b.daemon.socket)
        expect(code == 0, code, out, err)
        step = int(re.fullmatch(r"default: step (\d+), epoch 1 is durable\n", out).group(1))
        expect(step in listed(store), step, "is not in", listed(store))
        code, out, err = c.daemon.ckpt("halt", "--after-next", "--job", "default", "--socket", c.daemon.socket)
        expect(code == 0, code, out, err)
        for node in nodes:
            until_log(node.daemon, "job default: it will be asked to end when its next checkpoint is durable")
        equal(c.daemon.ckpt("halt", "--cancel", "--job", "default", "--socket", c.daemon.socket)[0], 0)
        for node in nodes:
            until_log(node.daemon, "job default: nothing is asked of it any more")
        b.halt()
        for node in nodes:
            node.ended()
            has(node.daemon.text(), "job default: asked to stop")


@case("what cannot be told to all nodes of a job is done on none")
def _():
    with cluster("ab", "--node-wait", "20s") as (store, nodes):
        a, b = nodes
        for node in nodes:
            node.start("--min-ranks", 2, n=2, every=0)
        a.reaches(60)
        a.daemon.kill()
        until_log(b.daemon, "node a, which coordinates it, cannot be reached")
        for command in (["halt", "--now"], ["halt", "--after-next"], ["flush"], ["drain", "b"]):
            code, out, err = b.daemon.ckpt(*command, "--job", "default", "--socket", b.daemon.socket)
            expect(re.search("node a, which coordinates it, cannot be reached", err), err)
            equal((code, out), (1, ""))
        job = b.daemon.job("default")
        equal((job["stopping"], job["halt"]), (False, None))
        a.daemon.start()
        until_log(b.daemon, "epoch 2:")
        b.halt()
        for node in nodes:
            node.ended()


@case("what cannot be offered is said")
def _():
    with cluster("ab", "--copies", 0, store=False) as (_, nodes):
        a, b = nodes
        a.start("--min-ranks", 1, n=2).wait(1)
        has(a.said(), "this ckptd has neither a store nor copies on other nodes from which they would take their state")
        a.start("--spare", n=2)
        until(lambda: a.daemon.status()["worlds"], "it is heard")
        b.start("--spare", n=2, ranks=2).wait(1)
        has(b.said(), "node b offers itself to a job of 4 to 4 ranks, the others to one of 2 to 2")
        a.run.child.send_signal(signal.SIGTERM)
        a.ended()


sys.exit(cases.end())
