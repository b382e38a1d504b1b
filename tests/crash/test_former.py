"""Ranks come that do not fit what former ones have left in memory, more or fewer of them, or with other tables: they get the newest state from
there, or are told why not; it is never dropped in silence, and nobody begins at step 0 instead.
timeout: 600"""

import os
import sys
import time

import single_node
from single_node import Cases, expect, until
from service_manager import Managed
from scripted_ranks import CAPTURED, DURABLE, LATEST, LATEST_HEALTHY, MEMORY, STORAGE, HEALTHY, Puppet, Run, all_must, each, gather, save

LINGER_MS = (1000, 5000, 30000)
ELEMENTS = 1200  # of the whole tensor: divisible by 1, 3, 4, 5 and 8
NAME, DTYPE, MORE, ORDER, SMALL, LARGE = 1, 2, 3, 4, 5, 6
INVALID, NO_MEMORY, BUSY, NOTHING, NOT_THAT = -22, -12, -16, -2, -61


def begin(d, world, other=0, elements=ELEMENTS, pending=False):
    """All ranks up to the join; `pending`: their answers to that."""
    ranks = [Puppet(d, number, world) for number in range(world)]
    all_must(ranks, "open")
    all_must(ranks, "table", elements // world, 0, other)
    if pending:
        return ranks, each(ranks, "join", 5000)
    all_must(ranks, "join")
    return ranks


def keep(ranks, step, value, target=MEMORY, level=CAPTURED, n=0):
    """A save of what shows where it came from."""
    all_must(ranks, "fill", value)
    for call in (("begin", step, target, n), ("fence", n), ("wait", n, level, single_node.DEADLINE * 1000), ("drop", n)):
        all_must(ranks, *call)


def kill(ranks):
    for rank in ranks:
        rank.kill()


def restored(ranks, step, value, source="memory", epoch=1):
    for said in all_must(ranks, "restore", LATEST, 0):
        expect(said == f"{step} {epoch} {source}", "restored", said, "and not step", step)
    all_must(ranks, "check", value)


def refused(ranks, *parts, code=INVALID):
    """Every rank is told, both sides named."""
    for answer in each(ranks, "restore", LATEST, 0):
        expect(answer.code == code and all(part in answer.text for part in parts), answer)


def left(d, world, store=True):
    """A life that saved steps 1 to 5 to memory, an older one to storage where there is one, and was killed."""
    d.start()
    ranks = begin(d, world)
    if store:
        keep(ranks, 1, 100, STORAGE, DURABLE)
    for step in range(2, 6):
        keep(ranks, step, 100 * step)
    kill(ranks)


def other_world(before, after, store):
    with single_node.daemon(store=store) as d:
        left(d, before, store)
        ranks = begin(d, after)
        restored(ranks, 5, 500)
        until(lambda: "is let go: the job has gone on" in d.text(), "the old arenas are let go")
        keep(ranks, 6, 600)
        epoch = epoch_of(ranks)
        kill(ranks)
        restored(begin(d, before), 6, 600, epoch=epoch)


def epoch_of(ranks):
    return ranks[0].ask("epoch").code


def while_it_is_being_checked():
    """The last save was not known to be complete when its ranks died."""
    with single_node.daemon() as d:
        d.start(failpoints="snapshot.state=delay:300")
        ranks = begin(d, 4)
        keep(ranks, 1, 100, STORAGE, DURABLE)
        all_must(ranks, "fill", 200)
        all_must(ranks, "begin", 2, MEMORY, 0)
        all_must(ranks, "fence", 0)
        kill(ranks)
        restored(begin(d, 3), 2, 200)


def dies_before_its_restore():
    """What is left stays until somebody has it."""
    with single_node.daemon(store=False) as d:
        left(d, 4, store=False)
        kill(begin(d, 3))
        ranks = begin(d, 5)
        kill(ranks[:2])
        kill(ranks)
        ranks = begin(d, 4)
        expect("is theirs again" in d.text(), "the first arenas are not used again")
        restored(ranks, 5, 500)


def says_goodbye_before_its_restore():
    with single_node.daemon(store=False) as d:
        left(d, 4, store=False)
        ranks = begin(d, 3)
        all_must(ranks, "close")
        kill(ranks)
        restored(begin(d, 1), 5, 500)


def left_again(d):
    """The daemon has seen that nobody is there any more."""
    until(lambda: "it is kept for" in d.text() or "job main: ended" in d.text(), "their goodbye is noticed")


def the_same_ranks_say_goodbye(step):
    """They fit the arenas, and have not gone on from there: nothing was restored, or it was refused. The next ones may come later."""
    with single_node.daemon() as d:
        left(d, 2)
        ranks = begin(d, 2)
        if step:
            for answer in each(ranks, "restore", step, 0):
                expect(answer.code == NOT_THAT, answer)
        all_must(ranks, "close")
        kill(ranks)
        left_again(d)
        expect("without going on from step 5 of epoch 1, in memory only" in d.text(), d.text()[-2000:])
        restored(begin(d, 2), 5, 500)


def they_have_gone_on():
    """Then their goodbye is one: nothing is kept of what they have restored."""
    with single_node.daemon() as d:
        left(d, 2)
        ranks = begin(d, 2)
        restored(ranks, 5, 500)
        all_must(ranks, "close")
        kill(ranks)
        left_again(d)
        expect("it is kept for" not in d.text(), d.text()[-2000:])
        restored(begin(d, 2), 1, 100, "storage")


def a_store_that_is_newer():
    with single_node.daemon() as d:
        left(d, 4)
        ranks = begin(d, 3)
        keep(ranks, 2, 1000, STORAGE, DURABLE)
        second = epoch_of(ranks)
        expect(second > 1, "an epoch is used twice")
        kill(ranks)
        restored(begin(d, 1), 2, 1000, epoch=second)


def an_older_one_is_asked_for():
    """By its step; the newest stays until the ranks have gone on from there."""
    with single_node.daemon() as d:
        left(d, 4)
        ranks = begin(d, 3)
        expect(all_must(ranks, "restore", 1, 0)[0] == "1 1 storage", "step 1 is not restored")
        all_must(ranks, "check", 100)
        kill(ranks)
        restored(begin(d, 1), 5, 500)


def one_that_was_marked():
    with single_node.daemon(store=False) as d:
        d.start()
        ranks = begin(d, 4)
        keep(ranks, 3, 300)
        ranks[0].must("mark", 3, 1, HEALTHY)
        kill(ranks)
        ranks = begin(d, 3)
        expect(all_must(ranks, "restore", LATEST_HEALTHY, 0)[0] == "3 1 memory", "what was said of it is lost")
        all_must(ranks, "check", 300)


def no_room(options):
    """Without a store old and new arenas do not fit: refused with the arithmetic, and still there for those that do."""
    with single_node.daemon(store=False, options=options) as d:
        left(d, 4, store=False)
        ranks, answers = begin(d, 3, pending=True)
        for answer in answers:
            expect(answer.code == NO_MEMORY and "step 5 of epoch 1, left in memory by a world of 4" in answer.text, answer)
        kill(ranks)
        restored(begin(d, 4), 5, 500)


def no_room_beside_a_store():
    """It goes to storage first, and the memory is free."""
    with single_node.daemon(options=["--memory-limit", LIMIT]) as d:
        left(d, 4)
        ranks = begin(d, 3)
        restored(ranks, 5, 500, "storage")
        expect((1, 5) in d.committed(), d.committed())


LIMIT = "26M"  # each arena is one huge page of the kernel or two: there is room for those of 4 ranks, not of 7


# ---- other tables


def other_table(store, other, parts, first=0, elements=ELEMENTS):
    with single_node.daemon(store=store) as d:
        d.start()
        ranks = begin(d, 2, first)
        keep(ranks, 5, 500)
        kill(ranks)
        ranks = begin(d, 2, other, elements)
        refused(ranks, "step 5 epoch 1", *parts)
        all_must(ranks, "close")
        kill(ranks)
        ranks = begin(d, 2, first)
        expect("is theirs again" in d.text(), "the old arenas are not used again")
        restored(ranks, 5, 500)
        keep(ranks, 6, 600)


def begins_all_the_same():
    """It pays no heed to the refusal, and saves: what was left stays all the same."""
    with single_node.daemon(store=False) as d:
        d.start()
        ranks = begin(d, 2)
        keep(ranks, 5, 500)
        kill(ranks)
        ranks = begin(d, 2, NAME)
        refused(ranks, "tensor v")
        all_must(ranks, "join")
        keep(ranks, 1, 100)
        second = epoch_of(ranks)
        expect("is let go" not in d.text(), d.text()[-2000:])
        kill(ranks)
        ranks = begin(d, 2)
        refused(ranks, "tensor w", f"step 1 epoch {second}")
        expect(all_must(ranks, "restore", 5, 0)[0] == "5 1 memory", "step 5 is lost")
        all_must(ranks, "check", 500)
        kill(ranks)
        restored(begin(d, 2, NAME), 1, 100, epoch=second)


def none_of_it_is_healthy():
    """That is no fresh start."""
    with single_node.daemon(store=False) as d:
        d.start()
        ranks = begin(d, 2)
        keep(ranks, 5, 500)
        kill(ranks)
        ranks = begin(d, 2, NAME)
        for answer in each(ranks, "restore", LATEST_HEALTHY, 0):
            expect(answer.code == NOT_THAT and "none that was marked healthy" in answer.text, answer)


def it_is_being_read_back():
    """For longer than the second ranks live, out of storage; meanwhile the first ones go on in their arenas."""
    with single_node.daemon(options=["--job-read-bandwidth", "64K"]) as d:
        d.start()
        ranks = begin(d, 2, elements=400000)
        keep(ranks, 5, 500, STORAGE, DURABLE)
        kill(ranks)
        ranks = begin(d, 2, NAME, elements=400000)
        refused(ranks, "tensor v")
        kill(ranks)
        restored(begin(d, 2, elements=400000), 5, 500)
        expect("verified" not in d.text(), "it was not slow")


def a_tensor_less(store, target, level):
    """As from storage: it is not asked for. What these ranks have restored is less than the step, which others find whole."""
    with single_node.daemon(store=store) as d:
        d.start()
        ranks = begin(d, 2, MORE)
        keep(ranks, 5, 500, target, level)
        kill(ranks)
        for _ in range(2):
            ranks = begin(d, 2)
            restored(ranks, 5, 500)
            kill(ranks)
        if store:
            code, _, err = d.ckpt("flush", "--job", "main", "--socket", d.socket)
            expect(code and "register less than was saved" in err, code, err)
        ranks = begin(d, 2, MORE)
        restored(ranks, 5, 500)
        kill(ranks)
        ranks = begin(d, 2)
        restored(ranks, 5, 500)
        keep(ranks, 6, 600)
        until(lambda: "step 5 of epoch 1, left in memory by a world of 2" in d.text() and "is let go: the job has gone on" in d.text(),
              "it is let go for something newer")


def less_out_of_a_store():
    """The same where no memory has the rest, and the daemon that knew so has been killed."""
    with single_node.daemon() as d:
        d.start()
        ranks = begin(d, 2, MORE)
        keep(ranks, 5, 500, STORAGE, DURABLE)
        kill(ranks)
        d.kill()
        d.start()
        ranks = begin(d, 2)
        restored(ranks, 5, 500, "storage")
        d.kill()
        d.start()
        until(lambda: d.text().count(" is back\n") >= 2, "the arenas are back")
        kill(ranks)
        restored(begin(d, 2, MORE), 5, 500, "storage")


def other_parts():
    """The same tensors, divided otherwise."""
    with single_node.daemon(store=False) as d:
        d.start()
        ranks = begin(d, 4)
        keep(ranks, 5, 500)
        kill(ranks)
        restored(begin(d, 4, ORDER), 5, 500)


# ---- it comes to an end


def after_linger():
    for linger_ms in LINGER_MS:  # on a busy machine it may be over before the others have come
        if after(linger_ms):
            return
    expect(False, f"nobody comes within {LINGER_MS} ms")


def after(linger_ms):
    """False: nobody came while it lasted, or perhaps nobody."""
    with single_node.daemon(store=False, options=["--linger", f"{linger_ms}ms"]) as d:
        d.start()
        ranks = begin(d, 4)
        keep(ranks, 5, 500)
        began = time.monotonic()
        kill(ranks)
        ranks = begin(d, 3)
        if time.monotonic() - began >= linger_ms / 1000:
            return False
        kill(ranks)
        until(lambda: "step 5 of epoch 1, left in memory by a world of 4, is let go: nobody has come for it" in d.text(), "it is said that it is lost")
        ranks = begin(d, 3)
        for answer in each(ranks, "restore", LATEST, 0):
            expect(answer.code == NOTHING, answer)
        return True


def restart(d, ranks):
    """Daemon and ranks die at once; the service manager holds the arenas."""
    kill(ranks)
    d.kill()
    d.passed = d.held()
    d.start()


def daemon_dies_too(other):
    """Twice: before others have come, and when they are there and have not restored."""
    with single_node.daemon(kind=Managed, store=False) as d:
        d.start()
        ranks = begin(d, 4)
        keep(ranks, 5, 500)
        until(lambda: len(d.held()) == 4, "the arenas are held")
        restart(d, ranks)
        ranks = begin(d, 4 if other else 3, other)
        restart(d, ranks)
        ranks = begin(d, 4 if other else 3, other)
        if other:
            refused(ranks, "tensor v")
            kill(ranks)
            ranks = begin(d, 4)
        restored(ranks, 5, 500)
        until(lambda: len(d.held()) == len(ranks), "the arenas of the new ranks are held")
        keep(ranks, 6, 600)
        epoch = epoch_of(ranks)
        restart(d, ranks)
        restored(begin(d, len(ranks)), 6, 600, epoch=epoch)


def a_launcher():
    with single_node.daemon() as d:
        d.start()
        run = Run(d, 4, store=False)
        ranks = run.ranks()
        all_must(ranks, "open")
        all_must(ranks, "table", ELEMENTS // 4)
        all_must(ranks, "join")
        keep(ranks, 5, 500)
        run.kill()
        for number in range(4):
            os.unlink(d.top / f"in{number}")
            os.unlink(d.top / f"life{number}")
        run = Run(d, 3, store=False)
        ranks = run.ranks()
        all_must(ranks, "open")
        all_must(ranks, "table", ELEMENTS // 3)
        all_must(ranks, "join")
        restored(ranks, 5, 500)


def main():
    cases = Cases()
    for store in (True, False):
        for before, after in ((4, 3), (4, 1), (4, 8), (1, 4)):
            cases.run(f"{before} ranks, then {after}, {'with' if store else 'without'} a store", other_world, before, after, store)
    for test in (while_it_is_being_checked, dies_before_its_restore, says_goodbye_before_its_restore, a_store_that_is_newer,
                 an_older_one_is_asked_for, one_that_was_marked, no_room_beside_a_store):
        cases.run(test.__name__.replace("_", " "), test)
    cases.run("no room on the node", no_room, ["--memory-limit", LIMIT])
    for store in (True, False):
        what = "with" if store else "without"
        cases.run(f"another name, {what} a store", other_table, store, NAME, ["tensor v"])
        cases.run(f"another dtype, {what} a store", other_table, store, DTYPE, ["wants I32 [1200]", "has F32 [1200]"])
        cases.run(f"another shape, {what} a store", other_table, store, 0, ["wants F32 [1400]", "has F32 [1200]"], 0, 1400)
        cases.run(f"one tensor more, {what} a store", other_table, store, MORE, ["tensor more"])
        cases.run(f"another blob, {what} a store", other_table, store, LARGE, ["[200]", "[100]"], SMALL)
    cases.run("the same ranks say goodbye, and have restored nothing", the_same_ranks_say_goodbye, None)
    cases.run("the same ranks say goodbye, and were refused", the_same_ranks_say_goodbye, LATEST_HEALTHY)
    cases.run("the same ranks say goodbye, and have gone on", they_have_gone_on)
    cases.run("the daemon dies, too: another world", daemon_dies_too, 0)
    cases.run("the daemon dies, too: another table", daemon_dies_too, NAME)
    cases.run("a tensor less, in memory", a_tensor_less, False, MEMORY, CAPTURED)
    cases.run("a tensor less, in memory beside a store", a_tensor_less, True, MEMORY, CAPTURED)
    for test in (begins_all_the_same, none_of_it_is_healthy, it_is_being_read_back, less_out_of_a_store, other_parts, after_linger, a_launcher):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
