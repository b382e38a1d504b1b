"""What the ranks of several nodes hold alike is written once, by all of these nodes, each a part of it."""

import sys

from scripted_ranks import DURABLE, LATEST, Puppet, all_must
from single_node import Cases, expect
from store_nodes import MIB, WAIT, all_up, bytes_of, nodes, saved, written

LEAF = 64 << 10
ELEMENTS = 12 * MIB  # of 4 bytes: a part for each of three nodes
ONE_MORE = 3  # a tensor of one element, which stands before the large one in files


def spread(daemons, where, elements=ELEMENTS, other=0):
    """A rank for each letter, on that node, and in the job."""
    all_up(daemons)
    ranks = [Puppet(daemons[name], r, len(where), local=where.count(name)) for r, name in enumerate(where)]
    for call in (("open",), ("table", elements, 1, other), ("join",)):
        all_must(ranks, *call)
    return ranks


def is_whole(daemons, where, value):
    """As a reader sees it, and as new processes get it."""
    code, out, err = daemons["a"].ckpt("verify", "--repo", daemons["a"].store, "--all", "--read-data", seconds=60)
    expect(code == 0, "verify:", out, err)
    for d in daemons.values():
        for rank in d.ranks:
            rank.kill()
        d.kill()
    for d in daemons.values():
        d.start()
    ranks = spread(daemons, where)
    for text in all_must(ranks, "restore", LATEST, WAIT):
        expect(text.split()[2] == "storage", text)
    all_must(ranks, "check", value)


def each_node_writes_a_part():
    with nodes() as daemons:
        saved(spread(daemons, "abc"), 7, 5)
        files = written(daemons, 7)
        expect(all(bytes_of(f) == 16 * MIB for f in files.values()), files)
        is_whole(daemons, "abc", 5)


def nodes_with_fewer_ranks_write_as_much():
    with nodes() as daemons:
        saved(spread(daemons, "aab"), 7, 6)
        files = written(daemons, 7)
        expect(sorted(files) == ["a", "b"] and all(bytes_of(f) == 24 * MIB for f in files.values()), files)
        is_whole(daemons, "aab", 6)


def a_part_need_not_begin_at_a_block():
    with nodes() as daemons:
        ranks = spread(daemons, "abc", other=ONE_MORE)
        saved(ranks, 7, 8)
        files = written(daemons, 7)
        expect(all(abs(bytes_of(f) - 16 * MIB) <= LEAF for f in files.values()), files)
        expect(sum(map(bytes_of, files.values())) == 48 * MIB + 4, files)
        code, out, err = daemons["a"].ckpt("verify", "--repo", daemons["a"].store, "--all", "--read-data", seconds=60)
        expect(code == 0, "verify:", out, err)
        all_must(ranks, "fill", 1)
        for rank in ranks:
            rank.kill()
        for d in daemons.values():
            d.kill()
            d.start()
        ranks = spread(daemons, "abc", other=ONE_MORE)
        all_must(ranks, "restore", LATEST, WAIT)
        all_must(ranks, "check", 8)


def small_state_is_written_by_one():
    with nodes() as daemons:
        saved(spread(daemons, "abc", 1000), 7, 5)
        files = written(daemons, 7)
        expect(sorted(map(bytes_of, files.values())) == [0, 0, 4000], files)


def a_part_is_packed():
    with nodes("--compress", "zstd") as daemons:
        saved(spread(daemons, "abc"), 7, 3)
        files = written(daemons, 7)
        expect(all(path.name.endswith(".ckptz") for f in files.values() for path, _ in f), files)
        is_whole(daemons, "abc", 3)


def a_part_that_does_not_change_is_linked():
    with nodes() as daemons:
        ranks = spread(daemons, "abc")
        for step in (7, 8, 9):  # what was the same once is waited for until its digests are there
            saved(ranks, step, 3)
        before, after = written(daemons, 8), written(daemons, 9)
        for name in daemons:
            for (old, _), (new, _) in zip(before[name], after[name], strict=True):
                expect(old.samefile(new), f"{new} was written anew")
        saved(ranks, 10, 4, DURABLE)
        expect(all(path.stat().st_nlink == 1 for f in written(daemons, 10).values() for path, _ in f), "of another state")
        is_whole(daemons, "abc", 4)


CASES = [
    ("each of three nodes writes a third of what all hold", each_node_writes_a_part),
    ("a node with fewer ranks writes as much", nodes_with_fewer_ranks_write_as_much),
    ("a part may begin anywhere in a slot", a_part_need_not_begin_at_a_block),
    ("what is too small is not divided", small_state_is_written_by_one),
    ("a part is packed", a_part_is_packed),
    ("a part that has not changed is linked", a_part_that_does_not_change_is_linked),
]

if __name__ == "__main__":
    sys.exit(Cases().run_chosen(CASES))
