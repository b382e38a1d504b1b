"""Plays a pair whose ranks are on several nodes."""

import oracle
from nodes import FIRST, NAMES, Nodes
from play import Play
from tap import expect, until

EBUSY, ETIMEDOUT, ENOTCONN = -16, -110, -107


class NodePlay(Play):
    away = ""  # nodes that are lost for good

    def make_service(self):
        return Nodes()

    def prepare(self, run):
        if self.service.alive() and run.store != self.store:
            self.stop()
        self.service.change(self.config(run))
        self.service.begin(self.config(run), self.away)
        self.store = run.store

    def copies(self):
        return self.run.settings.get("copies", 1)

    def waits_for(self, save, level):
        """Of a snapshot on one node nothing is copied while no other is there."""
        level = 1 if level == oracle.REPLICATED and not self.copies() else level
        return super().waits_for(save, level) if save.for_storage else min(level, oracle.REPLICATED)

    def may_be_refused(self, answer):
        """What is in memory and neither fits nor can be written anywhere is kept. Or another daemon clears the store of what a crash left there:
        that is over in a moment."""
        waits = answer.word == "open" or any(text in answer.text for text in ("must wait until it has ended", "waiting for rank"))
        kept = waits and self.ledger.in_memory() and all(node.alive() for node in self.service.all.values() if node.name not in self.away)
        clears = answer.word == "join" and "is the business of another daemon" in answer.text
        return answer.code in (EBUSY, ETIMEDOUT, ENOTCONN) and (kept or clears)

    # ---- how runs end

    def in_line(self, save):
        return save.epoch == self.epoch or save is self.restored or not self.mine

    def lose(self, name):
        """A node with all that is on it."""
        node = self.service.all[name]
        ranks = [rank for rank, place in enumerate(self.run.program.where) if place == name]
        first, then = (node.kill, lambda: ranks and self.ranks.kill(*ranks))[::self.rng.choice((1, -1))]
        first()
        then()
        for ledger in self.jobs.values():
            ledger.node_is_lost(self.in_line)

    def end_by_a_node(self, among=None):
        self.lose(self.rng.choice(among or sorted(set(self.run.program.where))))
        self.ranks.kill()

    def end_by_the_first_node(self):
        self.end_by_a_node(FIRST)

    def end_by_another_node(self):
        """Perhaps without ranks."""
        self.end_by_a_node(NAMES)

    def end_by_a_node_for_good(self):
        self.away = "c"
        self.end_by_a_node("c")

    def end_by_daemon_back(self):
        """The ranks of its node live on, and give their arenas back."""
        name = self.rng.choice(sorted(set(self.run.program.where)))
        node, here = self.service.all[name], self.run.program.where.count(name)
        node.kill()
        self.ledger.arenas_only(self.run.program, self.mine + [save for save in [self.restored] if save])
        self.ledger.copies_are_gone()
        before = node.text().count(" is back\n")
        node.begin(self.config(self.run))
        until(lambda: node.text().count(" is back\n") - before >= here, f"the arenas of {name} are back")
        self.ranks.kill()

    def stop(self):
        if self.service.alive():
            code = self.service.stop()
            expect(code == 0, f"ckptd ends with {code}")
            self.memory_is_gone()
