"""Commits of a job whose ranks are on several nodes, onto a store that the daemons share: whichever node dies, at whichever state of a
commit, what was told durable is whole, and what is not committed is not there. Each case has a cluster of its own, and waits most of its time."""

import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from single_node import BIN, DEADLINE, Cases, expect, until
from loopback_cluster import Cluster
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, VERIFIED, Puppet, all_must, each, gather

EINVAL, ENOSPC, EOPNOTSUPP, ESTALE = -22, -28, -95, -116
NAMES = "abc"
WAIT = 30000

# Of a node that has ranks, and of the one that coordinates.
STATES = ("find_job", "find_dir", "open_node", "data", "digests", "sidecars", "notice", "node", "sync_dir", "prepared", "close_dir", "done")
DIRECTORY_STATES = ("job_dir", "probe", "mkdir", "open_dir", "sync_root", "ready", "look", "manifest", "sync_manifest", "name", "sync_name", "close_directory", "over")


@contextlib.contextmanager
def nodes(options=(), names=NAMES):
    cluster = Cluster(list(names))
    store = pathlib.Path(tempfile.mkdtemp()) / "store"
    daemons = {name: cluster.daemon(name, "--store", store, *options) for name in names}
    try:
        for d in daemons.values():
            d.store = store
            d.start()
        meet(daemons)
        yield daemons
    finally:
        for d in daemons.values():
            d.close()
        shutil.rmtree(store.parent, ignore_errors=True)


def meet(daemons, times=1):
    for name, d in daemons.items():
        for other in set(daemons) - {name}:
            until(lambda d=d, other=other: f"node {other} is there" in d.text(), f"node {other} is seen in {d.log}")


def meets_again(d, other, times=2):
    """It has the other's next life (its log that of its own earlier ones, too), and has it now: they may lose each other more often."""
    until(lambda: d.text().count(f"node {other} is there") >= times
          and any(n["name"] == other and n["up"] for n in d.status()["cluster"]["nodes"]), f"node {other} is there again in {d.log}")


def spread(daemons, where="abc", local=1):
    return [Puppet(daemons[name], r, len(where), local=local) for r, name in enumerate(where)]


def begun(ranks, step, target=STORAGE):
    for call in (("set", step), ("begin", step, target, 0), ("fence", 0)):
        all_must(ranks, *call)


def saved(ranks, step, level=DURABLE):
    begun(ranks, step)
    all_must(ranks, "wait", 0, level, WAIT)


def told_of_a_new_epoch(ranks):
    for rank in ranks:
        until(lambda rank=rank: rank.ask("begin", 10**6, MEMORY, 5).code == ESTALE, f"rank {rank.number} is told")


def steps(d):
    return [step for _, step in d.committed()]


def verified(d, n):
    code, out, err = d.ckpt("verify", "--repo", d.store, "--all", "--read-data", seconds=60)
    expect(code == 0, "verify:", out, err)
    expect(len(d.committed()) >= n, f"{len(d.committed())} checkpoints instead of {n}")


def restored(ranks, step):
    for rank, text in zip(ranks, all_must(ranks, "restore", LATEST, WAIT)):
        expect(text.split()[0] == str(step), f"rank {rank.number} restored {text}")
    for rank in ranks:
        expect(rank.must("get") == str(step), f"rank {rank.number} has {rank.must('get')}")


def is_durable_on_all():
    with nodes() as daemons:
        ranks = spread(daemons, "aabbcc", 2)
        gather(ranks)
        for step in range(7, 12):
            saved(ranks, step)
        saved(ranks, 12, VERIFIED)
        verified(daemons["a"], 2)
        expect(12 in steps(daemons["a"]), steps(daemons["a"]))
        names = {p.name for p in (daemons["a"].store / "main").glob("step-000000000012.*/node-*")}
        expect(names == {f"node-{n}.json" for n in NAMES}, names)


def the_coordinator_needs_no_rank(level, *options):
    """It removes what retention does not keep, as one that has some."""
    with nodes(("--keep-last", "2", *options)) as daemons:
        ranks = spread(daemons, "bc")
        gather(ranks)
        for step in range(1, 6):
            saved(ranks, step, level)
        until(lambda: steps(daemons["b"]) == [4, 5], "only the newest two are there")
        verified(daemons["b"], 2)


def is_restored_by_new_processes():
    with nodes() as daemons:
        ranks = spread(daemons)
        gather(ranks)
        saved(ranks, 7)
        for rank in ranks:
            rank.kill()
        for d in daemons.values():
            d.kill()
        for d in daemons.values():
            d.log.write_text("")
            d.start()
        meet(daemons)
        ranks = spread(daemons)
        gather(ranks)
        restored(ranks, 7)
        saved(ranks, 8)


