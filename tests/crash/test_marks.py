"""What the training says of its checkpoints (ckpt_mark) outlasts the daemon and the job: it is beside the checkpoint, whole or not at all,
wherever the daemon is killed, also before the checkpoint is on storage; a later process restores the newest that was called healthy, and retention keeps it."""

import contextlib
import json

import single_node
from single_node import finish
from scripted_ranks import CAPTURED, DURABLE, HEALTHY, LATEST_HEALTHY, MEMORY, STORAGE, UNHEALTHY, Puppet, Run, all_must, gather, holds, save
from tap import Cases, expect, until

cases = Cases()
WORLD = 2
RANK = ("--storage", 2, "--mark", 4, "--pause", 15, "--elements", 3000, "--deadline", 20000)


def ranks(d, *options):
    return d.endless(WORLD, *RANK, *options)


def said(d):
    """What stands beside the checkpoints; a mark that is there is whole."""
    for path in d.store.glob("main/step-*/VERDICT.json"):
        with contextlib.suppress(FileNotFoundError):  # retention has deleted it since
            yield json.loads(path.read_text())


def healthy(d):
    """(epoch, step) of all that are called so."""
    for mark in said(d):
        expect(mark["result"] == "healthy", mark)
    code, out, err = d.ckpt("list", "--repo", d.store, "--json")
    expect(code == 0, err)
    rows = json.loads(out)["checkpoints"]
    expect(all(row["detail"] is None for row in rows), rows)
    return sorted((row["epoch"], row["step"]) for row in rows if row["verdict"] == "healthy")


def marks(d):
    """{(epoch, step): what is said of it}"""
    return {(mark["epoch"], mark["step"]): mark["result"] for mark in said(d)}


def marked(running):
    return set().union(*[r.reached("marked") for r in running])


def restored(d, *options):
    (d.top / "pace").unlink(missing_ok=True)
    name = f"restored{len(d.ranks)}."
    again = [d.rank(r, WORLD, "--restore-only", "--elements", 3000, *options, name=f"{name}{r}") for r in range(WORLD)]
    for rank in again:
        expect(rank.wait() == 0, f"rank {rank.number} ended with {rank.process.returncode}: {rank.lines()}")
    return [(int(line[2]), int(line[1])) for rank in again for line in rank.of("restored")]


@cases.case("after the whole job and the daemon are gone the newest healthy checkpoint is restored, whatever is newer")
def _():
    with single_node.daemon() as d:
        d.start()
        first = [Puppet(d, number, WORLD) for number in range(WORLD)]
        gather(first)
        for step in (2, 4, 6):
            save(first, step, step)
            if step < 6:
                first[step % WORLD].must("mark", step, 0, HEALTHY)
        until(lambda: healthy(d) == [(1, 2), (1, 4)], "what was said is on storage")
        for rank in first:
            rank.kill()
        d.kill()
        d.start()
        again = [Puppet(d, number, WORLD) for number in range(WORLD)]
        gather(again)
        expect(all_must(again, "restore", LATEST_HEALTHY, 0) == ["4 1 storage"] * WORLD, "not what was marked")
        holds(again, 4)


@cases.case("without a mark there is nothing healthy to restore, and what is newest is restored all the same")
def _():
    with single_node.daemon() as d:
        d.start()
        stop, running = ranks(d, "--mark", 0)
        until(lambda: d.committed(), "a checkpoint")
        finish(stop, running)
        d.kill()
        d.start()
        expect(restored(d, "--healthy") == [], "nobody called it healthy")
        expect(restored(d) == [max(d.committed())] * WORLD, "the newest")


@cases.case("killed between a mark and its last fsync: it is there whole, or not at all, and the next one is there again")
def _():
    for point in ("mark.write=kill@2", "disk.fsync=kill@30", "disk.rename=kill@1", "disk.rename.after=kill@2", "disk.write=kill@25"):
        with single_node.daemon(options=("--no-verify",)) as d:
            d.start()  # makes the store
            d.stop()
            d.start(failpoints=point)
            stop, running = ranks(d)
            until(lambda: not d.alive(), f"it is killed ({point})")
            before = healthy(d)
            expect(all(step % 4 == 0 for _, step in before), "nobody has marked all of", before)
            d.start()
            expect(set(before) <= set(healthy(d)), "a mark went away")
            until(lambda: set(healthy(d)) - set(before), f"another one is marked ({point})")
            finish(stop, running)
            d.verify_all()


@cases.case("killed between a mark and the commit of its checkpoint: what was said last is there when the checkpoint is")
def _():
    for last, others in ((HEALTHY, []), (HEALTHY, [UNHEALTHY]), (UNHEALTHY, [HEALTHY])):
        with single_node.daemon() as d:
            d.start(failpoints="commit.name=kill")
            ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
            gather(ranks)
            for call in (("set", 7), ("begin", 7, STORAGE, 0)):
                all_must(ranks, *call)
            ranks[0].must("fence", 0)
            for health in [*others, last]:
                ranks[0].must("mark", 7, 0, health)
            ranks[1].must("fence", 0)  # so that it can be committed
            until(lambda: not d.alive(), "it is killed")
            expect(marks(d) == {}, "it is not on storage", marks(d))
            d.start()
            all_must(ranks, "wait", 0, DURABLE, 20000)
            says = "healthy" if last == HEALTHY else "unhealthy"
            until(lambda: marks(d) == {(1, 7): says}, f"it is called {says}")


@cases.case("the daemon and all who said so are killed: of what is in memory only it is known again")
def _():
    with single_node.daemon(store=False) as d:
        run = Run(d, WORLD, store=False)
        ranks = run.ranks()
        gather(ranks)
        save(ranks, 5, 5, MEMORY, CAPTURED)
        ranks[1].must("mark", 5, 0, HEALTHY)
        run.strike("ckptd", 0, 1)
        ranks = run.ranks()
        gather(ranks)
        expect(all_must(ranks, "restore", LATEST_HEALTHY, 0) == ["5 1 memory"] * WORLD, "not what was marked")


@cases.case("a mark that could not be written is written later")
def _():
    with single_node.daemon(options=("--no-verify",)) as d:
        d.start(failpoints="mark.write=error:EIO@1")
        stop, running = ranks(d, "--mark", 40, "--wait", "durable")  # so that nothing but the error keeps it from being written
        until(lambda: marked(running), "a mark is given")
        first = min(marked(running))
        until(lambda: d.fired.exists() and "fired" in d.fired.read_text() and first in healthy(d), "it is there")
        finish(stop, running)


@cases.case("retention keeps the newest that is called healthy")
def _():
    with single_node.daemon(options=("--keep-last", "1", "--no-verify")) as d:
        d.start()
        stop, running = ranks(d, "--mark", 40, "--wait", "durable")  # so that none is passed over
        until(lambda: healthy(d), "a healthy checkpoint")
        first = healthy(d)[0]
        until(lambda: max(d.committed())[1] >= first[1] + 12, "newer ones come and go")
        expect(first in d.committed() or len(healthy(d)) and healthy(d)[-1] > first, d.committed())
        until(lambda: healthy(d) and healthy(d)[-1] > first and first not in d.committed(), "a newer healthy one takes its place")
        finish(stop, running)


raise SystemExit(cases.end())
