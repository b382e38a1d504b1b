"""A daemon and the ranks of small jobs (tests/crash/tools/drive.c), for tests that kill and starve them; and the control protocol
spoken by hand, for tests that abuse it."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile

from tap import BIN, DEADLINE, NIGHTLY, Cases, Failure, expect, until  # also for those who import them from here


class Daemon:
    """One ckptd on a store and a socket of its own; started and killed any number of times."""

    def __init__(self, top=None, store=True, options=()):
        self.top = pathlib.Path(top or tempfile.mkdtemp())
        self.store, self.socket, self.log = self.top / "store", self.top / "s", self.top / "ckptd.log"
        self.fired = self.top / "failpoints"
        self.options = (["--store", str(self.store)] if store else []) + ["--node", "n0", *map(str, options)]
        self.process, self.ranks = None, []

    def environment(self, **more):
        env = {**os.environ, "CKPT_SOCKET": str(self.socket), "CKPT_FAILPOINT_LOG": str(self.fired), "CKPT_JOB": "main", **more}
        env.pop("CKPT_STORE", None)
        return env

    def start(self, failpoints="", ready=True, **variables):
        with open(self.log, "ab") as log:
            self.process = self.launch([BIN / "ckptd", "--socket", self.socket, *self.options],
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       env=self.environment(CKPT_FAILPOINTS=failpoints, **variables))
        if ready:
            until(lambda: self.answers() or self.process.poll() is not None, "the daemon listens")
        return self

    def launch(self, command, **how):
        """The daemon; others of this machine go through spawn."""
        return self.spawn(command, **how)

    def spawn(self, command, **how):
        return subprocess.Popen(command, **how)

    def answers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            try:
                s.connect(str(self.socket))
                return True
            except OSError:
                return False

    def look(self):
        """The answer to STATUS. None: the daemon has hung up, as it does on who is kept from saying HELLO for 5 s, by a busy machine."""
        try:
            with contextlib.closing(Client(self)) as c:
                return c.ask("HELLO", hello(OBSERVER, job="")) and c.ask("STATUS")
        except (BrokenPipeError, ConnectionResetError):
            return None

    def status(self):
        """What `ckpt status --json` prints, without a process for it: it is looked at again and again while something is waited for."""
        kind, _, body, _ = until(self.look, "the daemon says its status")
        expect(kind == "STATUS", f"{kind} instead of the daemon's status: {body}")
        return json.loads(body)

    def job(self, name="main"):
        """None: the daemon has no such job."""
        return next((job for job in self.status()["jobs"] if job["name"] == name), None)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.process:
            self.process.kill()
            return self.process.wait()
        return None

    def stands(self, condition):
        """Whether the condition holds while the daemon stands still. If it does, the daemon stands still from then on, until it is killed or goes_on."""
        self.process.send_signal(signal.SIGSTOP)
        if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # so that the next one is waited for
        holds = condition()
        if not holds:
            self.goes_on()
        return holds

    def goes_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """A clean end; the exit status."""
        self.process.terminate()
        return self.process.wait(DEADLINE)

    def rank(self, number, world, *options, name=None, env=None):
        rank = Rank(self, number, world, options, name or f"rank{number}", env or {})
        self.ranks.append(rank)
        return rank

    def world(self, world, *options, **more):
        return [self.rank(r, world, *options, **more) for r in range(world)]

    def endless(self, world, *options):
        """Ranks, and the file whose being there ends them (finish)."""
        stop = self.top / "stop"
        stop.unlink(missing_ok=True)
        (self.top / "pace").unlink(missing_ok=True)
        return stop, self.world(world, *options, "--until-file", stop)

    def close(self):
        for rank in self.ranks:
            rank.kill()
        self.kill()

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def descriptors(self):
        """Those that clients can make it open; what it opens to read and write its store comes and goes."""
        count, folder = 0, f"/proc/{self.process.pid}/fd"
        for fd in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{fd}")
                count += not target.startswith(str(self.store)) and target != "anon_inode:[io_uring]"
        return count

    def memory(self):
        """Resident bytes of the daemon that are its own: shared memory of arenas is accounted to the ranks that asked for it."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1)) << 10

    # ---- the store, as an operator sees it

    def ckpt(self, *args, seconds=DEADLINE):
        done = subprocess.run([BIN / "ckpt", *map(str, args)], capture_output=True, text=True, timeout=seconds,
                              env=self.environment())
        return done.returncode, done.stdout, done.stderr

    def directories(self):
        """{(epoch, step): has a manifest}"""
        found = {}
        for path in self.store.glob("main/step-*"):
            match = re.fullmatch(r"step-(\d+)\.e(\d+)", path.name)
            if match:
                found[int(match.group(2)), int(match.group(1))] = (path / "MANIFEST.json").exists()
        return found

    def committed(self):
        return sorted(key for key, whole in self.directories().items() if whole)

    def verify_all(self):
        """Every checkpoint that is listed is whole. A quick disk leaves hundreds of them."""
        code, out, err = self.ckpt("verify", "--repo", self.store, "--all", "--read-data", seconds=3 * DEADLINE)
        expect(code == 0 or not self.committed(), f"verify: exit {code}: {out}{err}")


