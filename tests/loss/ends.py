"""How a run ends: with a goodbye, or by the death of its ranks, of its daemon, or of both."""

import generator
import oracle
from tap import expect, until

ESTALE, ECANCELED, EBUSY = -116, -125, -16


class Ends:
    """Of a play (play.py)."""

    def finish(self):
        if self.run.end != "kill in the midst":
            self.mark()
        getattr(self, "end_by_" + self.run.end.replace(" ", "_"))()

    def end_by_close(self):
        self.ranks.say("close")
        codes = {of[-1].code for of in self.ranks.answers(1, "close")}
        self.ranks.end()
        stored = [save for save in self.mine if save.for_storage and not save.passed]
        last = oracle.newest(stored)
        # To one that was for memory only, is written in its place, and was not waited for.
        gave_way = last and last is not self.mine[-1]
        refuses = self.run.settings.get("save-policy") == "refuse"
        expect(codes == {0} or (codes <= {0, ECANCELED} and gave_way) or (codes <= {0, EBUSY} and refuses), f"close: {codes}")
        if stored and codes == {0} and not gave_way and not refuses:
            self.ledger.acknowledge(oracle.DURABLE, last.step, last.epoch)
        if self.restored or self.saved or self.run.asks is generator.NEVER:
            self.ledger.memory_is_gone(surely=False)

    def end_by_kill_all(self):
        self.ranks.kill()

    def end_by_kill_in_the_midst(self):
        self.ranks.kill()
        self.hear_all()

    def end_by_kill_one(self, close=False):
        victim = self.rng.randrange(self.run.program.world)
        others = [actor for actor in self.ranks.actors if actor.rank != victim]
        self.ranks.kill(victim)
        for actor in others:
            actor.say("close" if close else f"save {10 ** 9} 1 1 0")
        self.ranks.read(lambda: all(actor.answers for actor in others) or not others, "the others hear of the loss")
        for actor in others:
            expect(close or actor.answers[0].code in (ESTALE, ECANCELED), f"after a loss: {actor.answers[0].code} {actor.answers[0].text}")

    def end_by_kill_one_and_close(self):
        self.end_by_kill_one(close=True)

    def end_by_daemon_back(self):
        """Its ranks have the arenas, and give them back."""
        self.service.kill()
        self.memory_is_gone(but=self.ledger)  # nobody is there for other jobs
        self.ledger.arenas_only(self.run.program, self.mine + [save for save in [self.restored] if save])
        before = self.service.text().count(" is back\n")
        self.service.begin(self.config(self.run))
        until(lambda: self.service.text().count(" is back\n") - before >= self.run.program.world, "all arenas are back")
        self.ranks.say("return")
        for of in self.ranks.answers(1, "return"):
            expect(of[-1].code == 0, f"after a restart of the daemon: {of[-1].code} {of[-1].text}")
        self.ranks.kill()

    def end_by_machine(self):
        if self.rng.random() < 0.5:
            self.kill_daemon()
            self.ranks.kill()
        else:
            self.ranks.kill()
            self.kill_daemon()

    def end_by_stop(self):
        self.ranks.kill()
        self.stop()