def one_that_asks_for_less_is_written_less():
    """persist-every: all ranks are told the same, on whichever node they are."""
    with nodes(["--persist-every", "3"]) as daemons:
        ranks = spread(daemons)
        gather(ranks)
        saved(ranks, 1)
        for step in (2, 3):
            begun(ranks, step)
            for answer in each(ranks, "wait", 0, DURABLE, WAIT):
                expect(answer.code == EOPNOTSUPP, answer)
        saved(ranks, 4)
        expect(steps(daemons["a"]) == [1, 4], steps(daemons["a"]))


def slow_and_fast_do_not_fail_each_other():
    """One node writes slowly: saves that come meanwhile give way to the newest, on all nodes to the same."""
    with nodes() as daemons:
        daemons["c"].kill()
        daemons["c"].start(failpoints="commit.data=delay:300")
        meets_again(daemons["a"], "c")
        meets_again(daemons["c"], "a")
        ranks = spread(daemons)
        gather(ranks)
        for step in range(1, 12):
            all_must(ranks, "set", step)
            all_must(ranks, "slot", WAIT)  # what has given way on the node of rank 0 gives back its slots on the others a moment later
            all_must(ranks, "begin", step, STORAGE, 0)
            all_must(ranks, "fence", 0)
            all_must(ranks, "wait", 0, CAPTURED, WAIT)
        all_must(ranks, "wait", 0, DURABLE, WAIT)
        verified(daemons["a"], 2)
        expect(steps(daemons["a"])[-1] == 11, steps(daemons["a"]))


def a_node_without_space_fails_it_everywhere():
    with nodes() as daemons:
        daemons["b"].kill()
        daemons["b"].start(failpoints="commit.node=error:ENOSPC@2")
        meets_again(daemons["a"], "b")
        ranks = spread(daemons)
        gather(ranks)
        saved(ranks, 1)
        begun(ranks, 2)
        for answer in each(ranks, "wait", 0, DURABLE, WAIT):
            expect(answer.code == ENOSPC, answer)
        saved(ranks, 3)
        verified(daemons["a"], 2)
        until(lambda: not list((daemons["a"].store / "main").glob(".writing*")), "nothing is left behind")


def told(d, rank, step):
    """Its node has said that it has all of the step."""
    until(lambda: any(s["step"] == step and s["state"] == "copied" for s in d.job()["snapshots"]), f"step {step} is seen")
    until(lambda: "waiting for the daemon" in rank.ask("wait", 0, CAPTURED, 10).text, f"step {step} is digested")


def a_flush_names_what_it_has_written():
    """The node that decides has captured one step more than the one that is asked by the time when it hears of it."""
    with nodes(names="ab") as daemons:
        a, b = daemons.values()
        ranks = spread(daemons, "ab")
        gather(ranks)
        begun(ranks, 1, MEMORY)
        all_must(ranks, "wait", 0, CAPTURED, WAIT)
        begun(ranks[:1], 2, MEMORY)
        told(a, ranks[0], 2)
        a.process.send_signal(signal.SIGSTOP)
        begun(ranks[1:], 2, MEMORY)
        told(b, ranks[1], 2)
        flush = subprocess.Popen([BIN / "ckpt", "flush", "--socket", b.socket], stdout=subprocess.PIPE, text=True, env=b.environment())
        until(lambda: "step 1 of epoch 1 goes to storage" in b.text(), "it is asked")
        a.process.send_signal(signal.SIGCONT)
        out, _ = flush.communicate(timeout=DEADLINE)
        expect((out, steps(a)) == ("main: step 2, epoch 1 is durable\n", [2]), out, steps(a))


def dies_at(name, state):
    with nodes() as daemons:
        others = [n for n in NAMES if n != name]
        daemons[name].kill()
        daemons[name].start(failpoints=f"commit.{state}=kill@2")
        for other in others:
            meets_again(daemons[other], name)
        ranks = spread(daemons)
        gather(ranks)
        saved(ranks, 1)
        for call in (("set", 2), ("begin", 2, STORAGE, 0), ("fence", 0)):
            each(ranks, *call)  # it may be dead, and who lives be told of it, before the last one has begun
        until(lambda: not daemons[name].alive(), f"{name} dies at {state}")
        answers = each(ranks, "wait", 0, DURABLE, 3000)
        daemons[name].start()
        for other in others:
            meets_again(daemons[other], name, 3)
        told_of_a_new_epoch(ranks)
        all_must(ranks, "join")
        text = all_must(ranks, "restore", LATEST, WAIT)
        expect(len({t.split()[0] for t in text}) == 1, text)
        saved(ranks, 5)
        verified(daemons[name], 2)
        if any(a.code >= 0 for a in answers):
            expect(2 in steps(daemons[name]), f"told durable: {answers}, there: {steps(daemons[name])}")


