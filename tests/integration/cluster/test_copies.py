"""Copies of a job's snapshots in the memory of other nodes: they are made, made anew when a holder is lost, refused where there is no room,
and go with the job."""

import sys

from loopback_cluster import loopback_cluster
from scripted_ranks import CAPTURED, MEMORY, Puppet, all_must, each, gather, save
from tap import DEADLINE, Cases, equal, expect, has, until

REPLICATED = 2
ELEMENTS = 1_000_000  # of 4 bytes


def ranks_on(daemon, world=2, elements=ELEMENTS):
    ranks = [Puppet(daemon, number, world) for number in range(world)]
    gather(ranks, elements)
    return ranks


def holders(daemons):
    return sorted(name for name, daemon in daemons.items() if daemon.alive() and daemon.held())


def in_memory(daemon):
    return {s["step"] for s in daemon.job()["snapshots"] if s["in_memory"]}


def whole(daemon):
    copies = daemon.job()["copies"]
    return not copies["under_way"] and not copies["ranks_missing"]


def a_jobs_snapshot_is_copied_to_another_node():
    with loopback_cluster("ab") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        equal(holders(daemons), ["b"])
        expect(daemons["b"].held() > 2 * 2 * 4 * ELEMENTS, "two slots for each of two ranks:", daemons["b"].held())
        job = daemons["a"].job()
        equal(job["saves"]["replicated"]["step"], 7)
        equal([job["copies"][key] for key in ("wanted", "held", "holders", "step")], [1, 1, {"b": 2}, 7])
        for command, told in (("status", "replicated: step 7 (epoch 1); of step 7, 1 of 1 copies on b"), ("top", "copies of step 7: 1 of 1 on b")):
            code, out, err = daemons["a"].ckpt(command, "--socket", daemons["a"].socket)
            has(out, told)
        expect(job["saves"]["recent"][-1]["replicated_ms"] > 0, job["saves"]["recent"])
        save(ranks, 8, 4, target=MEMORY, level=REPLICATED)
        save(ranks, 9, 5, target=MEMORY, level=REPLICATED)
        equal(daemons["b"].status()["cluster"]["held"], 6)


def a_lost_copy_is_made_anew_elsewhere():
    with loopback_cluster("abc") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        first = holders(daemons)
        equal(len(first), 1)
        daemons[first[0]].kill()
        until(lambda: holders(daemons) and whole(daemons["a"]), "another node holds it")
        expect(daemons["a"].status()["cluster"]["remade"] >= 1, daemons["a"].status()["cluster"])
        save(ranks, 8, 4, target=MEMORY, level=REPLICATED)


def where_there_is_no_room_it_is_said_with_the_sum():
    with loopback_cluster("ab", b=["--memory-limit", "8M"]) as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=CAPTURED)
        finding = until(lambda: [f for f in daemons["a"].status()["health"]["findings"] if f["code"] == "COPIES_MISSING"], "health")[0]
        has(finding["text"], "step 7 of 2 ranks", "node b: to hold rank", "2 slots of 3.8 MiB", "the limit of this node is 8.0 MiB")
        equal(daemons["b"].held(), 0)
        all_must(ranks, "begin", 8, MEMORY, 1)
        all_must(ranks, "fence", 1)
        for answer in each(ranks, "wait", 1, REPLICATED, 200):
            has(answer.text, "not replicated after 200 ms", "copies on other nodes")


def alone_it_says_so_and_copies_when_somebody_comes():
    with loopback_cluster("ab") as daemons:
        daemons["b"].stop()
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=CAPTURED)
        until(lambda: "no other node is there to hold a copy" in str(daemons["a"].status()["health"]), "health")
        all_must(ranks, "begin", 8, MEMORY, 1)
        all_must(ranks, "fence", 1)
        for rank in ranks:
            rank.say("wait", 1, REPLICATED, DEADLINE * 1000)
        until(lambda: daemons["a"].job()["copies"]["step"] == 8 and not whole(daemons["a"]), "the copy is missing")
        daemons["b"].start()
        for rank in ranks:
            equal(rank.answer().code, 0)


def what_was_replicated_stays_until_a_newer_one_is():
    """Captured alone, a newer one would be lost with this node."""
    with loopback_cluster("ab") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        daemons["b"].stop()
        for step in (8, 9, 10):
            save(ranks, step, step, target=MEMORY, level=CAPTURED)
            # One that is being copied keeps its slot until that has failed: before, all three are in use.
            until(lambda step=step: in_memory(daemons["a"]) == {7, step}, f"7 and {step} are kept")
        daemons["b"].start()
        until(lambda: daemons["a"].job()["saves"]["replicated"]["step"] == 10, "the newest is copied")
        until(lambda: in_memory(daemons["a"]) == {10}, "the old one goes")


def they_go_with_the_job():
    with loopback_cluster("ab") as daemons:
        ranks = ranks_on(daemons["a"])
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        all_must(ranks, "close")
        for rank in ranks:
            rank.kill()
        until(lambda: not daemons["b"].held(), "b lets go of them")
        again = ranks_on(daemons["a"])  # of the same name
        save(again, 7, 3, target=MEMORY, level=REPLICATED)


def without_copies_nobody_waits_for_them():
    with loopback_cluster("ab", a=["--copies", 0]) as daemons:
        ranks = ranks_on(daemons["a"])
        all_must(ranks, "begin", 7, MEMORY, 0)
        all_must(ranks, "fence", 0)
        for answer in each(ranks, "wait", 0, REPLICATED, DEADLINE * 1000):
            has(answer.text, "no peers are configured")
        equal(daemons["a"].job()["copies"], None)
        equal(holders(daemons), [])


cases = Cases()
cases.run_beside([("a job's snapshot is copied to another node", a_jobs_snapshot_is_copied_to_another_node),
                  ("a lost copy is made anew elsewhere", a_lost_copy_is_made_anew_elsewhere),
                  ("where there is no room it is said with the sum", where_there_is_no_room_it_is_said_with_the_sum),
                  ("alone it says so and copies when somebody comes", alone_it_says_so_and_copies_when_somebody_comes),
                  ("what was replicated stays until a newer one is", what_was_replicated_stays_until_a_newer_one_is),
                  ("they go with the job", they_go_with_the_job),
                  ("without copies nobody waits for them", without_copies_nobody_waits_for_them)])
sys.exit(cases.end())
