"""Ranks load what is there while the daemon still brings the rest: whatever happens then, nobody ends up with a mixture."""

import sys

import single_node
from single_node import Cases, expect, until
from loopback_cluster import loopback_cluster
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, Puppet, all_must, each, gather, holds, save

WORLD = 2
EPERM, ESTALE, ENOTCONN = -1, -116, -107
REPLICATED = 2
ELEMENTS = 12_000_000  # of 4 bytes: three granules for each rank
BYTES = 4 * ELEMENTS
LARGE = 60_000_000  # more than is under way from another node at a time
SLOW = "recover.there=delay:1000"


def puppets(d):
    ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
    gather(ranks, ELEMENTS)
    return ranks


def fired(d, times=1):
    return d.fired.exists() and d.fired.read_text().count("fired recover.there") >= times


def early(ranks):
    return [int(text) for text in all_must(ranks, "early")]


def saved(d, *steps, target=STORAGE):
    """The ranks, with these steps saved, each of its own number."""
    ranks = puppets(d)
    for step in steps:
        save(ranks, step, step, target, DURABLE if target == STORAGE else CAPTURED)
    all_must(ranks, "set", 99)
    return ranks


def damage(d, step):
    """One byte in the last third of the part of the last rank."""
    file = max(d.store.glob(f"*/step-{step:012}.*/rank-0000{WORLD - 1}*.safetensors"))
    with open(file, "r+b") as data:
        data.seek(file.stat().st_size - BYTES // 6)
        byte = data.read(1)
        data.seek(-1, 1)
        data.write(bytes([byte[0] ^ 1]))


def started_again(d, ranks, failpoints, damaged=()):
    """Daemon and ranks: nothing is in memory. damaged: steps whose files are, by then."""
    for rank in ranks:
        rank.must("close")
        rank.kill()
    expect(d.stop() == 0, "the daemon's end")
    for step in damaged:
        damage(d, step)
    d.start(failpoints=failpoints)
    ranks = puppets(d)
    all_must(ranks, "set", 99)
    return ranks


def restored(ranks, text, value):
    for said in all_must(ranks, "restore", LATEST, 60000):
        expect(said == text, "restored", said)
    holds(ranks, value)


def refused(ranks, code):
    for answer in each(ranks, "begin", 900, MEMORY, 5):
        expect(answer.code == code, answer)


def from_storage():
    with single_node.daemon() as d:
        d.start()
        ranks = started_again(d, saved(d, 5), SLOW)
        restored(ranks, "5 1 storage", 5)
        expect(all(0 < n <= BYTES for n in early(ranks)), "loaded while others were read:", early(ranks))
        save(ranks, 6, 6, MEMORY, CAPTURED)


def from_memory():
    with single_node.daemon() as d:
        d.start(failpoints=SLOW)
        ranks = saved(d, 5, target=MEMORY)
        all_must(ranks, "join")
        restored(ranks, "5 1 memory", 5)
        expect(all(0 < n <= BYTES for n in early(ranks)), "loaded while others were checked:", early(ranks))


def marked_damaged(d, step):
    return any('"result":"damaged"' in file.read_text() for file in d.store.glob(f"main/step-{step:012}.*/HEALTH.json"))


def damage_behind_what_was_loaded():
    """Of the newest step something has been loaded when the damage is found: all of it comes from the one before."""
    with single_node.daemon() as d:
        d.start()
        ranks = started_again(d, saved(d, 5, 6), SLOW, damaged=[6])
        restored(ranks, "5 1 storage", 5)
        expect(d.fired.read_text().count("fired recover.there") > 3 * WORLD, "nothing of the damaged step was there:", d.fired.read_text())
        has = d.text()
        expect("step 6 epoch 1:" in has and "do not match their digest" in has, "the step that was passed over is not named")
        until(lambda: marked_damaged(d, 6), "it is read whole, and marked")
        ranks = started_again(d, ranks, SLOW, damaged=[5])
        for answer in each(ranks, "restore", LATEST, 60000):
            expect(answer.code == -74 and "no intact checkpoint is left" in answer.text, answer)
        refused(ranks, EPERM)


def memory_damaged_behind_what_was_loaded():
    """All of rank 0's part has been loaded out of memory when that is found to be damaged: all ranks load storage's."""
    with single_node.daemon() as d:
        d.start(failpoints=f"{SLOW},recover.memory=error:EIO@1")
        ranks = saved(d, 5)
        all_must(ranks, "join")
        restored(ranks, "5 1 storage", 5)
        expect("step 5 in memory is damaged" in d.text(), "what was passed over is not named")
        expect(all(0 < n <= BYTES for n in early(ranks)), "loaded while others were read:", early(ranks))


def daemon_killed():
    with single_node.daemon() as d:
        d.start()
        ranks = started_again(d, saved(d, 5), "recover.there=kill@3")
        for answer in each(ranks, "restore", LATEST, 60000):
            expect(answer.code == ENOTCONN, answer)
        until(lambda: not d.alive(), "the daemon dies")
        d.start(failpoints=SLOW)
        restored(ranks, "5 1 storage", 5)
        save(ranks, 6, 6, MEMORY, CAPTURED)


def rank_killed():
    """And with it the epoch is raised: the other one is told, and has nothing until it has restored."""
    with single_node.daemon() as d:
        d.start()
        ranks = started_again(d, saved(d, 5), "recover.there=delay:3000@2")
        for rank in ranks:
            rank.say("restore", LATEST, 60000)
        until(lambda: fired(d), "something is there")
        ranks[1].kill()
        answer = ranks[0].answer()
        expect(answer.code == ESTALE, answer)
        refused(ranks[:1], EPERM)
        ranks[1] = Puppet(d, 1, WORLD)
        ranks[1].must("open")
        ranks[1].must("table", ELEMENTS, 0)
        all_must(ranks, "join")
        answer = ranks[0].ask("begin", 900, MEMORY, 5)
        expect(answer.code == EPERM, answer)
        restored(ranks, "5 1 storage", 5)


def from_another_node():
    """The one that it was fetched from first dies in the middle: all of it comes from the other."""
    with loopback_cluster("abc", a=["--copies", "2"]) as daemons:
        a = daemons["a"]
        rank = Puppet(a, 0, 1)
        gather([rank], LARGE)
        save([rank], 5, 5, MEMORY, REPLICATED)
        a.kill()
        rank.kill()
        a.start(failpoints="recover.there=delay:3000@1")
        until(lambda: all(n["up"] for n in a.status()["cluster"]["nodes"]), "the nodes find each other")
        rank = Puppet(a, 0, 1)
        gather([rank], LARGE)
        rank.must("set", 99)
        answer = rank.ask("restore", LATEST, 60000)
        expect(answer.code == ESTALE, "others hold a step of the epoch that the daemon took for new", answer)
        rank.must("join")
        rank.say("restore", LATEST, 60000)
        until(lambda: fired(a), "something is there")
        daemons["b"].kill()
        answer = rank.answer()
        expect((answer.code, answer.text) == (0, "5 1 peer"), answer)
        holds([rank], 5)
        part = a.job()["recoveries"]["recent"][-1]["ranks"][0]
        expect(part["from"] == "c" and "peer b: " in part["skipped"], part)
        expect(0 < early([rank])[0] <= 4 * LARGE, early([rank]))


def main():
    cases = Cases()
    cases.run("out of storage", from_storage)
    cases.run("out of memory", from_memory)
    cases.run("from another node, which dies in the middle", from_another_node)
    cases.run("damage on storage, found when a part was loaded", damage_behind_what_was_loaded)
    cases.run("damage in memory, found when a part was loaded", memory_damaged_behind_what_was_loaded)
    cases.run("the daemon is killed in the middle", daemon_killed)
    cases.run("a rank is killed in the middle", rank_killed)
    return cases.end()


sys.exit(main())
