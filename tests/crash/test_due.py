"""Due saves: two ranks of a job that are asked which steps are to be saved are told the same for each step, however far one is ahead, whichever
daemon answers, and wherever the last one was killed. After a loss saves are due more often."""

import signal
import sys

import single_node
from scripted_ranks import CAPTURED, LATEST, MEMORY, STORAGE, Puppet, all_must, each, gather, save
from single_node import Cases, expect, until
from tap import equal

ESTALE, EOPNOTSUPP, ENOTCONN = -116, -95, -107
DUE_STORAGE = 2

cases = Cases()
case = cases.case


def puppets(d, world=2):
    return [Puppet(d, number, world) for number in range(world)]


def daemon(*options):
    return single_node.daemon(options=("--interval", "auto", *options))


def due(rank, step):
    """What is due at the step; None: it has no answer."""
    answer = rank.ask("due", step)
    expect(answer.code >= 0 or answer.code == ENOTCONN, f"rank {rank.number}:", answer)
    return answer.code if answer.code >= 0 else None


def alike(told):
    """told: {step: answer} of each rank."""
    both = set(told[0]) & set(told[1])
    expect(both, "no step was asked for by both")
    differ = {step: (told[0][step], told[1][step]) for step in both if told[0][step] != told[1][step]}
    expect(not differ, "the ranks are told different things:", differ)
    return [step for step in sorted(both) if told[0][step]]


def answered(rank, steps):
    return {step: told for step in steps if (told := due(rank, step)) is not None}


def train(ranks, steps, told):
    """All ranks ask for each step, and save what is due."""
    for step in steps:
        answers = each(ranks, "due", step)
        expect(len({a.code for a in answers}) == 1 and answers[0].code >= 0, answers)
        told[step] = answers[0].code
        if answers[0].code:
            all_must(ranks, "slot", single_node.DEADLINE * 1000)
            save(ranks, step, step, STORAGE if answers[0].code & DUE_STORAGE else MEMORY, CAPTURED)


def train_until(d, ranks, step, told, enough):
    """From this step on; the next one."""
    last = step + 5000
    while not enough(d.job()["interval"] or {"memory": {"decided_by": "start", "losses": 0}}):
        expect(step < last, d.job()["interval"])
        train(ranks, range(step, step + 8), told)
        step += 8
    return step


@case("a rank that is behind is told what the one ahead was told")
def _():
    with daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        told = [{}, {}]
        for turn in range(6):
            ahead, behind = turn % 2, 1 - turn % 2
            steps = range(1 + 30 * turn, 31 + 30 * turn)
            ranks[behind].signal(signal.SIGSTOP)
            told[ahead].update(answered(ranks[ahead], steps))
            ranks[behind].signal(signal.SIGCONT)
            told[behind].update(answered(ranks[behind], steps))
        equal([len(t) for t in told], [180, 180])
        equal(alike(told)[:4], [4, 8, 12, 16])  # nothing is measured


def killed_at(point):
    """The daemon dies while it tells the ranks; the next one knows what they were told."""
    with daemon() as d:
        d.start(failpoints=point)
        ranks = puppets(d)
        gather(ranks)
        told = [answered(r, range(1, 9)) if d.alive() else {} for r in ranks]
        step = 9
        while d.alive() and step < 40:  # two schedules
            for r, t in zip(ranks, told):
                t.update(answered(r, [step]))
            step += 1
        until(lambda: not d.alive(), f"the daemon dies at {point}")
        d.start()
        until(lambda: [r["state"] for r in (d.answers() and d.job() or {}).get("ranks", [])] == ["joined"] * 2, "the ranks are back")
        for r, t in zip(ranks, told):
            again = answered(r, range(max(1, step - 20), step + 100))
            expect(all(t.get(s, due) == due for s, due in again.items()), point, "a rank is told something else than before")
            t.update(again)
        alike(told)
        equal(d.job()["epoch"], 1)


@case("a daemon that is killed when it has told one of two ranks of the first schedule, or of a later one")
def _():
    for point in ("job.schedule=kill@1", "job.schedule=kill@2", "job.schedule=kill@3", "job.schedule=kill@4"):
        killed_at(point)


@case("after losses saves are due more often, and the status says why")
def _():
    with daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        told = {}
        step = train_until(d, ranks, 1, told, lambda i: i["memory"]["decided_by"] != "start")
        before = d.job()["interval"]
        equal([before["memory"][k] for k in ("cost_from", "mtbf_from", "losses")], ["measured", "default", 0])
        expect(before["memory"]["every"] > 40, before)
        ranks[1].kill()
        until(lambda: ranks[0].ask("due", step).code == ESTALE, "the loss is told")
        ranks[1] = Puppet(d, 1, 2)
        for call in (("open",), ("table", 1000, 0)):
            ranks[1].must(*call)
        all_must(ranks, "join")
        at = {int(text.split()[0]) for text in all_must(ranks, "restore", LATEST)}
        equal(len(at), 1)
        train_until(d, ranks, at.pop() + 1, told, lambda i: i["memory"]["losses"] == 1)
        after = d.job()["interval"]
        equal([after["memory"][k] for k in ("cost_from", "mtbf_from", "losses")], ["measured", "measured", 1])
        expect(after["memory"]["every"] < before["memory"]["every"], before, after)
        expect(after["memory"]["mtbf_s"] < 600, after)


@case("where the interval is not automatic all are told that")
def _():
    with single_node.daemon() as d:
        d.start()
        ranks = puppets(d)
        gather(ranks)
        for step in (1, 30, 100):
            equal([a.code for a in each(ranks, "due", step)], [EOPNOTSUPP] * 2)


sys.exit(cases.end())
