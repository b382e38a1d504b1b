"""A client that lies, stalls, floods, sends wrong descriptors or dies in mid-message costs only itself: beside each of them a good job
saves on without a failure, and the daemon keeps neither memory nor descriptors of it. With the address sanitizer, which sees what a
client can make the daemon touch."""

import contextlib
import fcntl
import os
import random
import struct
import subprocess
import sys

import single_node
from single_node import LAUNCHER, OBSERVER, PROTOCOL, RANK, TYPES, Client, hello, text
from tap import BIN, NIGHTLY, Cases, expect, until

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
MEMORY = 96 << 20  # bytes that the daemon may have grown by at the end; arenas are not among them
KEPT = 7  # descriptors: the arenas of a job whose ranks are gone linger (two each, and a doorbell), and a read-back has one


def memfd(data=b"", size=None, seals=None):
    fd = os.memfd_create("hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if size is not None:
        os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@contextlib.contextmanager
def client(d):
    c = Client(d)
    try:
        yield c
    finally:
        c.close()


def greeted(d, **how):
    c = Client(d)
    answer = c.ask("HELLO", hello(**how))
    expect(answer and answer[0] == "WELCOME", "HELLO was answered with", answer)
    return c


def refused(c):
    """The daemon answers with an error or hangs up; it never agrees."""
    while True:
        answer = c.receive()
        if answer is None or answer[0] == "ERROR":
            return
        expect(answer[0] in ("EPOCH", "EVENT", "HOLD"), "the daemon agrees:", answer[0])


# ---- what is tried ---------------------------------------------------------------------------------------------------

def garbage(d):
    choose = random.Random(1)
    for n in range(2000 if NIGHTLY else 200):
        with client(d) as c:
            if n % 3 == 0:
                c.ask("HELLO", hello(role=OBSERVER, job=""))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(3):
                    c.raw(choose.randbytes(choose.randrange(1, 300)))
                    c.send(choose.randrange(0, 30), choose.randbytes(choose.randrange(0, 200)), choose.randrange(1 << 32))
            if n % 2:
                expect(c.gone(), "garbage is put up with")


def bodies():
    """A valid body of each message that a client may send."""
    yield "HELLO", hello(), None
    yield "JOIN", struct.pack("<III", 0, 1000, 4) + b"abcd", RANK
    yield "RESTORE", struct.pack("<IQI", 1, 2**64 - 1, 1000), RANK
    yield "REGISTER", struct.pack("<IIII", 1000, 0, 1, 1) + text("w") + bytes([1, 2, 1]) + struct.pack("<Q", 8) + text("params") + \
        text("") + struct.pack("<I", 0), RANK
    yield "RETURN", struct.pack("<IQ", 0, 4096), RANK
    yield "SPAWNED", struct.pack("<Ii", 0, 1), LAUNCHER
    yield "EXITED", struct.pack("<Iii", 0, 1, 0), LAUNCHER


def truncations(d):
    for kind, body, role in bodies():
        for n in range(len(body)):
            c = greeted(d, role=role) if role else Client(d)
            c.send(kind, body[:n])
            refused(c)
            c.close()


def lies_about_sizes(d):
    for length in (0, 1, 31, 33, 1 << 20, 1 << 40, 2**64 - 1):
        with client(d) as c:
            c.send("HELLO", b"x" * 32, length=length)
            expect(c.gone())
    for size, told in ((40000, 1 << 40), (40000, 50000), (300 << 20, 300 << 20), (0, 40000), (40000, 40001)):
        fd = memfd(size=size, seals=SEALS)
        with client(d) as c:
            c.send("HELLO", flags=1, length=told, fds=[fd])
            expect(c.gone())
        os.close(fd)
    counts = struct.pack("<IIII", 1000, 0, 1, 0xffffffff)
    huge = struct.pack("<IIII", 1000, 0, 1, 1) + text("w") + bytes([1, 2, 8]) + struct.pack("<8Q", *[2**63] * 8) + text("params") + \
        text("") + struct.pack("<I", 0xffffffff)
    for body in (counts, huge, struct.pack("<IIIIH", 1000, 0, 1, 1, 65535)):
        c = greeted(d)
        c.send("REGISTER", body)
        refused(c)
        c.close()


def wrong_descriptors(d):
    pipe = os.pipe()
    unsealed, small = memfd(size=1 << 20), memfd(size=100, seals=SEALS & ~fcntl.F_SEAL_WRITE)
    sparse = memfd(size=1 << 44, seals=SEALS & ~fcntl.F_SEAL_WRITE)
    noise = memfd(random.Random(2).randbytes(1 << 20), seals=SEALS & ~fcntl.F_SEAL_WRITE)
    readonly = memfd(size=1 << 20, seals=SEALS)
    body = struct.pack("<IQ", 0, 1 << 20)
    for fd in (pipe[0], unsealed, small, sparse, noise, readonly, 0):
        c = greeted(d)
        c.send("RETURN", body, fds=[fd])
        c.send("STATUS", seq=5)
        while (answer := c.receive()) and answer[1] != 5:
            pass
        expect(answer and answer[0] == "STATUS", "a refused arena cost the client its connection")
        c.close()
    for fds in ([], [pipe[0]] * 200):
        c = greeted(d)
        c.send("RETURN", body, fds=fds)
        refused(c)
        c.close()
    with client(d) as c:  # a body in a pipe, in an unsealed memfd, in none
        c.send("HELLO", flags=1, length=40000, fds=[pipe[0]])
        expect(c.gone())
    with client(d) as c:
        c.send("HELLO", flags=1, length=1 << 20, fds=[unsealed])
        expect(c.gone())
    with client(d) as c:
        c.send("HELLO", flags=1, length=40000)
        expect(c.gone())
    c = greeted(d, role=LAUNCHER)
    c.send("SPAWNED", struct.pack("<Ii", 0, os.getpid()), fds=[pipe[0]])
    c.send("EXITED", struct.pack("<Iii", 99, 1, 0))
    c.close()
    with client(d) as c:  # descriptors that nobody asked for
        c.send("HELLO", hello(role=OBSERVER, job=""), fds=[pipe[0]] * 100)
        c.receive()
    for fd in (*pipe, unsealed, small, sparse, noise, readonly):
        os.close(fd)


def flood_of_connections(d):
    """More than a process may have; another process still gets in."""
    clients = []
    for _ in range(400):
        with contextlib.suppress(OSError):
            c = Client(d, timeout=0.5)
            c.send("HELLO", hello(role=OBSERVER, job=""))
            clients.append(c)
    code, _, err = d.ckpt("status", "--socket", d.socket)
    expect(code == 0, f"nobody else gets in: exit {code}: {err}")
    for c in clients:
        c.close()


def flood_of_jobs(d):
    clients = []
    for n in range(200):
        c = Client(d)
        answer = c.ask("HELLO", hello(job=f"flood{n}", world=64))
        if not answer or answer[0] != "WELCOME":
            c.close()
            break
        clients.append(c)
    expect(len(clients) < 200, "jobs without end")
    for c in clients:
        c.close()


def repeated_hellos(d):
    with client(d) as c:
        for n in range(1000):
            with contextlib.suppress(OSError):
                c.send("HELLO", hello(rank=0, world=65))
        expect(c.gone() or True)
    c = greeted(d)
    c.send("HELLO", hello())
    refused(c)
    c.close()


def never_reads(d):
    """Its queue overflows; the daemon hangs up and forgets what was queued."""
    c = greeted(d, role=OBSERVER, job="")
    c.sock.settimeout(5)
    sent = 0
    with contextlib.suppress(OSError):
        for sent in range(100000):
            c.send("STATUS", seq=sent + 1)
    expect(sent < 99999, "a client that never reads is served without end")
    c.close()


def stalls(d):
    """Half a handshake, and no more: the deadline of the handshake ends it."""
    silent = [Client(d) for _ in range(20)]
    for c in silent[::2]:
        c.send("HELLO", hello(world=65))
    for c in silent:
        expect(c.gone())
        c.close()


def dies_in_mid_message(d):
    for n in range(100):
        c = Client(d)
        if n % 2:
            c.send("HELLO", hello(job=f"mid{n % 7}"))
        if n % 4 == 3:
            c.send("REGISTER", b"\0" * 30000)
        c.close()


def lies_about_who_it_is(d):
    for how in (dict(job="main", rank=0, world=2), dict(job="main", rank=1, world=2), dict(job="main", rank=0, world=5),
                dict(job="../x"), dict(job=""), dict(job="a/b"), dict(job="a\0b"), dict(job="x" * 300), dict(rank=7, world=2),
                dict(world=0), dict(world=65, local=65), dict(low=PROTOCOL + 1, high=9), dict(low=0, high=0), dict(role=9), dict(slots=99),
                dict(version="v" * 5000)):
        with client(d) as c:
            c.send("HELLO", hello(**how))
            refused(c)
    c = greeted(d, epoch=0xffffffff)
    c.close()


def out_of_turn(d):
    """Every message in every role that may not send it, and before HELLO."""
    for kind in TYPES[1:]:
        for role in (None, OBSERVER, LAUNCHER, RANK):
            c = greeted(d, role=role, job="turn") if role else Client(d)
            c.send(kind, b"")
            if (kind, role) not in ((("STATUS", r)) for r in (OBSERVER, LAUNCHER, RANK)) and (kind, role) not in (
                    ("STOP", LAUNCHER), ("BYE", RANK)):
                refused(c)
            c.close()


def takes_a_job_for_its_own(d):
    """A launcher that follows a plan, where others are at work."""
    with client(d) as c:
        c.send("HELLO", hello(role=LAUNCHER, job="main", world=5, plan=3))
        refused(c)
    for ranks in ((7,), (0, 7)):
        c = greeted(d, role=LAUNCHER, job="main", world=2, plan=3)
        c.send("OFFER", struct.pack("<III4BII", 9, 9, len(ranks), 0, 0, 0, 0, 3, len(ranks)) + struct.pack(f"<{len(ranks)}I", *ranks))
        refused(c)
        c.close()


def says_goodbye_and_stays(d):
    c = greeted(d, job="stays")
    expect(c.ask("BYE")[0] == "BYE")
    for _ in range(3):  # ticks of the daemon in between: it must not end a job whose connection stands
        expect(c.ask("STATUS")[0] == "STATUS")
        code, _, err = d.ckpt("status", "--socket", d.socket)
        expect(code == 0, err)
    c.send("JOIN", struct.pack("<III", 0, 50, 0))
    c.receive()
    c.close()


def scribbles(d):
    for seed in range(30 if NIGHTLY else 4):
        # 1: refused, as long as those before are not quite gone.
        command = [BIN / "scribble", "400", str(seed)]
        until(lambda: subprocess.run(command, env=d.environment(), timeout=single_node.DEADLINE).returncode == 0, "scribble does its worst")
    found = [line for line in d.text().splitlines() if "job hostile" in line and "replicas differ" in line]
    expect(found, "its replicas were never compared")


TRIED = (garbage, truncations, lies_about_sizes, wrong_descriptors, flood_of_connections, flood_of_jobs, repeated_hellos, never_reads,
         stalls, dies_in_mid_message, lies_about_who_it_is, takes_a_job_for_its_own, out_of_turn, says_goodbye_and_stays, scribbles)


class Good:
    """The job that must not notice."""

    def __init__(self, d):
        self.d, self.stop = d, d.top / "stop"
        self.ranks = d.world(2, "--storage", 3, "--pause", 10, "--elements", 4000, "--deadline", 10000, "--until-file", self.stop)
        self.seen = 0
        self.goes_on()

    def goes_on(self):
        count = [len(r.reached("durable")) for r in self.ranks]
        until(lambda: all(len(r.reached("durable")) > n for r, n in zip(self.ranks, count)) or
              any(r.process.poll() is not None for r in self.ranks), "the good job goes on")
        for r in self.ranks:
            expect(r.process.poll() is None, f"good rank {r.number} ended with {r.process.returncode}: {r.lines()[-3:]}")
            bad = [line for line in r.lines() if line.split()[0] in ("gone", "stale", "late", "slow") or
                   line.split()[0] in ("failed", "fence") and "ECANCELED" not in line]
            # A save is cancelled that another one overtakes on its way to storage, or for which the other rank has no slot free; the latter perhaps
            # before its fence. That is the policy, not damage.
            expect(not bad, f"good rank {r.number}:", *bad[:3])

    def end(self):
        self.stop.touch()
        for r in self.ranks:
            expect(r.wait() == 0, f"good rank {r.number} ended with {r.process.returncode}")


def try_one(d, good, tried):
    before = d.descriptors()
    tried(d)
    expect(d.alive(), "the daemon ended with", d.process.returncode)
    good.goes_on()
    until(lambda: d.descriptors() <= before + KEPT, f"descriptors: {before} before, {d.descriptors()} after")


def main():
    cases = Cases()
    # What was freed counts as memory of the daemon while the sanitizer keeps it to find uses of it.
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"
    try:
        with single_node.daemon() as d:
            d.start()
            good = Good(d)
            memory = d.memory()
            for tried in TRIED:
                cases.run(tried.__name__.replace("_", " "), try_one, d, good, tried)
                if cases.failed and not d.alive():
                    break
            cases.run("memory is bounded", lambda: expect(d.memory() < memory + MEMORY, f"{memory} before, {d.memory()} after"))
            cases.run("the good job ends well", good.end)
            cases.run("the daemon ends well", lambda: expect(d.stop() == 0, d.process.returncode))
            if cases.failed:
                print(d.text()[-6000:])
    finally:
        pass
    return cases.end()


sys.exit(main())
