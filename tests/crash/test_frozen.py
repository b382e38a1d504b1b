"""State of which most never changes: what a slot holds already is not copied into it again, and every checkpoint has the right bytes all
the same, whatever became of the slot in between."""

import array
import json
import mmap
import pathlib
import struct
import sys

import single_node
from single_node import Cases, expect, until
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, Puppet, all_must, each, gather, save

WORLD, SLOTS = 2, 3
ELEMENTS, FROZEN = 200_000, 180_000  # 13 leaves of each rank; the change begins in the last but one
EBUSY, EBADMSG = -16, -74
ARENA_MAGIC = 0x31414e4552414b43


def started(d):
    d.start()
    ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
    gather(ranks, ELEMENTS)
    all_must(ranks, "set", 1000)
    return ranks


def change(ranks, step):
    """All but what is frozen."""
    all_must(ranks, "set", step, FROZEN)


def save_on(ranks, steps, target=STORAGE, level=DURABLE):
    for step in steps:
        change(ranks, step)
        for call in (("begin", step, target, 0), ("fence", 0), ("wait", 0, level, 60000), ("drop", 0)):
            all_must(ranks, *call)


def files_of(d, step):
    return sorted(path for found in d.store.glob(f"main/step-{step:012d}.e*") for path in found.glob("rank-*.safetensors"))


def rank_states(d):
    job = d.job() if d.answers() else None
    return [r["state"] for r in job["ranks"]] if job else []


def arenas(d):
    """Paths of the memory of all ranks, as the daemon has it open."""
    found = {}
    for fd in pathlib.Path(f"/proc/{d.process.pid}/fd").iterdir():
        try:
            if "memfd:" in str(fd.readlink()):
                found[fd.stat().st_ino] = fd
        except FileNotFoundError:
            pass  # closed meanwhile
    return found.values()


def flip_all_slots(d):
    flipped = 0
    for path in arenas(d):
        with open(path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as memory:
            magic, _, nslots, _, _, _, _, slots_at, slot_size, _ = struct.unpack("<QII7Q", memory[:72])
            if magic == ARENA_MAGIC:
                for slot in range(nslots):
                    memory[slots_at + slot * slot_size + 100] ^= 1
                flipped += nslots
    expect(flipped == WORLD * SLOTS, f"{flipped} slots were found")


def tensor(path):
    data = path.read_bytes()
    head = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + head])["w"]["data_offsets"]
    return array.array("f", data[8 + head + begin:8 + head + end])


def contains(d, step, frozen=1000):
    """The checkpoint of this step, of all ranks."""
    files = files_of(d, step)
    expect(len(files) == WORLD, step, files)
    for path in files:
        values = tensor(path)
        expect(len(values) == ELEMENTS, path, len(values))
        expect(set(values[:FROZEN]) == {frozen}, path, "frozen", set(values[:FROZEN]))
        expect(set(values[FROZEN:]) == {step}, path, "changed", set(values[FROZEN:]))


def thaws():
    with single_node.daemon() as d:
        ranks = started(d)
        save_on(ranks, range(1, 6))
        all_must(ranks, "set", 2000)
        save_on(ranks, range(6, 10))
        for step in range(1, 10):
            contains(d, step, 1000 if step < 6 else 2000)


def thaws_in_one_rank():
    with single_node.daemon() as d:
        ranks = started(d)
        save_on(ranks, range(1, 5))
        for step in range(5, 9):  # one leaf, of one rank, and back
            ranks[0].must("set", 1000 + step % 2, 0)
            save_on(ranks, [step])
            values = [set(tensor(path)[:FROZEN]) for path in files_of(d, step)]
            expect(values == [{1000 + step % 2}, {1000}], step, values)


def daemon_restarts():
    with single_node.daemon() as d:
        ranks = started(d)
        save_on(ranks, range(1, 4))
        d.kill()
        d.start()
        until(lambda: rank_states(d) == ["joined"] * WORLD, "the ranks are back")
        save_on(ranks, range(4, 8))
        for step in range(1, 8):
            contains(d, step)


