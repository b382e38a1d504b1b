"""`ckpt rollback`: a job goes back to an earlier checkpoint, and nothing that happens then brings back what it gave up: neither the loss of all ranks, of
the daemon before anything new was saved, nor what stands in memory. Nothing is deleted, and nothing begins anew."""

import json
import subprocess
import sys

import single_node
from scripted_ranks import ESTALE, HEALTHY, LATEST, MEMORY, STORAGE, UNHEALTHY, VERIFIED, Puppet, all_must, gather, holds, roll_back, save
from single_node import BIN, DEADLINE, Cases, until
from tap import equal, has

WORLD, WAIT = 2, 30000


def puppets(d):
    ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
    gather(ranks)
    return ranks


def sees_it(ranks):
    for rank in ranks:
        until(lambda rank=rank: rank.ask("begin", 10**6, MEMORY, 5).code == ESTALE, f"rank {rank.number} is told")


def restores(ranks, step, holding=None):
    all_must(ranks, "join")
    for text in all_must(ranks, "restore", LATEST, WAIT):
        equal(text.split()[0], str(step))
    holds(ranks, holding or step)


def begins_anew(d, *lost):
    """All are killed: ranks, and the daemon."""
    for rank in lost:
        rank.kill()
    d.kill()
    d.start()
    return puppets(d)


def trained(d):
    d.start()
    ranks = puppets(d)
    for step in (1, 2, 3):
        save(ranks, step, step)
    save(ranks, 4, 4, MEMORY, 1)
    return ranks


def what_was_given_up_does_not_come_back():
    with single_node.daemon() as d:
        ranks = trained(d)
        text = roll_back(d, 2, "--reason", "the loss is NaN")
        equal(text, "main: in epoch 2 it goes on from step 2 of epoch 1, or an older one\n")
        sees_it(ranks)
        restores(ranks, 2)
        has(d.text(), "epoch 2: the job goes back to step 2 of epoch 1: the loss is NaN")
        for _ in range(2):  # nothing was saved since: neither memory nor storage has anything newer that counts
            ranks = begins_anew(d, *ranks)
            restores(ranks, 2)
        save(ranks, 3, 30)
        ranks = begins_anew(d, *ranks)
        restores(ranks, 3, holding=30)
        equal({(1, 1), (1, 2), (1, 3)} - set(d.committed()), set(), "it is still on storage")
        d.verify_all()


def what_memory_keeps_is_given_up_too():
    """The daemon lives on: only the ranks are lost."""
    with single_node.daemon() as d:
        ranks = trained(d)
        roll_back(d, 1)
        ranks[0].kill()
        ranks[0] = Puppet(d, 0, WORLD)
        for call in (("open",), ("table", 1000, 0)):
            ranks[0].must(*call)
        restores(ranks, 1)


def a_step_can_still_be_named():
    with single_node.daemon() as d:
        ranks = trained(d)
        roll_back(d, 1)
        all_must(ranks, "join")
        equal({text.split()[0] for text in all_must(ranks, "restore", 3, WAIT)}, {"3"})
        holds(ranks, 3)


def the_newest_healthy_one():
    with single_node.daemon() as d:
        ranks = trained(d)
        has(roll_back(d, "healthy", code=22), "there is no intact checkpoint", "that the training called healthy")
        all_must(ranks, "mark", 1, 0, 1)
        until(lambda: "healthy" in listed(d), "the mark is on storage")
        roll_back(d, "healthy")
        restores(ranks, 1)


def forget(d, *what):
    subprocess.run([BIN / "ckpt", "forget", "--repo", d.store, "--job", "main", *what], check=True, capture_output=True, timeout=DEADLINE)


def listed(d):
    return subprocess.run([BIN / "ckpt", "list", "--repo", d.store], capture_output=True, text=True, timeout=DEADLINE).stdout


def nothing_as_old_is_left():
    """Retention, or a person, has removed it: the newest is better than to begin anew."""
    with single_node.daemon() as d:
        ranks = trained(d)
        roll_back(d, 1)
        for rank in ranks:
            rank.kill()
        d.kill()
        forget(d, "1", "--force")  # it is the newest that counts
        d.start()
        ranks = puppets(d)
        restores(ranks, 3)
        has(d.text(), "passed over: the job went back to step 1 of epoch 1, and nothing intact is left that is as old")


