"""A job that comes again while its last life is not yet done: with another table, another world size, or the same as before, while a
read-back or a commit still runs."""

import json
import sys
import time

import single_node
from single_node import Cases, expect, until
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, VERIFIED, Puppet, all_must, gather, holds, save

WORLD, ETIMEDOUT = 2, -110
READ_S = (3, 12, 48)  # that a read-back takes


def puppets(d, world=WORLD):
    return [Puppet(d, number, world) for number in range(world)]


def epoch(rank):
    return rank.ask("epoch").code


def life(d, value, elements, target=STORAGE, level=DURABLE, end="close"):
    """One run of two ranks that saves step 10; the epoch that it was in."""
    ranks = puppets(d)
    gather(ranks, elements, replicated=1)
    save(ranks, 10, value, target, level)
    was = epoch(ranks[0])
    for rank in ranks:
        if end == "close":
            rank.must("close")
        rank.kill()
    return was


def whole(d, expected, elements, value):
    """Each life's checkpoint is there under a name of its own, and the newest is the one that is restored."""
    until(lambda: d.committed() == expected, "all is committed")
    d.verify_all()
    d.kill()
    d.start()
    ranks = puppets(d)
    gather(ranks, elements, replicated=1)
    said = all_must(ranks, "restore", LATEST, 0)[0]
    expect(said == f"10 {expected[-1][0]} storage", "restored", said)
    holds(ranks, value)


def during_read_back(elements, end):
    with single_node.daemon() as d:
        d.start(failpoints="readback=delay:3000")
        first = life(d, 1, 1000, end=end)
        second = life(d, 2, elements, end=end)
        expect(second > first, "one epoch for two lives:", first, second)
        whole(d, [(first, 10), (second, 10)], elements, 2)


def during_commit(elements):
    """The first life is killed with its save captured; the commit waits for nobody."""
    with single_node.daemon() as d:
        d.start(failpoints="commit.data=delay:1500@1")
        first = life(d, 1, 1000, level=CAPTURED, end="kill")
        second = life(d, 2, elements, end="kill")
        expect(second > first, "one epoch for two lives:", first, second)
        whole(d, [(first, 10), (second, 10)], elements, 2)


def other_world():
    """It must wait until nothing of the old one runs, and is let in then, and finds in memory what that has left."""
    for read_s in READ_S:  # a busy machine may not have asked, or answered, before it has been read
        if comes_while_it_is_read(read_s):
            return
    expect(False, f"no rank was refused within {READ_S} s")


def comes_while_it_is_read(read_s):
    """False: it came too late, or may have."""
    with single_node.daemon() as d:
        d.start(failpoints=f"readback=delay:{read_s * 1000}")
        began = time.monotonic()
        first = life(d, 1, 1000, end="kill")
        rank = Puppet(d, 0, 1)
        answer = rank.ask("open", read_s * 1000 // 6)
        if answer.code == ETIMEDOUT or time.monotonic() - began >= read_s:
            return False
        expect(answer.code == -16 and "world size" in answer.text, answer)
        rank.must("open", single_node.DEADLINE * 1000)
        rank.must("table", 1000, 1)
        rank.must("join")
        expect(epoch(rank) > first, "the epoch of the other world is entered again")
        expect(rank.must("restore", LATEST, 0) == f"10 {first} memory", "what was saved is not restored")
        holds([rank], 1)
        save([rank], 10, 3, STORAGE, VERIFIED)
        d.verify_all()
        return True


def other_table_beside_living():
    """While a rank still works with the table that the job was formed with, a newcomer cannot bring another."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks, replicated=1)
        save(ranks, 5, 5, MEMORY, CAPTURED)
        ranks[1].kill()
        stranger = Puppet(d, 1, WORLD)
        stranger.must("open")
        stranger.must("table", 2000, 1)
        answer = stranger.ask("join", 5000)
        expect(answer.code == -22 and "registers another table" in answer.text, answer)
        stranger.kill()
        ranks[1] = Puppet(d, 1, WORLD)
        ranks[1].must("open")
        ranks[1].must("table", 1000, 1)
        all_must(ranks, "join")
        expect(all_must(ranks, "restore", LATEST, 0)[0] == "5 1 memory", "the snapshot is lost")
        holds(ranks, 5)


def scribbled_head():
    """What a rank wrote over the head of its arena is not handed to the next process."""
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d, 1)
        gather(ranks)
        save(ranks, 5, 5, MEMORY, CAPTURED)
        scribble(ranks[0])
        ranks[0].kill()
        ranks = puppets(d, 1)
        gather(ranks)
        expect(all_must(ranks, "restore", LATEST, 0)[0] == "5 1 memory", "the snapshot is lost")
        holds(ranks, 5)


def scribble(rank):
    """The magic number, as a stray pointer would."""
    with open(f"/proc/{rank.process.pid}/maps", encoding="ascii") as maps:
        line = next(line for line in maps if "memfd:ckpt:" in line and "rw-s" in line)
    with open(f"/proc/{rank.process.pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(int(line.split("-")[0], 16))
        memory.write(b"\0" * 8)


def main():
    cases = Cases()
    cases.run("the same table during the read-back", during_read_back, 1000, "close")
    cases.run("another table during the read-back", during_read_back, 2000, "close")
    cases.run("another table during the read-back of a killed life", during_read_back, 2000, "kill")
    cases.run("the same table during the commit", during_commit, 1000)
    cases.run("another table during the commit", during_commit, 2000)
    for test in (other_world, other_table_beside_living, scribbled_head):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