class Rank:
    def __init__(self, daemon, number, world, options, name, env):
        self.daemon, self.number = daemon, number
        self.has_past = bool(daemon.committed())
        self.log = daemon.top / name
        self.began = len(self.of("fresh"))  # an earlier process of this name may have written to the same log
        (daemon.top / "pace").touch()
        variables = daemon.environment(CKPT_RANK=str(number), CKPT_WORLD=str(world), CKPT_FAILPOINTS="")
        variables.update(env)
        with open(daemon.top / f"{name}.err", "ab") as err:
            self.process = daemon.spawn([BIN / "drive", "--log", self.log, "--pace", daemon.top / "pace", *map(str, options)],
                                        stdin=subprocess.DEVNULL, stdout=err, stderr=err, env=variables)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()

    def wait(self, seconds=DEADLINE):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"rank {self.number} still runs; its log ends {self.lines()[-3:]}") from None

    def lines(self):
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(errors="replace").split("\n")[:-1]]

    def of(self, word):
        """The lines that begin with that word, split."""
        return [line.split() for line in self.lines() if line.startswith(word + " ")]

    def reached(self, level):
        """{(epoch, step)} acknowledged at that level."""
        return {(int(epoch), int(step)) for _, step, epoch in self.of(level)}

    def check_memory(self):
        """Whoever starts beside committed checkpoints restores one, and never begins from nothing."""
        expect(not self.has_past or len(self.of("fresh")) == self.began, f"rank {self.number} began from nothing beside its checkpoints")

    def until(self, condition, what):
        return until(lambda: condition() or self.process.poll() is not None, f"rank {self.number}: {what}")


def finish(stop, running):
    stop.touch()
    for rank in running:
        expect(rank.wait() == 0, f"rank {rank.number} ended with {rank.process.returncode}: {rank.lines()[-3:]}")


@contextlib.contextmanager
def daemon(kind=Daemon, **options):
    d = kind(**options)
    try:
        yield d
    except Exception as error:
        logs = "".join(f"---- {p.name}\n{p.read_text(errors='replace')[-3000:]}"
                       for p in sorted(d.top.glob("*")) if p.is_file())
        raise Failure(f"{type(error).__name__}: {error}\n{logs}") from error
    finally:
        d.close()


# ---- the control protocol by hand ------------------------------------------------------------------------------------

TYPES = ["", "HELLO", "WELCOME", "ERROR", "REGISTER", "ARENA", "JOIN", "JOINED", "RESTORE", "RESTORED", "EVENT", "EPOCH", "HOLD",
         "RETURN", "SPAWNED", "EXITED", "STOP", "STATUS", "BYE", "COMMAND", "USER", "MOVED", "OFFER", "PLAN",
         "MARK"]
NUMBER = {name: i for i, name in enumerate(TYPES)}
RANK, LAUNCHER, OBSERVER = 1, 2, 3
PROTOCOL = 2


def text(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<H", len(data)) + data


def hello(role=RANK, job="hostile", rank=0, world=1, local=None, epoch=0, slots=3, plan=0, low=PROTOCOL, high=PROTOCOL,
          version="x"):
    if role == OBSERVER:
        rank = world = local = slots = 0
    return struct.pack("<II", low, high) + text(version) + struct.pack("<I", role) + text(job) + struct.pack(
        "<IIIBIII", rank, world, world if local is None else local, 0, epoch, slots, plan)


class Client:
    """A connection that says whatever it is told to."""

    def __init__(self, d, timeout=DEADLINE):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(timeout)
        self.sock.connect(str(d.socket))

    def close(self):
        self.sock.close()

    def raw(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
        return self.sock.sendmsg([data], control)

    def send(self, kind, body=b"", seq=1, fds=(), flags=0, length=None):
        number = NUMBER[kind] if isinstance(kind, str) else kind
        length = len(body) if length is None else length
        return self.raw(struct.pack("=HHIQ", number, flags, seq, length) + body, fds)

    def receive(self):
        """(type, seq, body, fds); None when the daemon has hung up."""
        try:
            data, control, _, _ = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(160 * 4))
        except (ConnectionResetError, BrokenPipeError):
            return None
        fds = []
        for level, kind, raw in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += struct.unpack(f"{len(raw) // 4}i", raw[:len(raw) // 4 * 4])
        if not data:
            return None
        number, flags, seq, length = struct.unpack("=HHIQ", data[:16])
        body = data[16:]
        if flags & 1:
            body = os.pread(fds[0], length, 0)
            os.close(fds.pop(0))
        return TYPES[number], seq, body, fds

    def ask(self, kind, body=b"", fds=(), seq=7):
        self.send(kind, body, seq, fds)
        while True:
            answer = self.receive()
            if answer is None or answer[1] == seq:
                return answer

    def gone(self):
        """Whether the daemon hangs up; what it says before is read."""
        while self.receive() is not None:
            pass
        return True
