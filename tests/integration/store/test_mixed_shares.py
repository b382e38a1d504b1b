"""Nodes of which each holds another subset of one replica group write each byte of it once, as evenly as they can."""

import sys

from scripted_ranks import DURABLE, LATEST, Puppet, all_must
from single_node import Cases, expect
from store_nodes import MIB, WAIT, all_up, bytes_of, nodes, saved, written

ELEMENTS = 8 * MIB  # of 4 bytes, in each tensor: of two nodes that hold it, each may write half
TENSOR = 4 * ELEMENTS
LEAF = 64 << 10
A, B, C = 1, 2, 4
PAIRS = {"a": A | B, "b": B | C, "c": A | C}


def spread(daemons, masks, where="abc"):
    """A rank for each letter, on that node, with the tensors that the node is to have."""
    all_up(daemons)
    ranks = [Puppet(daemons[name], r, len(where), local=where.count(name)) for r, name in enumerate(where)]
    all_must(ranks, "open")
    for rank, name in zip(ranks, where):
        rank.must("subset", masks[name], ELEMENTS)
    all_must(ranks, "join")
    return ranks


def is_written_once(daemons, step, most, tensors=3):
    files = written(daemons, step)
    expect(sum(map(bytes_of, files.values())) == tensors * TENSOR, files)
    for name, least in most.items():
        expect(abs(bytes_of(files[name]) - least) <= LEAF, name, files)


def is_whole(daemons, masks, value, where="abc"):
    """As a reader sees it, and as new processes get it."""
    code, out, err = daemons["a"].ckpt("verify", "--repo", daemons["a"].store, "--all", "--read-data", seconds=60)
    expect(code == 0, "verify:", out, err)
    for d in daemons.values():
        for rank in d.ranks:
            rank.kill()
        d.kill()
    for d in daemons.values():
        d.start()
    ranks = spread(daemons, masks, where)
    for text in all_must(ranks, "restore", LATEST, WAIT):
        expect(text.split()[2] == "storage", text)
    all_must(ranks, "check", value)


def each_of_two_holders_writes_half():
    with nodes() as daemons:
        saved(spread(daemons, PAIRS), 7, 5)
        is_written_once(daemons, 7, dict.fromkeys("abc", TENSOR))
        is_whole(daemons, PAIRS, 5)


def it_is_restored_by_ranks_with_other_subsets():
    with nodes() as daemons:
        saved(spread(daemons, PAIRS, "abca"), 7, 6)
        is_written_once(daemons, 7, dict.fromkeys("abc", TENSOR))
        is_whole(daemons, {"a": A | B | C, "b": C}, 6, "ab")


def what_only_some_hold_leaves_the_rest_to_others():
    masks = {"a": A | B | C, "b": A | B, "c": A}
    with nodes() as daemons:
        saved(spread(daemons, masks), 7, 3)
        is_written_once(daemons, 7, dict.fromkeys("abc", TENSOR))
        is_whole(daemons, masks, 3)


def what_one_node_alone_holds_is_written_by_it():
    masks = {"a": A | B | C, "b": B, "c": B}  # between what it writes stands what the others do
    with nodes() as daemons:
        saved(spread(daemons, masks), 7, 3)
        is_written_once(daemons, 7, {"a": 2 * TENSOR, "b": TENSOR // 2, "c": TENSOR // 2})
        is_whole(daemons, masks, 3)


def a_part_is_packed():
    with nodes("--compress", "zstd") as daemons:
        saved(spread(daemons, PAIRS), 7, 3)
        files = [path for f in written(daemons, 7).values() for path, _ in f]
        expect(all(path.name.endswith(".ckptz") for path in files), files)
        is_whole(daemons, PAIRS, 3)


def a_part_that_does_not_change_is_linked():
    with nodes() as daemons:
        ranks = spread(daemons, PAIRS)
        for step in (7, 8, 9):  # what was the same once is waited for until its digests are there
            saved(ranks, step, 3)
        before, after = written(daemons, 8), written(daemons, 9)
        for name in daemons:
            for (old, _), (new, _) in zip(before[name], after[name], strict=True):
                expect(old.samefile(new), f"{new} was written anew")
        saved(ranks, 10, 4, DURABLE)
        is_whole(daemons, PAIRS, 4)


CASES = [
    ("each of the two nodes that hold a tensor writes half of it", each_of_two_holders_writes_half),
    ("it is restored in another world, by ranks with other subsets", it_is_restored_by_ranks_with_other_subsets),
    ("what only some hold leaves the rest to the others", what_only_some_hold_leaves_the_rest_to_others),
    ("what one node alone holds is written by it", what_one_node_alone_holds_is_written_by_it),
    ("a part of a mixture is packed", a_part_is_packed),
    ("a part of a mixture that has not changed is linked", a_part_that_does_not_change_is_linked),
]

if __name__ == "__main__":
    sys.exit(Cases().run_chosen(CASES))
