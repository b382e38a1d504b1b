"""Several users on one node, each with a ckptd of his own, as the units make them: nobody reads, writes or starves another's job. Needs
root, who starts the processes of both.
timeout: 240"""

import contextlib
import os
import pathlib
import shutil
import socket
import sys
import tempfile

import fleet
from fleet import BIN, Cases, expect, until
from tap import equal, has

ANN, BOB = 45001, 45002
PRIVATE = 0o077  # UMask= of the units

# Folders between the file system's root and the programs may be closed to both.
top = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
top.chmod(0o711)


class Own(fleet.Daemon):
    """A daemon and ranks of one user."""

    def __init__(self, uid):
        super().__init__(top=tempfile.mkdtemp(dir=top))
        os.chown(self.top, uid, uid)
        self.top.chmod(0o711)  # so that what keeps others out is what ckptd makes
        self.uid = uid

    def spawn(self, command, **how):
        program = top / "bin" / pathlib.Path(command[0]).name
        (self.top / "pace").exists() and os.chown(self.top / "pace", self.uid, self.uid)
        return super().spawn([program, *command[1:]], user=self.uid, group=self.uid, extra_groups=[], umask=PRIVATE, **how)

    def environment(self, **more):
        return dict(super().environment(**more), LD_LIBRARY_PATH=str(top / "lib"), HOME=str(self.top))


def child(uid, what, *args):
    """What the function returns (a text) when that user calls it, or the name of its exception."""
    out, end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            text = str(what(*args))
        except BaseException as error:
            text = type(error).__name__
        os.write(end, text.encode())
        os._exit(0)
    os.close(end)
    with os.fdopen(out) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return text


def as_user(d, *words):
    """A program of ckpt's, run by that user: (exit status, what it said)."""
    with open(d.top / "said", "w+b") as said:
        os.chown(d.top / "said", d.uid, d.uid)
        process = d.spawn(words, stdin=said, stdout=said, stderr=said, env=d.environment(CKPT_CONFIG="/dev/null"))
        code = process.wait(fleet.DEADLINE)
    return code, (d.top / "said").read_text()


@contextlib.contextmanager
def two():
    ann, bob = Own(ANN), Own(BOB)
    try:
        yield ann.start(), bob.start()
    except Exception as error:
        raise fleet.Failure(f"{type(error).__name__}: {error}\n---- ann\n{ann.text()[-2000:]}\n---- bob\n{bob.text()[-2000:]}") from error
    finally:
        ann.close()
        bob.close()


def saves(d, steps=40):
    ranks = d.world(2, "--steps", steps, "--storage", 10, "--pause", 5)
    for rank in ranks:
        equal(rank.wait(), 0, f"a rank of user {d.uid}")
    return ranks


def both_work(ann, bob):
    for d in (ann, bob):
        saves(d)
        expect(d.committed(), f"user {d.uid} has no checkpoint")
        owners = {os.stat(p).st_uid for p in [d.store, *d.store.rglob("*")]}
        equal(owners, {d.uid}, "owners")
        code, said = as_user(d, "ckpt", "verify", "--repo", d.store, "--all", "--read-data")
        equal(code, 0, said)


def connect(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(fleet.DEADLINE)
        s.connect(path)
        return s.recv(1) == b""


def socket_is_closed(ann, bob):
    equal(child(BOB, connect, str(ann.socket)), "PermissionError", "the other's socket")
    equal(child(ANN, connect, str(bob.socket)), "PermissionError", "the other's socket")
    for d in (ann, bob):
        equal(as_user(d, "ckpt", "status", "--socket", d.socket)[0], 0, "one's own socket")


def socket_left_open(ann, _):
    """The mode of the file is not all that keeps others out."""
    ann.socket.chmod(0o666)
    equal(child(BOB, connect, str(ann.socket)), "True", "hung up")
    until(lambda: f"a process of user {BOB} is refused" in ann.text(), "the refusal is logged")


def store_is_closed(ann, bob):
    saves(ann)
    code, said = as_user(bob, "ckpt", "list", "--repo", ann.store)
    expect(code != 0 and "ermission" in said, code, said)
    code, said = as_user(bob, "ckptd", "--store", ann.store, "--socket", bob.top / "another")
    expect(code == 1 and "ermission" in said, code, said)


def memory_is_closed(ann, _):
    rank = ann.rank(0, 1, "--steps", 100000, "--pause", 5)
    rank.until(lambda: rank.reached("captured"), "it saves")
    for pid in (ann.process.pid, rank.process.pid):
        arenas = [fd for fd in os.listdir(f"/proc/{pid}/fd") if "memfd:ckpt" in os.readlink(f"/proc/{pid}/fd/{fd}")]
        expect(arenas, "no arena in process", pid)
        for fd in arenas:
            equal(child(BOB, os.open, f"/proc/{pid}/fd/{fd}", os.O_RDONLY), "PermissionError", "the other's arena")
        equal(child(BOB, os.open, f"/proc/{pid}/mem", os.O_RDONLY), "PermissionError", "the other's memory")
        equal(child(BOB, os.kill, pid, 9), "PermissionError", "a signal to the other's process")


def knock(path):
    for _ in range(20000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            with contextlib.suppress(OSError):
                s.connect(path)
    return "done"


def nobody_is_starved(ann, bob):
    """While the other knocks without end."""
    ann.socket.chmod(0o666)
    pid = os.fork()
    if not pid:
        os.setsid()
        while True:
            child(BOB, knock, str(ann.socket))
    try:
        until(lambda: f"a process of user {BOB} is refused" in ann.text(), "he knocks")
        saves(ann)
        expect(ann.committed(), "no checkpoint")
    finally:
        os.killpg(pid, 9)
        os.waitpid(pid, 0)


def root_looks(ann, _):
    rank = ann.rank(0, 1, "--steps", 100000, "--storage", 10, "--pause", 5)
    rank.until(lambda: rank.reached("captured") and ann.committed(), "it saves")
    code, out, err = ann.ckpt("status", "--socket", ann.socket)
    equal(code, 0, err)
    has(out, "main")
    code, out, err = ann.ckpt("list", "--repo", ann.store)
    equal(code, 0, err)
    has(out, "main")


if os.geteuid() != 0:
    print("not root: only root can start processes of two users")
    sys.exit(77)
shutil.copytree(BIN.parent / "lib", top / "lib", symlinks=True)
(top / "bin").mkdir()
for name in ("ckptd", "ckpt", "drive"):
    shutil.copy(BIN / name, top / "bin" / name)
try:
    cases = Cases(around=contextlib.nullcontext)
    for test in (both_work, socket_is_closed, socket_left_open, store_is_closed, memory_is_closed, nobody_is_starved, root_looks):
        def run(test=test):
            with two() as (ann, bob):
                test(ann, bob)
        cases.run(test.__name__.replace("_", " "), run)
    status = cases.end()
finally:
    shutil.rmtree(top)
sys.exit(status)
