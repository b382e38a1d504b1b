"""Plays a pair: one run after another, each held against what was acknowledged."""

import re

import generator
import oracle
import tampering
from actors import Ranks, Service
from ends import Ends
from tap import Failure, expect, until

EBUSY, EOPNOTSUPP, ENOMEM, ENODATA, ESTALE = -16, -95, -12, -61, -116
REJOINS = 3
TIGHT = "3M"


class Play(Ends):
    """One pair, run after run."""

    def __init__(self, pair, top, tell):
        self.pair, self.top, self.tell, self.rng = pair, top, tell, pair.rng
        self.service = self.make_service()
        self.jobs = {}
        self.store = None  # of the daemon that runs

    # ---- the daemon and its store

    def make_service(self):
        return Service(self.top)

    def path(self, store):
        return self.top / f"store-{store}"

    def config(self, run):
        node = [f"memory-limit = {TIGHT}"] if run.settings.get("memory-limit") else []
        node += [f"store = {self.path(run.store)}"] if run.store else []
        job = [f"{name} = {value}" for name, value in run.settings.items() if name != "memory-limit"]
        return "\n".join(["[node]", *node, "[job]", *job]) + "\n"

    def on_disk(self, job, store):
        """The keys of the committed checkpoints."""
        found = (re.fullmatch(r"step-(\d+)\.e(\d+)", path.parent.name) for path in self.path(store).glob(f"{job}/step-*/MANIFEST.json"))
        return {(int(m.group(2)), int(m.group(1))) for m in found if m} if store else set()

    def memory_is_gone(self, but=None):
        for ledger in self.jobs.values():
            if ledger is not but:
                ledger.memory_is_gone()

    def stop(self):
        if self.service.alive():
            code = self.service.stop()
            expect(code == 0, f"ckptd ends with {code}")
            self.memory_is_gone()

    def kill_daemon(self):
        self.service.kill()
        self.memory_is_gone()

    def prepare(self, run):
        if self.service.alive() and (run.store != self.store or run.tampering):
            self.stop()
        if run.tampering:
            self.tamper(run)
        if self.service.alive():
            self.service.change(self.config(run))
        else:
            self.service.begin(self.config(run))
        self.store = run.store

    def tamper(self, run):
        store, job = self.path(run.store), self.pair.first.program.job
        if not store.exists():
            return
        getattr(tampering, run.tampering)(store, job)
        if run.tampering == "newer" and (on_disk := self.on_disk(job, run.store)):
            for save in self.jobs[job].saves:
                save.foreign = save.foreign or (save.store == run.store and save.key == max(on_disk))

    def check_stores(self):
        """What a run has begun to write may be written after it, and retention comes then. What was removed while it is listed has made way for
        what the next list has."""
        for job, ledger in self.jobs.items():
            for store in "ab":
                for last in (False, True):
                    on_disk = self.on_disk(job, store)
                    ledger.retain(self.run.settings, store, on_disk)
                    if ledger.lost(store, on_disk):
                        expect(not last, f"removed from {store}: {ledger.lost(store, on_disk)} of {job}; there are {sorted(on_disk)}")
        if any(run.tampering == "strange" for run in self.pair.runs) and self.pair.runs[1] in self.done:
            tampering.check_strange(self.path(self.pair.second.store), self.pair.first.program.job)

    # ---- the runs

    def play(self):
        self.done = []
        for number, run in enumerate(self.pair.runs):
            self.tell(f"run {number + 1}: {run}")
            try:
                self.prepare(run)
                self.done.append(run)
                self.one(run, number)
                self.check_stores()
            except Failure as error:
                raise Failure(f"run {number + 1}: {error}") from error
        self.stop()
        self.check_stores()

    def one(self, run, number):
        ledger = self.ledger = self.jobs.setdefault(run.program.job, oracle.Ledger())
        self.run, self.restored, self.saved = run, None, False
        if run.store:  # also when a job begins
            ledger.retain(run.settings, run.store, self.on_disk(run.program.job, run.store))
        self.ranks = Ranks(self.service, run.program)
        try:
            if self.enter() and self.resume(number):
                self.train()
                self.finish()
        finally:
            self.ranks.kill()

    def enter(self):
        """False: it was not let in."""
        self.ranks.register()
        said = self.ranks.answers(len(self.run.program.entries) + 2, "the ranks join")
        failed = [answer for answer in (next((answer for answer in of if answer.code < 0), None) for of in said) if answer]
        for answer in failed:
            oracle.check_sentence(answer, answer.word)
            expect(self.may_be_refused(answer), f"{answer.word}: {answer.code} {answer.text}")
        if failed:
            self.tell(f"  refused: {failed[0].text}")
            return False
        epochs = {int(of[-1].text) for of in said}
        expect(len(epochs) == 1, f"the ranks joined {epochs}")
        self.epoch = epochs.pop()
        return True

    def may_be_refused(self, answer):
        return answer.code == ENOMEM and self.run.settings.get("memory-limit")

    def asked(self, number):
        """A step that must be there, by its number; of what the first program can use when it comes back."""
        run, promised = self.run, self.ledger.promised(self.run.store)
        usable = [save for save in promised if not oracle.contradiction(save.program, run.program) and not save.foreign]
        if run.asks == generator.NAMED:
            return oracle.newest(promised).step if promised else 12345
        newest = oracle.newest(promised)
        if number == 2 and usable and newest not in usable:
            return oracle.newest(usable).step
        return run.asks

    def ask(self, asked):
        poison = 1 << 40 | self.epoch
        self.ranks.say(f"poison {poison}", f"restore {asked}")
        answers = [of[-1] for of in self.ranks.answers(2, f"restore of {asked}")]
        self.tell(f"  asks for {asked}: {answers[0].code} {answers[0].text}")
        return poison, answers

    def join_again(self):
        """Another epoch has begun meanwhile, as ckpt.h says of -ESTALE."""
        self.ranks.say("join")
        said = [of[-1] for of in self.ranks.answers(1, "the ranks join again")]
        expect(all(answer.code == 0 for answer in said), f"join again: {said[0].code} {said[0].text}")
        self.epoch = int(said[0].text)

    def resume(self, number):
        """False: it ends here."""
        if self.run.asks is generator.NEVER:
            self.ledger.begins_afresh(self.run.program)
            return True
        asked = self.asked(number)
        poison, answers = self.ask(asked)
        for _ in range(REJOINS):
            if all(answer.code != ESTALE for answer in answers):
                break
            self.join_again()
            poison, answers = self.ask(asked)
        on_disk = self.on_disk(self.run.program.job, self.run.store)
        if answers[0].code == ENODATA:  # what the run before had begun may have been written since, and retention come after it
            self.ledger.retain(self.run.settings, self.run.store, on_disk)
        self.restored = self.ledger.judge(answers, self.run.program, self.run.store, asked, on_disk)
        if self.restored:
            self.sources = {answer.text.split()[2] for answer in answers}
            self.check_bits(poison)
        elif answers[0].code != -2 and not self.run.goes_on:
            self.leave()
            return False
        else:
            self.ledger.begins_afresh(self.run.program)
        return True

    def check_bits(self, poison):
        found = self.restored
        self.ranks.say(f"check {found.step} {found.salt} {found.program.world} {poison}")
        for of in self.ranks.answers(1, "check"):
            expect(of[-1].code == 0, f"restored from {found}: {of[-1].text}")

    def leave(self):
        """After a refusal: with or without a goodbye."""
        if self.run.closes:
            self.ranks.say("close")
            self.ranks.answers(1, "close")

    # ---- its saves

    def began(self):
        """The epoch in which the state began that it saves. What comes out of memory is of the run that brought it there, whether storage has it
        or not; storage does not tell."""
        if not self.restored:
            return self.epoch
        return 0 if self.sources == {"storage"} else self.restored.began

    def train(self):
        run, step = self.run, self.restored.step if self.restored else self.run.base
        began = self.began()
        lines, self.mine = [], []
        for gap, target, level in zip(run.gaps, run.targets, run.levels):
            step += gap
            target = target if run.store else generator.MEMORY
            save = self.ledger.begin_save(self.epoch, step, run.program, run.store, began)
            save.for_storage = target == generator.STORAGE
            self.mine.append(save)
            lines.append(f"save {step} {target} {self.waits_for(save, level)} {save.salt}")
        self.ranks.say(*lines)
        if run.end == "kill in the midst":
            count = self.rng.randint(0, len(lines))
            self.ranks.read(lambda: len(self.ranks.acknowledged()) >= count or self.ended(len(lines)), f"{count} acknowledgements")
            return
        for save, answers in zip(self.mine, zip(*self.ranks.answers(len(lines), "saves"))) if lines else ():
            self.hear(save, answers)
        self.hear_all()

    def waits_for(self, save, level):
        return min(level, 3 if self.run.settings["verify"] == "no" else 4) if save.for_storage else oracle.CAPTURED

    def ended(self, count):
        return all(len(actor.answers) >= count for actor in self.ranks.actors)

    def hear(self, save, answers):
        for answer in answers:
            if answer.code >= 0:
                continue
            oracle.check_sentence(answer, f"save of step {save.step}")
            passed = answer.code == EOPNOTSUPP and self.run.settings.get("persist-every")
            refused = answer.code == EBUSY and self.run.settings.get("save-policy") == "refuse"
            expect(passed or refused, f"save of step {save.step}: {answer.code} {answer.text}")
            save.passed = bool(passed)

    def hear_all(self):
        for level, step, epoch in self.ranks.acknowledged():
            self.ledger.acknowledge(level, step, epoch)
        if any(save.level >= oracle.CAPTURED for save in self.mine):
            self.saved = True
            self.ledger.goes_on(self.restored)

    def mark(self):
        """The last one that is in memory only, or on storage already."""
        save = self.mine[-1] if self.mine else None
        if not self.run.healthy or not save or (save.for_storage and not save.stays) or not save.level:
            return
        self.ranks.say(f"mark {save.step} {save.epoch} 1")
        for of in self.ranks.answers(1, "mark"):
            expect(of[-1].code == 0, f"mark: {of[-1].code} {of[-1].text}")
        if save.for_storage:
            folder = self.path(save.store) / self.run.program.job / f"step-{save.step:012d}.e{save.epoch:04d}"
            until(lambda: (folder / "VERDICT.json").exists(), f"{folder} is marked")
        save.healthy = True
