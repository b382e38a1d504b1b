"""Nodes of a net without a daemon: processes (tests/integration/tools/net_node.c) that obey line by line."""

import queue
import signal
import subprocess
import threading
import time

from tap import BIN, DEADLINE, Failure, equal, expect


class NetNode:
    """number: its line of the roster. spawn: how processes are started where it is to run. sealed: copies go over TLS."""

    def __init__(self, name, number, roster, key, timeout_ms, spawn=subprocess.Popen, sealed=True):
        self.name, self.number = name, number
        self.process = spawn([BIN / "net_node", roster, name, key, str(timeout_ms), "sealed" if sealed else "open"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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

    def end(self):
        self.process.stdin.close()
        return self.process.wait(DEADLINE)
