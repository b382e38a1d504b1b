"""Ranks that obey a test call by call (tests/crash/tools/puppet.c), started by the test or by `ckpt run`."""

import os
import pathlib
import queue
import signal
import subprocess
import threading

from single_node import BIN, DEADLINE, Failure, expect, until

MEMORY, STORAGE = 1, 2
CAPTURED, DURABLE, VERIFIED = 1, 3, 4
LATEST, LATEST_HEALTHY = -1, -2
HEALTHY, UNHEALTHY = 1, 2
ESTALE = -116


def ended(pid):
    """Nobody may have waited for it yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Answer:
    """The code of a call, and what was said with it."""

    def __init__(self, call, line):
        code, _, self.text = line.partition(" ")
        self.call, self.code = call, int(code)

    def __repr__(self):
        return f"{self.call}: {self.code} {self.text}"


class Obeying:
    """What all puppets have in common: send() and receive() lines."""

    def ask(self, *words):
        self.say(*words)
        return self.answer()

    def say(self, *words):
        self.call = " ".join(map(str, words))
        self.send(self.call + "\n")

    def answer(self):
        return Answer(self.call, self.receive())

    def must(self, *words):
        """The call succeeds; what it says."""
        answer = self.ask(*words)
        expect(answer.code >= 0, f"rank {self.number}:", answer)
        return answer.text


class Puppet(Obeying):
    def __init__(self, d, number, world, failpoints="", local=0, **variables):
        self.number, self.lines = number, queue.Queue()
        env = d.environment(CKPT_RANK=str(number), CKPT_WORLD=str(world), CKPT_LOCAL_WORLD=str(local or world),
                            CKPT_FAILPOINTS=failpoints, **variables)
        with open(d.top / f"puppet{number}.err", "ab") as err:
            self.process = d.spawn([BIN / "puppet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True,
                                            env=env)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        d.ranks.append(self)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def send(self, line):
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self):
        try:
            return self.lines.get(timeout=DEADLINE)
        except queue.Empty:
            raise Failure(f"rank {self.number} does not answer to: {self.call}") from None

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """Also what it has left behind by fork: that waits for the end of stdin."""
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        self.process.stdin.close()
        return code

    def die(self):
        """SIGKILL; a child of it lives on."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Placed(Obeying):
    """A rank that `ckpt run` has started: its stdin is a FIFO, its stdout a file."""

    def __init__(self, run, number):
        self.number, self.out = number, run.top / f"out{number}"
        self.seen = len(self.printed())
        self.pipe = until(lambda: self.opened(run.top / f"in{number}"), f"rank {number} listens")

    @staticmethod
    def opened(fifo):
        try:
            return open(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "w", encoding="ascii")
        except OSError:  # nobody reads yet
            return None

    def printed(self):
        return self.out.read_text(errors="replace").split("\n")[:-1] if self.out.exists() else []

    def send(self, line):
        self.pipe.write(line)
        self.pipe.flush()

    def receive(self):
        until(lambda: len(self.printed()) > self.seen, f"rank {self.number} answers to: {self.call}")
        self.seen += 1
        return self.printed()[self.seen - 1]


class Run:
    """`ckpt run` with a daemon of its own, or that of a cluster, and puppets, the ranks from `first` on. `again`: what the shell does before it
    starts a replacement."""

    def __init__(self, d, world, *options, store=True, again=":", first=0):
        self.top, self.numbers = d.top, range(first, first + world)
        for number in self.numbers:
            os.mkfifo(self.top / f"in{number}")
        script = f"cd {self.top} && if test -e life$CKPT_RANK; then {again}; fi && touch life$CKPT_RANK && " \
                 "exec puppet <in$CKPT_RANK >>out$CKPT_RANK"
        env = dict(d.environment(), PATH=f"{BIN}:{os.environ['PATH']}")
        env.pop("CKPT_SOCKET")
        with open(d.log, "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "ckpt", "run", "-n", str(world), "--job", "main", *(["--store", d.store] if store else []), "--socket", d.socket,
                 *options, "--no-prefix", "--", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        d.ranks.append(self)  # ended with the others

    def ranks(self):
        """The ranks of this life, once they are there; those of the life before are of no more use."""
        return [self.rank(number) for number in self.numbers]

    def rank(self, number):
        return Placed(self, number)

    def children(self):
        """{pid: "ckptd", or the number of the rank}"""
        found = {}
        for pid in self.pids():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            number = [v for v in variables if v.startswith(b"CKPT_RANK=")]
            found[pid] = program if program == "ckptd" or not number else int(number[0].split(b"=")[1])
        return found

    def pids(self):
        return [int(w) for w in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def strike(self, *victims):
        """SIGKILL of "ckptd" and of ranks, by their numbers, at once."""
        struck = [pid for pid, who in self.children().items() if who in victims]
        expect(len(struck) == len(victims), "there are only", self.children())
        for pid in struck:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not set(struck) & set(self.pids()), "they have ended")

    def kill(self):
        if self.process.poll() is None:
            children = self.pids()
            self.process.send_signal(signal.SIGKILL)  # the kernel ends its children
            for pid in children:
                until(lambda pid=pid: ended(pid), f"process {pid} ends")
        return self.process.wait()


def each(ranks, *words):
    """All ranks make the call at once; their answers."""
    for rank in ranks:
        rank.say(*words)
    return [rank.answer() for rank in ranks]


def all_must(ranks, *words):
    answers = each(ranks, *words)
    for rank, answer in zip(ranks, answers):
        expect(answer.code >= 0, f"rank {rank.number}:", answer)
    return [answer.text for answer in answers]


def gather(ranks, elements=1000, replicated=0):
    for call in (("open",), ("table", elements, replicated), ("join",)):
        all_must(ranks, *call)


def save(ranks, step, value, target=STORAGE, level=DURABLE, n=0):
    """One whole save of all ranks, awaited up to the level."""
    for call in (("set", value), ("begin", step, target, n), ("fence", n), ("wait", n, level, DEADLINE * 1000), ("drop", n)):
        all_must(ranks, *call)


def holds(ranks, value):
    for rank in ranks:
        expect(rank.must("get") == str(value), f"rank {rank.number} holds", rank.must("get"), "and not", value)


def roll_back(d, *args, code=0):
    """`ckpt rollback`, of the job that is in the daemon's store; what it says."""
    done = subprocess.run([BIN / "ckpt", "rollback", *map(str, args), "--repo", d.store, "--socket", d.socket], capture_output=True, text=True,
                          timeout=DEADLINE)
    expect(done.returncode == code, f"exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done.stderr if code else done.stdout
