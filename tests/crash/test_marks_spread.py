"""Marks of a job whose ranks are on two nodes: what all have said stands in the store once, and whichever node is asked goes back to the same
checkpoint, also when one was lost before it was told."""

import contextlib
import json
import pathlib
import shutil
import sys
import tempfile

from single_node import Cases, expect, until
from loopback_cluster import loopback_cluster
from scripted_ranks import HEALTHY, LATEST_HEALTHY, MEMORY, UNHEALTHY, Puppet, all_must, each, gather, holds, save

ENODATA, REPLICATED = -61, 2


@contextlib.contextmanager
def nodes():
    """Two daemons, and the store that they share."""
    top = pathlib.Path(tempfile.mkdtemp())
    try:
        with loopback_cluster("ab", **{name: ("--store", top / "store") for name in "ab"}) as daemons:
            for d in daemons.values():
                d.store = top / "store"
            yield [daemons[name] for name in "ab"]
    finally:
        shutil.rmtree(top, ignore_errors=True)


def spread(daemons):
    ranks = [Puppet(d, number, 2, local=1) for number, d in enumerate(daemons)]
    gather(ranks)
    return ranks


def mark(ranks, step, health):
    all_must(ranks, "mark", step, 0, health)


def marks(d):
    said = [json.loads(path.read_text()) for path in d.store.glob("main/step-*/VERDICT.json")]
    return {(s["epoch"], s["step"]): s["result"] for s in said}


def listed(d):
    code, out, err = d.ckpt("list", "--repo", d.store, "--json")
    expect(code == 0, err)
    return {(row["epoch"], row["step"]): row["verdict"] for row in json.loads(out)["checkpoints"] if row["verdict"]}


def written_out(d):
    """By the command: the step of `healthy`."""
    to = pathlib.Path(tempfile.mkdtemp()) / "to"
    code, out, err = d.ckpt("restore", "healthy", "--to", to, "--repo", d.store, "--json")
    shutil.rmtree(to.parent, ignore_errors=True)
    return json.loads(out)["step"] if code == 0 else err


def back_to_healthy(ranks):
    all_must(ranks, "join")
    return [answer.text if answer.code == 0 else answer.code for answer in each(ranks, "restore", LATEST_HEALTHY, 0)]


def lost(daemons, ranks, at):
    """The node and its rank; then both anew."""
    ranks[at].kill()
    daemons[at].kill()
    daemons[at].start()
    ranks[at] = Puppet(daemons[at], at, 2, local=1)
    for call in (("open",), ("table", 1000)):
        ranks[at].must(*call)


def stands_once():
    with nodes() as daemons:
        ranks = spread(daemons)
        for step in (7, 8):
            save(ranks, step, step)
        mark(ranks, 7, HEALTHY)
        until(lambda: marks(daemons[0]) == {(1, 7): "healthy"}, "it is written")
        for d in daemons:
            expect(listed(d) == {(1, 7): "healthy"}, listed(d))
            expect(written_out(d) == 7, written_out(d))
        said = back_to_healthy(ranks)
        expect([text.split()[:2] for text in said] == [["7", "1"]] * 2, said)
        holds(ranks, 7)


def last_word_of_all():
    with nodes() as daemons:
        ranks = spread(daemons)
        save(ranks, 7, 7)
        mark(ranks, 7, HEALTHY)
        until(lambda: marks(daemons[0]) == {(1, 7): "healthy"}, "it is written")
        mark(ranks, 7, UNHEALTHY)
        until(lambda: marks(daemons[0]) == {(1, 7): "unhealthy"}, "the last word is written")
        said = back_to_healthy(ranks)
        expect(said == [ENODATA] * 2, said)


def lost_before_it_was_told(at):
    """What is on storage: whoever says so says it for all."""
    with nodes() as daemons:
        ranks = spread(daemons)
        for step in (7, 8):
            save(ranks, step, step)
        mark([ranks[1 - at]], 7, HEALTHY)
        lost(daemons, ranks, at)
        said = back_to_healthy(ranks)
        expect([text.split()[:2] for text in said] == [["7", "1"]] * 2, said)
        holds(ranks, 7)
        save(ranks, 7, 7)
        mark(ranks, 7, HEALTHY)
        until(lambda: marks(daemons[0]).get(max(daemons[0].committed())) == "healthy", "what comes after is marked, too")
        for d in daemons:
            expect(written_out(d) == 7, written_out(d))


def lost_with_what_was_in_memory():
    """Its part comes from the copy, and the node that was told says that it is healthy."""
    with nodes() as daemons:
        ranks = spread(daemons)
        save(ranks, 5, 5, MEMORY, REPLICATED)
        mark([ranks[0]], 5, HEALTHY)
        lost(daemons, ranks, 1)
        said = back_to_healthy(ranks)
        expect([text.split()[:2] for text in said] == [["5", "1"]] * 2, said)
        holds(ranks, 5)


def later_word_stays():
    """A node knows what it was told in its first life; by its second one the other has been told better."""
    with nodes() as daemons:
        ranks = spread(daemons)
        save(ranks, 7, 7)
        mark(ranks, 7, HEALTHY)
        until(lambda: marks(daemons[0]) == {(1, 7): "healthy"}, "it is written")
        daemons[0].kill()
        mark([ranks[1]], 7, UNHEALTHY)
        until(lambda: marks(daemons[1]) == {(1, 7): "unhealthy"}, "the last word is written")
        daemons[0].start()
        until(lambda: "is newer than what was known here" in daemons[0].text(), "it is looked at")
        expect(marks(daemons[0]) == {(1, 7): "unhealthy"}, marks(daemons[0]))
        said = back_to_healthy(ranks)
        expect(said == [ENODATA] * 2, said)


def main():
    cases = Cases()
    cases.run_beside([
        ("what the ranks of two nodes say stands in the store once, and both nodes agree", stands_once),
        ("the last word of all counts", last_word_of_all),
        ("a node is lost before it was told", lost_before_it_was_told, 1),
        ("the node that coordinates is lost before it was told", lost_before_it_was_told, 0),
        ("what was said later than a node knows stays", later_word_stays),
        ("a node is lost with what was in memory only", lost_with_what_was_in_memory),
    ])
    return cases.end()


sys.exit(main())
