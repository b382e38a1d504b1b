"""What was acknowledged to a job, and what may become of it.

What stays, whatever the next programs of the job register and however the runs end:
  - what was durable: in its store for ever, but for what the retention of the settings in force gives up. That is never the newest of all, nor the
    newest before a run that began without restoring it (as many as keep-last says, one at least);
  - what was captured: in memory, until something newer of the job is captured, its ranks have all said goodbye after they had gone on from
    something, or the daemon is lost together with all ranks.
So a restore of the newest gives the newest of these or something newer that was begun, bit by bit; or it is refused, and says how the two tables
contradict each other. Only a job of which nothing was ever saved there begins afresh."""

import dataclasses
import errno
import os

from programs import Program, contradiction
from tap import expect

CAPTURED, REPLICATED, DURABLE = 1, 2, 3
LATEST, HEALTHY = -1, -2


@dataclasses.dataclass(eq=False)
class Save:
    epoch: int
    step: int
    salt: int
    program: Program
    life: int  # of the memory that it is in
    store: str = ""  # that its daemon has; what was for memory may be written there, too, in place of what gave way to it
    level: int = 0
    stays: bool = False  # it was durable, and no retention has given it up
    healthy: bool = False
    copied: bool = False  # it was replicated, and no node is lost since
    for_storage: bool = False
    passed: bool = False  # by persist-every
    began: int = 0  # the epoch in which its state began without a restore from storage
    foreign: bool = False  # its manifest is of a version to come

    @property
    def key(self):
        return self.epoch, self.step

    def __str__(self):
        where = "durable" if self.stays else "in memory" if self.level >= CAPTURED else "begun"
        return f"step {self.step} of epoch {self.epoch} ({where}, by {self.program.world} ranks)"


def newest(saves):
    return max(saves, key=lambda save: save.key, default=None)


def check_sentence(answer, what):
    bare = {os.strerror(-answer.code).lower(), errno.errorcode.get(-answer.code, "").lower(), ""}
    expect(answer.text.strip().lower() not in bare and len(answer.text.strip()) > 12,
           f"{what}: {answer.code} has no sentence of its own: {answer.text!r}")


