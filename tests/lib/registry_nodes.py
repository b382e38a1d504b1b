"""Users of a registry without a daemon: processes (tests/integration/tools/registry_node.c) that obey line by line; and a place between them and a member of
etcd that holds or cuts what they ask."""

import contextlib
import queue
import signal
import socket
import subprocess
import threading
import time

from tap import BIN, DEADLINE, Failure, equal, expect

LEASE_MS, TIMEOUT_MS = 10000, 8000  # a login to a busy etcd, or a record on a busy disk, has taken more than 2 s


class RegistryNode:
    """events: the lines that were not asked for, until somebody takes them. files: ca, cert, key, user, password_file. under: words before the command."""

    def __init__(self, url, lease_ms=LEASE_MS, timeout_ms=TIMEOUT_MS, name="node", under=(), **files):
        self.name, self.events, self.lines = name, [], queue.Queue()
        words = [files.get(word, "-") for word in ("ca", "cert", "key", "user", "password_file")]
        self.process = subprocess.Popen([*map(str, [*under, BIN / "registry_node", url, lease_ms, timeout_ms, *words])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["eof"])

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        if not kind:
            expect(self.process.wait() in (0, 1), self.name, "ended with", self.process.returncode)

    def take(self, *words, seconds=DEADLINE, but=()):
        """The rest of the first line that begins with the words; those before it stay in events. A line that begins with a word of `but` fails."""
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
            expect(line != ["eof"] and line[0] not in but, self.name, "said:", line, "before that:", self.events)
            self.events.append(line)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line, answer):
        self.say(line)
        return self.take(answer)

    def ready(self):
        """It follows and has a lease."""
        self.take("ready")
        self.take("synced")
        self.take("leased")
        return self

    def commit(self, line):
        """Its number."""
        number, rc = self.ask(line, "committed")
        equal(rc, "0", f"{self.name}: {line}")
        return number

    def result(self, number, seconds=DEADLINE):
        """rc, whether it was applied, the revision."""
        rc, applied, revision, *why = self.take("result", number, seconds=seconds)
        return int(rc), applied == "1", int(revision), " ".join(why)

    def change(self, line):
        return self.result(self.commit(line))

    def applied(self, line):
        """The revision."""
        rc, applied, revision, why = self.change(line)
        expect(rc == 0 and applied, f"{self.name}: {line}: {rc} {applied} {why}")
        return revision

    def get(self, key):
        """Value, whether it is ours; None: it does not stand."""
        line = self.ask_any(f"get {key}", ("got", "none"))
        return None if line[0] == "none" else (line[1], line[4] == "1")

    def ask_any(self, line, answers):
        self.say(line)
        while True:
            got = self.lines.get(timeout=DEADLINE)
            if got[0] in answers:
                return got
            expect(got != ["eof"], self.name, "ended; before that:", self.events)
            self.events.append(got)

    def list(self, prefix=""):
        count, *keys = self.ask(f"list {prefix}", "listed")
        return keys if keys or count == "0" else int(count)

    def state(self):
        """Whether it is synced, and for how long its lease stands (ms)."""
        synced, lease = self.ask("state", "state")
        return synced == "1", int(lease)

    def counts(self):
        return dict(zip(("transactions", "applied", "failed", "renewals", "outages", "records"), map(int, self.ask("counts", "counts"))))

    def forget(self):
        """What was told until now: done with."""
        self.state()
        told, self.events = self.events, []
        return told

    def told(self, *words):
        """All lines so far that begin so, in their order; they are done with."""
        self.state()
        found = [line for line in self.events if line[:len(words)] == list(words)]
        self.events = [line for line in self.events if line not in found]
        return found

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.ask("end", "ended")
        equal(self.process.wait(DEADLINE), 0, f"{self.name}: exit status")


class Gate:
    """Carries bytes between users and a member. A request is known by the words in it. door: a socket that listens, perhaps in another namespace."""

    def __init__(self, place, door=None):
        host, port = place.split(":")
        self.target, self.lock, self.ends, self.connections = (host, int(port)), threading.Lock(), set(), 0
        self.cut, self.held, self.muted, self.shut, self.happened = None, None, None, False, threading.Event()
        self.opened = threading.Event()
        self.door = door or socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def cut_answer_to(self, words):
        """The next request with the words arrives, and its connection ends in place of an answer."""
        self.happened.clear()
        self.cut = words.encode()

    def hold(self, words):
        """The next request with the words waits until release()."""
        self.happened.clear()
        self.opened.clear()
        self.held = words.encode()

    def mute(self, words):
        """Of the connections on which this is asked nothing comes back any more, and they stay."""
        self.muted = words.encode()

    def release(self):
        self.opened.set()

    def close_door(self):
        """Nobody comes through, and those who are are thrown out."""
        with self.lock:
            self.shut = True
            for end in self.ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def open_door(self):
        self.shut = False

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                self.lead(self.door.accept()[0])

    def lead(self, here):
        try:
            if self.shut:
                raise OSError
            there = socket.create_connection(self.target)
        except OSError:
            here.close()
            return
        with self.lock:
            self.ends |= {here, there}
            self.connections += 1
        dead, asked = threading.Event(), []
        threading.Thread(target=self.carry_requests, args=(here, there, dead, asked), daemon=True).start()
        threading.Thread(target=self.carry_answers, args=(there, here, dead, asked), daemon=True).start()

    def carry_requests(self, source, target, dead, asked):
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                asked.append(chunk[:200])
                if self.held and self.held in chunk:
                    self.held = None
                    self.happened.set()
                    self.opened.wait(DEADLINE)
                if self.cut and self.cut in chunk:
                    self.cut = None
                    dead.set()
                    while b"\r\n\r\n" not in chunk or len(chunk.split(b"\r\n\r\n", 1)[1]) < int(chunk.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
                        chunk += source.recv(65536)
                target.sendall(chunk)
        self.end(source, target)

    def carry_answers(self, source, target, dead, asked):
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if dead.is_set():  # it has arrived, and been carried out
                    break
                if not self.muted or not any(self.muted in line for line in asked):
                    target.sendall(chunk)
        self.end(source, target)
        if dead.is_set():
            self.happened.set()

    def end(self, *ends):
        with self.lock:
            self.ends -= set(ends)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self):
        self.door.close()
        self.close_door()