def tensors_that_are_known_in_two_ways_are_refused(other, said):
    """Before anybody enters, so that no save to memory hides it."""
    with nodes(names="abc") as daemons:
        ranks = spread(daemons, "abc")
        all_must(ranks, "open")
        ranks[0].must("table", 1000)
        ranks[1].must("table", 1000)
        ranks[2].must("table", *other)
        for answer in each(ranks, "join", WAIT):
            expect(answer.code == EINVAL and said in answer.text, answer)


def tables_that_contradict_each_other_are_not_committed(other, said):
    """Without the read-back nobody else would look before a restore."""
    with nodes(options=("--no-verify",), names="ab") as daemons:
        ranks = spread(daemons, "ab")
        all_must(ranks, "open")
        ranks[0].must("table", 1000)
        ranks[1].must("table", *other)
        all_must(ranks, "join")
        begun(ranks, 1)
        for answer in each(ranks, "wait", 0, DURABLE, WAIT):
            expect(answer.code == EINVAL and said in answer.text, answer)
        expect(not list((daemons["a"].store / "main").glob("step-*/MANIFEST.json")), "it was committed")


def a_daemon_that_ends_while_it_compares_finishes_the_commit():
    """It has no ranks: nothing else of the job keeps it."""
    with nodes() as daemons:
        daemons["a"].stop()
        daemons["a"].start(failpoints="disk.read=delay:300", CKPT_LOG="debug")
        for name in "bc":
            meets_again(daemons[name], "a")
        ranks = spread(daemons, "bc")
        gather(ranks)
        begun(ranks, 1)
        until(lambda: "its nodes are compared" in daemons["a"].text(), "the tables are compared")
        expect(daemons["a"].stop() == 0, "it did not end cleanly")
        expect("sync-name" in daemons["a"].text(), "the commit was not finished")


def ends_although_nobody_says_what_becomes_of_a_save(lost):
    """Its part is prepared, and the coordinator is gone, or hangs: that is found out later than the daemon has to end."""
    with nodes(names="ab") as daemons:
        a, b = daemons.values()
        a.kill()
        a.start(failpoints="commit.look=kill@1" if lost else "commit.look=delay:60000")
        meets_again(b, "a")
        ranks = spread(daemons, "ab")
        gather(ranks)
        begun(ranks, 1)
        until(lambda: a.fired.exists() and "fired commit.look" in a.fired.read_text(), "all parts are prepared")
        if lost:
            until(lambda: "node a is lost" in b.text(), "its coordinator is lost")
        expect(b.stop() == 0, "it did not end cleanly:", b.text()[-2000:])
        expect("leaving it" not in b.text(), b.text()[-2000:])


def main():
    rows = [(f"a member dies at {state}", dies_at, "b", state) for state in STATES]
    rows += [(f"the coordinator dies at {state}", dies_at, "a", state) for state in DIRECTORY_STATES]
    rows += [("a save is durable on all nodes", is_durable_on_all),
             ("the coordinator needs no rank", the_coordinator_needs_no_rank, VERIFIED),
             ("the coordinator needs no rank: nothing is read back", the_coordinator_needs_no_rank, DURABLE, "--no-verify"),
             ("what is durable is restored by new processes", is_restored_by_new_processes),
             ("persist-every is the same on all nodes", one_that_asks_for_less_is_written_less),
             ("slow and fast nodes do not fail each other's saves", slow_and_fast_do_not_fail_each_other),
             ("a node without space fails a save everywhere", a_node_without_space_fails_it_everywhere),
             ("a flush names what it has written", a_flush_names_what_it_has_written),
             ("a daemon that ends while it compares finishes the commit", a_daemon_that_ends_while_it_compares_finishes_the_commit),
             ("a daemon ends although its coordinator is lost", ends_although_nobody_says_what_becomes_of_a_save, True),
             ("a daemon ends although its coordinator hangs", ends_although_nobody_says_what_becomes_of_a_save, False)]
    rows += [(f"tables that contradict each other are not committed: {what}", tables_that_contradict_each_other_are_not_committed, other, said)
             for what, other, said in (("a part that nobody has", (1000, 0, 1), "no rank holds element 0"),
                                       ("a part that two have", (1000, 0, 4), "overlap; each element must be held once"))]
    rows += [(f"tensors that are known in two ways are refused: {what}", tensors_that_are_known_in_two_ways_are_refused, other, said)
             for what, other, said in (("another shape", (500,), 'tensor "w" is F32 [3000] on rank 0, and F32 [1500] on rank 2: register it alike on all ranks'),
                                       ("another type", (1000, 0, 2), 'tensor "w" is F32 [3000] on rank 0, and I32 [3000] on rank 2: register it alike on all ranks'))]
    return Cases().run_chosen(rows)


sys.exit(main())
