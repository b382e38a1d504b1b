"""Nodes of a net without a daemon: processes (tests/integration/tools/net_node.c) that obey line by line."""

import contextlib
import os
import pathlib
import queue
import signal
import subprocess
import tempfile
import threading
import time

from loopback_cluster import free_port
from tap import BIN, DEADLINE, Failure, equal, expect

PATIENT_MS = 20000  # where nobody is to be lost on a busy machine


class NetNode:
    """number: its line of the roster. spawn: how processes are started where it is to run. way: how copies go: sealed, bare (over TCP), fabric."""

    def __init__(self, name, number, roster, key, timeout_ms, spawn=subprocess.Popen, way="sealed", idle_ms=0):
        self.name, self.number = name, number
        self.process = spawn([BIN / "net_node", roster, name, key, str(timeout_ms), way, str(idle_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines, self.events = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()
        self.expect("ready")

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["ended"])

    def next(self, *words, seconds=DEADLINE):
        """The next line that begins with the words; those before it are kept in events."""
        limit = time.monotonic() + seconds
        for at, line in enumerate(self.events):
            if line[:len(words)] == list(words):
                return self.events.pop(at)[len(words):]
        while True:
            try:
                line = self.lines.get(timeout=max(0.001, limit - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self.name}: no {words} within {seconds} s, but {self.events}") from None
            if line[:len(words)] == list(words):
                return line[len(words):]
            expect(line != ["ended"], self.name, "ended; before that:", self.events)
            self.events.append(line)

    expect = next

    def ask(self, line, answer):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.next(answer)

    def expose(self, node, size, access, seed):
        """Number of the region, and the ticket's words."""
        region, *ticket = self.ask(f"expose {node.number} {size} {access} {seed}", "exposed")
        return int(region), " ".join(ticket)

    def copy(self, kind, node, ticket, size, seed, ms=30000, offset=0):
        self.ask(f"{kind} {node.number} {ticket} {offset} {size} {seed} {ms}", "begun")

    def copied(self, result, how="match"):
        equal(self.next("done")[::2], [str(result), how], "result of a copy")

    def counts(self):
        return dict(zip(("sessions", "in", "out", "refused"), map(int, self.ask("counts", "counts"))))

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()
        elif number == signal.SIGSTOP:
            os.waitpid(self.process.pid, os.WUNTRACED)  # on a busy machine its threads run on for a while

    def end(self):
        self.process.stdin.close()
        return self.process.wait(DEADLINE)


class Net:
    """Nodes a, b and c, or others, each at an address of loopback of its own."""

    def __init__(self, folder, names="abc"):
        self.names = names
        self.folder, self.processes, self.roster = pathlib.Path(folder), [], pathlib.Path(folder) / "roster"
        self.places = {name: (f"127.0.0.{n}", free_port(f"127.0.0.{n}")) for n, name in enumerate(names, 1)}
        self.roster.write_text("".join(f"{name} {host}:{port}\n" for name, (host, port) in self.places.items()))
        self.key = self.folder / "key"
        self.key.write_text(os.urandom(32).hex())
        self.key.chmod(0o600)

    def spawn(self, command, **how):
        self.processes.append(subprocess.Popen(command, **how))
        return self.processes[-1]

    def node(self, name, credentials=None, timeout=PATIENT_MS, way="sealed", environment=None, idle_ms=0):
        def spawn(command, **how):
            return self.spawn(command, env={**os.environ, **(environment or {})}, **how)

        return NetNode(name, self.names.index(name), self.roster, credentials or self.key, timeout, spawn, way, idle_ms)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def fresh_net(names="abc"):
    with tempfile.TemporaryDirectory() as folder:
        net = Net(folder, names)
        try:
            yield net
        finally:
            net.close()


def meet(a, b):
    a.expect("up", str(b.number))
    b.expect("up", str(a.number))


def talk(a, b, text):
    equal(a.ask(f"send {b.number} 7 {text}", "sent"), ["0"])
    equal(b.expect("message", str(a.number), "7"), [str(len(text)), text], "a message")


def ports(pid):
    """Of TCP, at which a process listens."""
    mine, found = set(), set()
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            mine.add(os.readlink(path))
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in mine:
            found.add(int(words[1].split(":")[1], 16))
    return found