class Ledger:
    """One job of a pair."""

    def __init__(self):
        self.saves = []
        self.life, self.salt = 1, 0
        self.lives = {1}  # of memory that may yet be there
        self.left = None  # in memory, by ranks whose arenas the present ones cannot use: kept beside what these save

    # ---- what happens

    def begin_save(self, epoch, step, program, store, began):
        self.salt += 1
        save = Save(epoch, step, self.salt, program, self.life, store, began=began)
        self.saves.append(save)
        return save

    def acknowledge(self, level, step, epoch):
        for save in self.saves:
            if save.key == (epoch, step) and save.life == self.life:
                save.level = max(save.level, level)
                save.stays = save.stays or level >= DURABLE
                save.copied = save.copied or level == REPLICATED

    def begins_afresh(self, program):
        """It has not restored, and may save."""
        memory = newest(self.captured())
        if memory and (memory.program.world, memory.program.variables, sorted(map(repr, memory.program.entries))) != \
                (program.world, program.variables, sorted(map(repr, program.entries))):
            self.left = memory

    def goes_on(self, restored):
        """It has captured something."""
        self.left = None if restored else self.left

    def arenas_only(self, program, saves):
        """Of memory nothing is left but what the ranks of this program hold: these saves, as far as it registers them."""
        self.memory_is_gone()
        for save in saves:
            if save.life + 1 == self.life:
                save.life = self.life
                save.program = save.program if save.stays else program

    def memory_is_gone(self, surely=True):
        """Or it goes, and is there for somebody who comes at once."""
        self.life, self.left = self.life + 1, None
        self.lives = {self.life} | (set() if surely else self.lives)

    def node_is_lost(self, in_line):
        """With what was in its memory: what was replicated stays, once. in_line: whether the job has gone on from that save, or made it."""
        copied = newest(save for save in self.captured() if save.copied and in_line(save))
        self.memory_is_gone(surely=False)
        if copied:
            copied.life = self.life
        self.copies_are_gone()

    def copies_are_gone(self):
        for save in self.saves:
            save.copied = False

    # ---- what is there

    def captured(self):
        return [save for save in self.saves if save.life == self.life and save.level >= CAPTURED]

    def in_memory(self):
        """Whether something may be there."""
        return any(save.life in self.lives for save in self.saves)

    def promised(self, store):
        """Of memory the newest alone: it takes the place of those before it."""
        memory = {newest(self.captured()), self.left} - {None}
        return {save for save in self.saves if save.store == store and store and save.stays} | memory

    def possible(self, store):
        return [save for save in self.saves if save.life in self.lives or (store and save.store == store)]

    def surely(self, save):
        """No later one, of which nobody was told, has taken its place in memory."""
        def takes_its_place(other):
            return other.key > save.key and other.life == save.life and not other.level and (save != self.left or other.epoch == save.epoch)

        return save.stays or not any(map(takes_its_place, self.saves))

    def candidates(self, store, asked):
        """What a restore may find: what was promised and is newest, and what is newer than that and was begun."""
        def wanted(save):
            return asked == LATEST or (save.healthy if asked == HEALTHY else save.step == asked)

        promised = newest(save for save in self.promised(store) if wanted(save) and (asked == LATEST or self.surely(save)))
        others = [save for save in self.possible(store) if wanted(save) and (not promised or save.key > promised.key)]
        return promised, others

    # ---- what a restore says

    def judge(self, answers, program, store, asked, on_disk):
        """The save that was restored; None: it was refused, as it may be."""
        promised, others = self.candidates(store, asked)
        codes = {answer.code for answer in answers}
        expect(len(codes) == 1, f"the ranks disagree: {[(a.code, a.text) for a in answers]}; expected {promised}")
        answer = answers[0]
        if answer.code == 0:
            return self.judge_step(answers, program, promised, others)
        for each in answers:
            check_sentence(each, "restore")
        self.judge_refusal(answer, program, store, (promised, others), on_disk)
        return None

    def judge_step(self, answers, program, promised, others):
        said = {tuple(answer.text.split()[:2]) for answer in answers}
        expect(len(said) == 1, f"the ranks restored {said}")
        step, epoch = map(int, said.pop())
        found = [save for save in [promised, *others] if save and save.key == (epoch, step)] or self.find_written(epoch, step, program)
        expect(found, f"restored is step {step} of epoch {epoch} ({answers[0].text}), promised was {promised or 'nothing'}")
        wrong = contradiction(found[0].program, program)
        expect(not wrong, f"{found[0]} was restored although {wrong}")
        return found[0]

    def find_written(self, epoch, step, program):
        """What was in the memory of nodes, and was written before another world came, is there as one of the epoch after."""
        apart = [save for save in self.saves if save.step == step and save.key < (epoch, step) and save.level and save.program.where]
        written = newest(apart)
        if not written or any(save.key > written.key and save.level for save in self.captured()):
            return []
        self.saves.append(dataclasses.replace(written, epoch=epoch, stays=bool(written.store), life=0))
        return self.saves[-1:]

    def judge_refusal(self, answer, program, store, found, on_disk):
        said, (promised, others) = f"{answer.code} {answer.text!r}", found
        if answer.code == -errno.ENOENT:
            there = newest(self.promised(store))
            expect(not there and not on_disk, f"a fresh start, {said}, but promised is {there}, in the store are {on_disk}")
            return
        if answer.code == -errno.ENODATA:
            expect(not promised, f"{said}, but promised is {promised}")
            return
        candidates = [save for save in [promised, *others] if save]
        if any(save.foreign for save in self.possible(store)):
            return
        if any(self.is_elsewhere(answer, save, program) for save in candidates):
            return
        expect(answer.code == -errno.EINVAL, f"refused: {said}; promised is {promised}")
        words = [row for save in candidates for row in contradiction(save.program, program) or []]
        expect(words, f"refused: {said}; but nothing contradicts {promised}")
        expect(any(all(word in answer.text.replace(" ", "") or word in answer.text for word in row) for row in words),
               f"refused: {said}: none of {words} is named")

    @staticmethod
    def is_elsewhere(answer, save, program):
        """On several nodes what is in memory only fits ranks in the same places with the same tables. Others are refused."""
        apart = save.program.where and (save.program.where, save.program.entries) != (program.where, program.entries)
        words = ("in memory of other nodes only, as copies of", "is not in this node's part of step", "are not in this node's memory of step")
        return apart and answer.code == -errno.EINVAL and any(word in answer.text for word in words) and f"step {save.step} " in answer.text

    # ---- what may go

    def kept(self, settings, store, items):
        """Of these keys, all that are in the store, those that must stay by its rules."""
        items = sorted(items)
        last, every = settings.get("keep-last", 0), settings.get("keep-every", 0)
        if not any(name.startswith("keep-") and settings[name] for name in settings):
            return set(items)
        keep = set(items[-1:]) | set(items[len(items) - last:] if last else [])
        keep |= {key for key in items if every and key[1] % every == 0
                 and not any(other[1] == key[1] and other > key for other in items)}
        keep |= {save.key for save in self.saves if save.store == store and save.foreign and save.key in items}
        healthy = newest(save for save in self.saves if save.store == store and save.healthy and save.stays)
        keep |= {healthy.key} if healthy else set()
        began = {save.key: save.began for save in self.saves if save.store == store}
        for epoch in set(began.values()) - {0}:
            earlier = [key for key in items if key[0] < epoch]
            of_run = [key for key in items if began.get(key) == epoch]
            keep |= set(earlier[-max(last, 1):] + of_run[-1:] if earlier and of_run else ())
        return keep

    def retain(self, settings, store, on_disk):
        """Retention may have been at work under these settings."""
        mine = {save.key for save in self.saves if save.store == store and save.stays}
        keep = self.kept(settings, store, mine | set(on_disk))
        for save in self.saves:
            if save.store == store and save.stays and save.key not in keep:
                save.stays = False

    def lost(self, store, on_disk):
        return ", ".join(str(save) for save in self.saves if save.store == store and save.stays and save.key not in on_disk)