def rank_is_replaced():
    with single_node.daemon() as d:
        ranks = started(d)
        save_on(ranks, range(1, 4))
        ranks[0].must("begin", 4, MEMORY, 0)  # its slot is intact, and taken
        ranks[0].die()
        until(lambda: "rank 0 is lost" in d.text(), "the daemon sees the death")
        ranks[0] = Puppet(d, 0, WORLD)
        ranks[0].must("open")
        ranks[0].must("table", ELEMENTS)
        all_must(ranks, "join")
        all_must(ranks, "restore", LATEST, 0)
        save_on(ranks, range(5, 9))
        for step in (1, 2, 3, 5, 6, 7, 8):
            contains(d, step)


def older_step_is_restored():
    """From storage, into a slot that the daemon takes for it; what stands there is then of an older state."""
    with single_node.daemon() as d:
        ranks = started(d)
        save_on(ranks, (1, 2))
        all_must(ranks, "set", 2000)
        save_on(ranks, range(3, 7))
        all_must(ranks, "join")
        said = all_must(ranks, "restore", 2, 0)
        expect(all("storage" in s for s in said), said)
        save_on(ranks, range(7, 12))
        for step in range(1, 12):
            contains(d, step, 2000 if 3 <= step <= 6 else 1000)


def attempt(ranks, step):
    """A save that may come to nothing; what the ranks were told."""
    change(ranks, step)
    for rank in ranks:  # the slots of the one that has failed may not be free yet
        until(lambda: rank.ask("begin", step, STORAGE, 0).code != EBUSY, "a slot is free")
    each(ranks, "fence", 0)
    answers = each(ranks, "wait", 0, DURABLE, 60000)
    all_must(ranks, "drop", 0)
    return answers


def snapshot_fails(in_daemon, in_rank):
    """Torn, as the daemon sees it, or not copied by the device of one rank: the slot is not relied on again."""
    with single_node.daemon() as d:
        d.start(failpoints=in_daemon)
        ranks = [Puppet(d, number, WORLD, failpoints=in_rank if number else "") for number in range(WORLD)]
        gather(ranks, ELEMENTS)
        all_must(ranks, "set", 1000)
        save_on(ranks, (1, 2, 3))
        answers = attempt(ranks, 4)
        expect(all(a.code < 0 for a in answers), answers)
        all_must(ranks, "set", 2000)
        save_on(ranks, range(5, 9))
        for step in range(1, 9):
            if step != 4:
                contains(d, step, 1000 if step < 4 else 2000)


def damaged_slots():
    """A bit of a frozen leaf flips in every slot: what was not copied is found torn, once for each slot of a rank, and then all is copied."""
    with single_node.daemon() as d:
        ranks = started(d)
        save_on(ranks, range(1, 5), MEMORY, CAPTURED)
        flip_all_slots(d)
        torn = 0
        for step in range(5, 5 + 4 * SLOTS):
            answers = attempt(ranks, step)
            expect({a.code for a in answers} <= {0, EBADMSG}, answers)
            torn += answers[0].code == EBADMSG
            if answers[0].code == 0:
                contains(d, step)
        expect(0 < torn <= WORLD * SLOTS, f"{torn} saves were torn: nothing was left out, or a torn slot is relied on")
        expect("tensor 'w'" in d.text(), "the tensor is not named")


def main():
    cases = Cases()
    cases.run("what is frozen is in every checkpoint, and what thaws", thaws)
    cases.run("one rank thaws, and freezes again", thaws_in_one_rank)
    cases.run("the daemon is restarted", daemon_restarts)
    cases.run("a rank dies in mid-capture and is replaced", rank_is_replaced)
    cases.run("an older step is restored into a slot", older_step_is_restored)
    cases.run("a snapshot is torn", snapshot_fails, "snapshot.digest=error:EIO@7", "")
    cases.run("the device of a rank fails", snapshot_fails, "", "device.copy=error:EIO@4")
    cases.run("a slot is damaged while it is free", damaged_slots)
    return cases.end()


sys.exit(main())
