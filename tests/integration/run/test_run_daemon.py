"""ckpt run against a daemon that this test plays: what the launcher says, what it makes of what it is told, and of a daemon that
refuses, talks nonsense or goes away."""

import contextlib
import fcntl
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from single_node import text
from launcher import ENVIRONMENT, sh
from tap import BIN, DEADLINE, Cases, Failure, equal, until

ARENA_HEAD, FLIGHT = 16384, 256
YOUNG_S = 1  # a process that is younger the daemon may not know yet: it is left alone
GRACE_S = "12"  # the daemon is back before it is over
HELLO, WELCOME, ERROR, EPOCH, HOLD, RETURN, SPAWNED, EXITED, STOP, STATUS = 1, 2, 3, 11, 12, 13, 14, 15, 16, 17
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
# ends when a file says so: "end-RANK" with the status; "trapped-PID" is there once SIGTERM ends it well
RANK = "trap 'exit 0' TERM; : > trapped-$$; while [ ! -s end-$RANK ]; do sleep 0.02; done; s=$(cat end-$RANK); rm end-$RANK; exit $s"
top = pathlib.Path(tempfile.mkdtemp())


class Daemon:
    """The daemon's end of the protocol, by hand (format/message/wire.h, base/channel.c), and the launcher that talks to it."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=top))
        self.child, self.conn, self.fds = None, None, []
        self.listen()

    def listen(self):
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (self.folder / "sock").unlink(missing_ok=True)
        self.server.bind(str(self.folder / "sock"))
        self.server.listen(8)
        self.server.settimeout(DEADLINE)

    def run(self, *args):
        self.child = subprocess.Popen([BIN / "ckpt", "run", "--socket", self.folder / "sock", "--daemon", "external", *args],
                                      cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=open(self.folder / "out", "wb"),
                                      stderr=open(self.folder / "err", "wb"))
        self.accept()  # it first looks whether somebody answers
        equal(self.conn.recv(1), b"")

    def accept(self):
        if self.conn:
            self.conn.close()
        self.conn = self.server.accept()[0]
        self.conn.settimeout(DEADLINE)

    def hang_up(self):
        self.conn.close()
        self.conn = None
        self.server.close()

    def send(self, kind, body=b"", fds=()):
        head = struct.pack("<HHIQ", kind, 0, 0, len(body))
        socket.send_fds(self.conn, [head + body], list(fds))

    def expect(self, kind, fds=0):
        """The body of the next frame, which must be of that kind. Questions for the status are left without an answer."""
        is_ = STATUS
        while is_ == STATUS:
            packet, got, _, _ = socket.recv_fds(self.conn, 65536, 4)
            self.fds += got
            if not packet:
                raise Failure(f"the launcher hung up; frame {kind} was due")
            is_, _, _, size = struct.unpack_from("<HHIQ", packet)
        equal((is_, len(packet) - 16, len(got)), (kind, size, fds), "frame, size, descriptors")
        return packet[16:]

    def hello(self):
        """The fields of HELLO that matter: role, job, ranks, epoch."""
        body = self.expect(HELLO)
        at = 8
        at += 2 + struct.unpack_from("<H", body, at)[0]  # the version
        role, size = struct.unpack_from("<IH", body, at)
        at += 6
        return role, body[at:at + size].decode(), *struct.unpack_from("<IIIxI", body, at + size)

    def welcome(self, epoch=1):
        self.send(WELCOME, struct.pack("<II", 2, epoch) + text("node") + text("0.1.0") + b"\1\0\0" + text(""))

    def greet(self, world=2):
        """To the point where all ranks run; their processes."""
        self.accept()
        equal(self.hello(), (2, "default", 0, world, world, 0))
        self.welcome()
        return [self.spawned(rank) for rank in range(world)]

    def start(self, *options):
        """Two ranks that end when they are told to (finish); their processes."""
        self.run("-n", "2", *options, *sh(RANK))
        return self.greet()

    def until_trapped(self, pids):
        """A signal that comes earlier ends a shell with its number."""
        until(lambda: all((self.folder / f"trapped-{pid}").exists() for pid in pids), "the traps of the ranks", DEADLINE, 0.005)

    def spawned(self, rank):
        is_, pid = struct.unpack("<Ii", self.expect(SPAWNED, fds=1))
        equal(is_, rank, "rank of SPAWNED")
        return pid

    def exited(self, rank, pid):
        is_, of, status = struct.unpack("<Iii", self.expect(EXITED))
        equal((is_, of), (rank, pid), "EXITED")
        return status

    def epoch(self, epoch, *lost):
        self.send(EPOCH, struct.pack(f"<II{len(lost)}IB", epoch, len(lost), *lost, False) + text("because"))

    def arena(self, sealed=True):
        fd = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.fds.append(fd)
        os.ftruncate(fd, ARENA_HEAD)
        if sealed:
            fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
        return fd

    def hand_over(self, rank, arena):
        self.send(HOLD, struct.pack("<IQ", rank, ARENA_HEAD), [arena])

    def hold(self, rank, sealed=True):
        arena = self.arena(sealed)
        self.hand_over(rank, arena)
        return os.fstat(arena).st_ino

    def beat(self, arena, step, collective=None):
        """Writes the flight record of an arena (format/arena/arena.h): a heartbeat now."""
        flight = struct.pack("<QQIIQ", time.monotonic_ns(), step, 0, collective is not None, collective or 0)
        os.pwrite(arena, flight, FLIGHT)

    def end_ranks(self, *ranks, status=0):
        for rank in ranks:
            (self.folder / "new").write_text(f"{status}\n")
            (self.folder / "new").rename(self.folder / f"end-{rank}")

    def finish(self):
        """Both ranks end well, and so does the launcher."""
        self.end_ranks(0, 1)
        self.wait(0)

    def err(self):
        path = self.folder / "err"
        return path.read_text(errors="replace") if path.exists() else ""

    def until_err(self, part):
        until(lambda: part in self.err(), f"{part} on stderr", DEADLINE, 0.005)

    def wait(self, code):
        equal(self.child.wait(DEADLINE), code, "exit code")

    def end(self):
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        for fd in self.fds:
            os.close(fd)
        for sock in (self.conn, self.server):
            if sock:
                sock.close()


@contextlib.contextmanager
def daemon_of_a_case():
    daemon = Daemon()
    try:
        yield daemon
    except Exception as error:
        raise Failure(f"{error}\n{daemon.err()[-2000:]}") from error
    finally:
        daemon.end()


cases = Cases(daemon_of_a_case)
rows = []


def case(name):
    return lambda test: rows.append((name, test))


@case("ranks are announced with their processes, and their ends with the status")
def _(daemon):
    pids = daemon.start()
    for rank in range(2):
        parent = pathlib.Path(f"/proc/{pids[rank]}/stat").read_text().rpartition(")")[2].split()[1]
        equal(int(parent), daemon.child.pid)
        daemon.end_ranks(rank)
        equal(daemon.exited(rank, pids[rank]), 0)
    daemon.wait(0)


@case("a lost rank is started when the daemon names it")
def _(daemon):
    pids = daemon.start()
    os.kill(pids[1], signal.SIGKILL)
    equal(daemon.exited(1, pids[1]), signal.SIGKILL)
    daemon.epoch(2, 1)
    equal(daemon.spawned(1) != pids[1], True)
    daemon.until_err("epoch 2: because")
    daemon.finish()


@case("a lost rank is started although the daemon says nothing")
def _(daemon):
    pids = daemon.start()
    os.kill(pids[0], signal.SIGKILL)
    daemon.exited(0, pids[0])
    daemon.spawned(0)
    daemon.finish()


@case("a rank that finished is started again when the job needs it")
def _(daemon):
    pids = daemon.start()
    daemon.end_ranks(0)
    equal(daemon.exited(0, pids[0]), 0)
    os.kill(pids[1], signal.SIGKILL)
    daemon.exited(1, pids[1])
    daemon.epoch(2, 0, 1)
    daemon.spawned(0)
    daemon.spawned(1)
    daemon.finish()


@case("a process that the daemon has lost is killed and replaced")
def _(daemon):
    pids = daemon.start()
    time.sleep(YOUNG_S + 0.1)
    daemon.epoch(2, 1)
    equal(daemon.exited(1, pids[1]), signal.SIGKILL)
    daemon.spawned(1)
    daemon.finish()


@case("a process that the daemon has lost and that ends well is started again")
def _(daemon):
    pids = daemon.start()
    time.sleep(YOUNG_S + 0.1)
    daemon.epoch(2, 1)
    daemon.until_err("epoch 2")
    daemon.end_ranks(1)
    equal(daemon.exited(1, pids[1]), 0)
    daemon.spawned(1)
    daemon.finish()


@case("a process that was just started is not taken for the lost one")
def _(daemon):
    with contextlib.ExitStack() as others:
        while not told_of_a_young_one(daemon):
            daemon = others.enter_context(daemon_of_a_case())


def told_of_a_young_one(daemon):
    """Whether the news came so soon that there is something to be seen; then it has been seen."""
    began = time.monotonic()
    pids = daemon.start()
    daemon.epoch(2, 1)
    daemon.until_err("epoch 2")
    if time.monotonic() > began + YOUNG_S:
        return False
    time.sleep(3)
    equal(os.path.exists(f"/proc/{pids[1]}"), True)
    daemon.finish()
    return True


@case("arenas and processes are handed to a daemon that comes back")
def _(daemon):
    pids = daemon.start()
    arenas = [daemon.hold(rank) for rank in range(2)]
    daemon.epoch(5)
    daemon.until_err("epoch 5")
    daemon.hang_up()
    daemon.listen()
    daemon.accept()
    equal(daemon.hello(), (2, "default", 0, 2, 2, 5))
    daemon.welcome(5)
    for rank in range(2):
        equal(struct.unpack("<IQ", daemon.expect(RETURN, fds=1)), (rank, ARENA_HEAD))
        equal(os.fstat(daemon.fds[-1]).st_ino, arenas[rank])
        equal(daemon.spawned(rank), pids[rank])
    daemon.finish()


@case("what is no arena is not held")
def _(daemon):
    daemon.start()
    daemon.hold(0, sealed=False)
    daemon.until_err("is not sealed")
    daemon.finish()


def hang(daemon, *flights):
    """Two ranks fall silent, as their last flight records say; which one is killed."""
    pids = daemon.start("--hang-timeout", "3")
    arenas = [daemon.arena() for _ in flights]
    for arena, flight in zip(arenas, flights):
        daemon.beat(arena, *flight)
    for rank, arena in enumerate(arenas):  # with their last words: between those nothing can be too slow
        daemon.hand_over(rank, arena)
    body = daemon.expect(EXITED)
    rank, pid, status = struct.unpack("<Iii", body)
    equal((pid, status), (pids[rank], signal.SIGKILL))
    daemon.spawned(rank)
    daemon.finish()
    return rank


@case("of ranks without heartbeat the one that the others wait for is killed")
def _(daemon):
    equal(hang(daemon, (40, 7), (40,)), 1, "the one in no collective")


@case("of ranks that hang in collectives the one in the earliest is killed")
def _(daemon):
    equal(hang(daemon, (40, 7), (41, 6)), 1, "the one in the earlier collective")


@case("SIGTERM goes to ranks that have not joined, though their arenas are held")
def _(daemon):
    daemon.until_trapped(daemon.start())
    daemon.hold(0)
    daemon.hold(1, sealed=False)
    daemon.until_err("rank 1 is not sealed")  # so the one before has been read
    daemon.child.send_signal(signal.SIGTERM)
    daemon.until_err("SIGTERM: the ranks get SIGTERM, and 60 s to end")
    daemon.wait(0)


@case("SIGTERM becomes STOP once ranks have joined, for a daemon that comes back as well, and SIGTERM after the grace")
def _(daemon):
    daemon.until_trapped(daemon.start("--grace", GRACE_S))
    daemon.hold(0)
    daemon.beat(daemon.fds[-1], 1)
    daemon.hold(1, sealed=False)
    daemon.until_err("rank 1 is not sealed")
    daemon.child.send_signal(signal.SIGTERM)
    daemon.expect(STOP)
    daemon.hang_up()
    daemon.listen()
    daemon.accept()
    daemon.hello()
    daemon.welcome()
    daemon.expect(RETURN, fds=1)
    daemon.spawned(0)
    daemon.spawned(1)
    daemon.expect(STOP)
    daemon.until_err(f"have not ended within {GRACE_S} s: SIGTERM")
    daemon.wait(0)


@case("nonsense from the daemon ends the connection, not the ranks")
def _(daemon):
    pids = daemon.start()
    daemon.send(EPOCH, b"\xff" * 20)
    daemon.until_err("EPOCH message")
    daemon.epoch(0xffffffff, 63)
    daemon.send(99, b"x")
    daemon.send(ERROR, struct.pack("<i", -5) + text("a complaint"))
    daemon.until_err("a complaint")
    daemon.conn.send(b"short")
    daemon.accept()
    daemon.hello()
    daemon.welcome()
    equal([daemon.spawned(rank) for rank in range(2)], pids)
    daemon.finish()


@case("a daemon that refuses ends the run before any rank is started")
def _(daemon):
    daemon.run("-n", "2", *sh("touch started"))
    daemon.accept()
    daemon.hello()
    daemon.send(ERROR, struct.pack("<i", -22) + text("world size 2 does not please"))
    daemon.wait(1)
    equal("world size 2 does not please" in daemon.err() and not (daemon.folder / "started").exists(), True, daemon.err())


@case("a daemon that does not answer the greeting ends the run with code 12")
def _(daemon):
    daemon.run("-n", "2", *sh("touch started"))
    daemon.wait(12)
    equal("does not answer" in daemon.err() and not (daemon.folder / "started").exists(), True, daemon.err())


cases.run_beside(rows)
sys.exit(cases.end())
