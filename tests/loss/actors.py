"""A daemon of a pair's own, and the ranks of its runs (tools/actor.c), which are told what to do line by line."""

import contextlib
import os
import select
import signal
import subprocess
import time

from single_node import BIN, DEADLINE, Daemon, Failure, until

TIMEOUT_MS = 60000  # of what ranks wait for: less than a test waits for them


class Service(Daemon):
    """ckptd with a configuration file; its store may be another one after each start."""

    timeout_ms = TIMEOUT_MS

    def __init__(self, top, node="n0", options=()):
        super().__init__(top=top, store=False)
        self.conf, self.config = self.top / "ckpt.conf", None
        self.options = ["--node", node, "--config", str(self.conf), *map(str, options)]

    def of(self, _program, _rank):
        """The daemon of a rank."""
        return self

    def begin(self, config):
        self.config = config
        self.conf.write_text(config)
        self.start()
        if not self.alive():
            raise Failure(f"ckptd does not start: {self.text()[-1000:]}")

    def change(self, config):
        """What it can change while it runs."""
        if config == self.config:
            return
        self.config = config
        self.conf.write_text(config)
        before = self.text().count("SIGHUP: ")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.text().count("SIGHUP: ") > before, "the settings are read again")


class Answer:
    def __init__(self, line):
        self.word, code, self.text = (line.split(" ", 2) + [""])[:3]
        self.code = int(code)


class Actor:
    def __init__(self, service, program, rank):
        self.rank, self.buffer, self.answers, self.acknowledged = rank, b"", [], []
        env = service.environment(CKPT_TIMEOUT_MS=str(service.timeout_ms), **{"CKPT_FAILPOINTS": ""})
        env.update(program.environment(rank))
        with open(service.top / f"{program.job}.{rank}.err", "ab") as err:
            self.process = subprocess.Popen([BIN / "actor"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=env,
                                            close_fds=False)
        service.ranks.append(self)
        os.set_blocking(self.process.stdout.fileno(), False)

    def say(self, *lines):
        with contextlib.suppress(BrokenPipeError):  # it was killed
            self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self.process.stdin.flush()

    def read(self):
        """False at its end."""
        data = self.process.stdout.read()
        if data is None:
            return True
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            if text.startswith("acknowledged "):
                self.acknowledged.append(tuple(map(int, text.split()[1:])))
            else:
                self.answers.append(Answer(text))
        return bool(data)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()

    def wait(self):
        code = self.process.wait()
        while not self.process.stdout.closed and self.read():
            pass
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return code


class Ranks:
    """The ranks of one run."""

    def __init__(self, service, program):
        self.program, self.seen = program, 0
        self.actors = [Actor(service.of(program, rank), program, rank) for rank in range(program.world)]
        self.poll = select.poll()
        self.of = {}
        for actor in self.actors:
            self.of[actor.process.stdout.fileno()] = actor
            self.poll.register(actor.process.stdout, select.POLLIN)

    def say(self, *lines):
        for actor in self.actors:
            actor.say(*lines)

    def register(self):
        for actor in self.actors:
            actor.say("open", *self.program.lines(actor.rank), "join")

    def read(self, done, what):
        """Until done(), which is asked after each thing that a rank has said."""
        limit = time.monotonic() + DEADLINE
        while not done():
            for fd, _ in self.poll.poll(1000):
                if not self.of[fd].read():
                    self.poll.unregister(fd)
                    del self.of[fd]
            if not self.of and not done():
                raise Failure(f"all ranks have ended, and not: {what}")
            if time.monotonic() > limit:
                raise Failure(f"not within {DEADLINE} s: {what}")

    def answers(self, count, what):
        """The next `count` answers of each rank, or what there is once a rank has said that something failed: a list for each rank."""
        def failed():
            return any(answer.code < 0 for actor in self.actors for answer in actor.answers[:count])

        self.read(lambda: failed() or all(len(actor.answers) >= count for actor in self.actors), what)
        if failed():  # the others may wait for what does not come
            with contextlib.suppress(Failure):
                self.settle(count)
        found = [actor.answers[:count] for actor in self.actors]
        for actor in self.actors:
            del actor.answers[:count]
        return found

    def settle(self, count, seconds=2):
        limit = time.monotonic() + seconds
        self.read(lambda: time.monotonic() > limit or all(len(actor.answers) >= count for actor in self.actors), "the rest")

    def acknowledged(self):
        return {acknowledgement for actor in self.actors for acknowledgement in actor.acknowledged}

    def kill(self, *ranks):
        """SIGKILL of all at once, or of some."""
        chosen = [actor for actor in self.actors if not ranks or actor.rank in ranks]
        for actor in chosen:
            actor.kill()
        for actor in chosen:
            actor.wait()
            for fd in [fd for fd, other in self.of.items() if other is actor]:
                self.poll.unregister(fd)
                del self.of[fd]

    def end(self):
        """They have closed their sessions."""
        for actor in self.actors:
            actor.process.stdin.close()
            actor.wait()