def retention_leaves_what_counts():
    """Of two that it leaves one was given up. That one takes nobody's place: so when what was saved since is damaged, the job goes on from where it
    went back to."""
    with single_node.daemon() as d:
        ranks = trained(d)
        roll_back(d, 2)
        restores(ranks, 2)
        save(ranks, 4, 40, STORAGE, VERIFIED)
        for rank in ranks:
            rank.kill()
        d.kill()
        forget(d, "--keep-last", "2")
        equal(set(d.committed()), {(1, 2), (1, 3), (2, 4)})
        for file in d.store.glob("main/step-*4.e0002/*.safetensors"):
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)
        d.start()
        restores(puppets(d), 2)


def what_cannot_be_done_is_refused():
    with single_node.daemon() as d:
        ranks = trained(d)
        has(roll_back(d, 9, code=1), "there is no checkpoint 9")
        ranks[0].kill()
        until(lambda: d.job()["epoch"] == 2, "the epoch is raised")
        has(roll_back(d, 1, code=1), "are just entering an epoch")
        ranks[1].kill()
        d.kill()
        roll_back(d, 1, code=12)


def by_json():
    with single_node.daemon() as d:
        trained(d)
        document = json.loads(roll_back(d, 2, "--json"))
        equal({key: document[key] for key in ("job", "step", "epoch", "began")}, {"job": "main", "step": 2, "epoch": 1, "began": 2})


def goes_back_by_policy(d, ranks, epoch, step):
    """The loss of step 10 is no number, on one rank."""
    ranks[0].must("loss", 10, 2500)
    ranks[1].must("loss", 10, -1)
    until(lambda: d.job()["epoch"] == epoch, f"epoch {epoch}")
    sees_it(ranks)
    restores(ranks, step)


def policy():
    return single_node.daemon(options=("--loss-policy", "rollback"))


def a_loss_that_is_no_number_leads_back_further_each_time_and_then_ends_the_job():
    with policy() as d:
        d.start()
        ranks = puppets(d)
        for step in (3, 6, 9):
            save(ranks, step, step)
        goes_back_by_policy(d, ranks, 2, 6)  # the state of step 9 may be what made it
        has(d.text(), "epoch 2: the job goes back to step 8 of epoch 1: the loss of step 10 is NaN, as rank 1 says")
        goes_back_by_policy(d, ranks, 3, 3)
        ranks[1].must("loss", 10, -1)
        until(lambda: d.job()["stopping"], "it is asked to end")
        has(d.text(), "it is asked to end, since it went back for this twice and it came again, as its loss-policy says")
        equal(d.job()["epoch"], 3)


def policy_takes_what_training_marked_healthy():
    with policy() as d:
        d.start()
        ranks = puppets(d)
        for step in (3, 5, 6):
            save(ranks, step, step)
        all_must(ranks, "mark", 3, 0, HEALTHY)
        all_must(ranks, "mark", 5, 0, UNHEALTHY)
        goes_back_by_policy(d, ranks, 2, 3)


def with_nothing_to_go_back_to_the_job_ends():
    with policy() as d:
        d.start()
        ranks = puppets(d)
        ranks[0].must("loss", 1, -1)
        until(lambda: d.job()["stopping"], "it is asked to end")
        has(d.text(), "it is asked to end, since there is nothing to go back to, as its loss-policy says")


def main():
    cases = Cases()
    for test in (what_was_given_up_does_not_come_back, what_memory_keeps_is_given_up_too, a_step_can_still_be_named, the_newest_healthy_one,
                 nothing_as_old_is_left, retention_leaves_what_counts, what_cannot_be_done_is_refused, by_json,
                 a_loss_that_is_no_number_leads_back_further_each_time_and_then_ends_the_job, policy_takes_what_training_marked_healthy,
                 with_nothing_to_go_back_to_the_job_ends):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
