"""Several users on one node, each with a ckptd of his own, as the units make them: nobody reads, writes or starves another's job. Needs
root, who starts the processes of both."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys

import single_node
import users
from single_node import Cases, expect, until
from users import ANN, BOB, Person, child
from tap import equal, has
from tree import stats

@contextlib.contextmanager
def two():
    ann, bob = Person(ANN), Person(BOB)
    try:
        yield ann.start(), bob.start()
    except Exception as error:
        raise single_node.Failure(f"{type(error).__name__}: {error}\n---- ann\n{ann.text()[-2000:]}\n---- bob\n{bob.text()[-2000:]}") from error
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
        owners = {stat.st_uid for _, stat in stats(d.store)}
        equal(owners, {d.uid}, "owners")
        code, said = d.run("ckpt", "verify", "--repo", d.store, "--all", "--read-data")
        equal(code, 0, said)


def connect(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(single_node.DEADLINE)
        s.connect(path)
        return s.recv(1) == b""


def socket_is_closed(ann, bob):
    equal(child(BOB, connect, str(ann.socket)), "PermissionError", "the other's socket")
    equal(child(ANN, connect, str(bob.socket)), "PermissionError", "the other's socket")
    for d in (ann, bob):
        equal(d.run("ckpt", "status", "--socket", d.socket)[0], 0, "one's own socket")


def socket_left_open(ann, _):
    """The mode of the file is not all that keeps others out."""
    ann.socket.chmod(0o666)
    equal(child(BOB, connect, str(ann.socket)), "True", "hung up")
    until(lambda: f"a process of user {BOB} is refused" in ann.text(), "the refusal is logged")


class Nobody(Person):
    """His ckptd has the number that all others have, too, in a user namespace that does not know them."""

    def launch(self, command, **how):
        return subprocess.Popen(["unshare", "--user", "--map-user=65534", users.top / "bin" / "ckptd", *command[1:]], user=self.uid, group=self.uid, extra_groups=[],
                                umask=users.PRIVATE, **how)


def who_has_the_number_of_all_others_is_refused(*_):
    someone = Nobody(ANN)
    try:
        someone.start()
        someone.socket.chmod(0o666)
        equal(child(BOB, connect, str(someone.socket)), "True", "hung up")
        until(lambda: "a process is refused: it is user 65534 here, as is everyone whom this user namespace does not know" in someone.text(), "the refusal is logged")
    finally:
        someone.close()


def store_is_closed(ann, bob):
    saves(ann)
    code, said = bob.run("ckpt", "list", "--repo", ann.store)
    expect(code != 0 and "ermission" in said, code, said)
    code, said = bob.run("ckptd", "--store", ann.store, "--socket", bob.top / "another")
    expect(code == 1 and "ermission" in said, code, said)


def lock(path):
    """Whoever can open a thing for reading can lock it."""
    with open(path, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(uid, folder):
    """A process of that user holds a lock of the directory."""
    out, end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
            os.write(end, b"+")
            signal.pause()
        finally:
            os._exit(1)
    os.close(end)
    try:
        equal(os.read(out, 1), b"+", f"user {uid} holds {folder}")
        yield
    finally:
        os.close(out)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def nobody_is_locked_out(ann, _):
    ann.stop()
    ann.top.chmod(0o755)
    ann.store.chmod(0o755)
    (ann.store / ".lock").chmod(0o644)  # as it was made before it was closed
    with locked(BOB, ann.top), locked(BOB, ann.store):
        ann.start()
    equal((ann.store / ".lock").stat().st_mode & 0o777, 0o600, "the lock is closed")
    equal(child(BOB, lock, ann.store / ".lock"), "PermissionError", "the lock of a store")
    equal(list(ann.top.glob("*.lock")), [], "the lock of the socket is left behind")


def a_lock_of_root_is_no_obstacle(ann, _):
    saves(ann)
    (ann.store / ".gc-lock").unlink(missing_ok=True)
    subprocess.run([users.top / "bin" / "ckpt", "pin", "latest", "--repo", ann.store], check=True, capture_output=True,
                   env=ann.environment())
    equal((ann.store / ".gc-lock").stat().st_uid, ANN, "the owner of what root has made")
    os.chown(ann.store / ".gc-lock", 0, 0)
    (ann.store / ".gc-lock").chmod(0o644)  # as it was made before
    code, said = ann.run("ckpt", "unpin", "latest", "--repo", ann.store)
    equal(code, 0, said)
    (ann.store / ".gc-lock").unlink()
    ann.store.chmod(0o500)
    code, said = ann.run("ckpt", "pin", "latest", "--repo", ann.store)
    ann.store.chmod(0o700)
    expect(code == 1 and "ermission denied" in said, code, said)


def arenas_of(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            if "memfd:ckpt" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                yield fd


def memory_is_closed(ann, _):
    rank = ann.rank(0, 1, "--steps", 100000, "--pause", 5)
    rank.until(lambda: rank.reached("captured"), "it saves")
    for pid in (ann.process.pid, rank.process.pid):
        arenas = list(arenas_of(pid))
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


top = users.settle()
try:
    cases = Cases(around=contextlib.nullcontext)
    for test in (both_work, socket_is_closed, socket_left_open, who_has_the_number_of_all_others_is_refused, store_is_closed, nobody_is_locked_out, a_lock_of_root_is_no_obstacle,
                 memory_is_closed, nobody_is_starved, root_looks):
        def run(test=test):
            with two() as (ann, bob):
                test(ann, bob)
        cases.run(test.__name__.replace("_", " "), run)
    status = cases.end()
finally:
    shutil.rmtree(top)
sys.exit(status)
