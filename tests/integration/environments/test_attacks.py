"""What one user of `ckptd --system` can do to the others: a second user saves and joins anew meanwhile, unharmed. Needs root."""

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import socket
import statistics
import struct
import time

import system_service  # first: it starts this again
from single_node import expect, until
from system_service import ManagedSystem, System, again, puppets, service
from users import ANN, BOB, child
from scripted_ranks import DURABLE, LATEST, STORAGE, Puppet, all_must, save


def knock(path):
    """Connections without end; some are kept."""
    kept = []
    while True:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(1)
        with contextlib.suppress(OSError):
            s.connect(str(path))
            kept.append(s)
        if len(kept) > 500:
            kept = kept[250:]


def linger(path):
    """Sockets that whoever closes them last must wait for, sent into connections that are closed by the other end."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(16)
    kept = []
    while True:
        plug = socket.socket()
        plug.connect(server.getsockname())
        kept.append(server.accept()[0])
        plug.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                plug.send(b"x" * 65536)
        plug.setblocking(True)
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30))
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(1)
            s.connect(str(path))
            s.sendmsg([b"x" * 16], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", plug.fileno()))])
            os.close(plug.detach())
        if len(kept) > 200:
            kept = kept[100:]


def silent(path):
    """As many connections as one gets, and then not a word."""
    kept = []
    for _ in range(400):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(str(path))
        kept.append(s)
    signal.pause()


@contextlib.contextmanager
def attackers(uid, what, path, n=2):
    pids = []
    for _ in range(n):
        pid = os.fork()
        if not pid:
            os.setsid()
            child(uid, what, path)
            os._exit(0)
        pids.append(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def timed_saves(ranks, n, first):
    """Seconds from begin to captured, and to durable, of each."""
    took = []
    for i in range(n):
        began = time.monotonic()
        save(ranks, first + i, i, STORAGE, DURABLE)
        took.append(time.monotonic() - began)
    return took


def replaced(ann, ranks):
    """Seconds until a new second rank has what the one that is killed here had."""
    ranks[1].kill()
    ranks[1] = Puppet(ann, 1, 2)
    began = time.monotonic()
    again(ranks)
    all_must(ranks, "restore", LATEST, 0)
    return time.monotonic() - began


def bound(quiet):
    """Seconds that what took so long without him may take beside him: on a slow machine more than what is far too long on any other."""
    return max(10, 50 * quiet)


def unharmed(attack):
    """She saves, and joins anew, while he does what he can."""
    with service(kind=ManagedSystem if attack is lying else System) as (system, ann, bob, _):
        ranks = puppets(ann)
        quiet = statistics.median(timed_saves(ranks, 20, 100))
        joined_quiet = replaced(ann, ranks)
        with attack(system, bob):
            loud = timed_saves(ranks, 20, 200)
            joined = replaced(ann, ranks)
            save(ranks, 300, 7, STORAGE, DURABLE)
        print(f"# saves: {quiet * 1e3:.1f} ms quiet, {statistics.median(loud) * 1e3:.1f} ms (most {max(loud) * 1e3:.1f} ms) "
              f"beside it; a rank replaced in {joined_quiet * 1e3:.0f} ms quiet, {joined * 1e3:.0f} ms beside it", flush=True)
        expect(max(loud) < bound(quiet), "a save of hers took", max(loud), "and without him", quiet)
        expect(joined < bound(joined_quiet), "a rank of hers was replaced in", joined, "and without him in", joined_quiet)
        expect(system.user(ANN)["starts"] == 1, "her worker was started again")


@contextlib.contextmanager
def flood(system, bob):
    with attackers(BOB, knock, system.socket):
        until(lambda: system.user(BOB).get("connections", 0) > 500 or "bob" in system.text(), "he knocks")
        yield


@contextlib.contextmanager
def flood_refused(system, bob):
    system.config.write_text("[user bob]\nallow = no\n")
    system.process.send_signal(signal.SIGHUP)
    until(lambda: "read again" in system.text(), "the configuration is read")
    with attackers(BOB, knock, system.socket):
        until(lambda: "may not use" in system.text(), "he knocks")
        yield


@contextlib.contextmanager
def lingering(system, bob):
    with attackers(BOB, linger, system.socket):
        until(lambda: system.user(BOB).get("connections", 0) > 5, "he connects")
        yield


@contextlib.contextmanager
def lingering_refused(system, bob):
    system.config.write_text("[user bob]\nallow = no\n")
    system.process.send_signal(signal.SIGHUP)
    until(lambda: "read again" in system.text(), "the configuration is read")
    with attackers(BOB, linger, system.socket):
        until(lambda: "may not use" in system.text(), "he connects")
        yield


@contextlib.contextmanager
def stopped_worker(system, bob):
    bob.run("ckpt", "status", "--socket", system.socket)
    os.kill(system.served(BOB), signal.SIGSTOP)
    with attackers(BOB, silent, system.socket):
        until(lambda: system.user(BOB).get("waiting", 0) > 0, "he has filled his queue")
        yield


@contextlib.contextmanager
def chatty(system, bob):
    """His worker writes what he likes, as fast as it can: he may trace it, and it may as well be he."""
    bob.run("ckpt", "status", "--socket", system.socket)
    pid = system.served(BOB)
    log = os.readlink(f"/proc/{pid}/fd/2")
    expect(log.startswith("pipe:"), "the worker's log is", log)
    stop = os.fork()
    if not stop:
        with open(f"/proc/{pid}/fd/2", "wb", buffering=0) as out:
            while True:
                out.write(b"00:00:00.000 error ann: she lies\n" * 50)
    try:
        until(lambda: "lines were too many" in system.text(), "he writes")
        yield
        expect(len(system.text()) < 4 << 20, "the log has", len(system.text()))
        expect("error ann" not in re.sub(r"bob: .*", "", system.text()), "he writes in her name")
    finally:
        os.kill(stop, signal.SIGKILL)
        os.waitpid(stop, 0)


def post(kind, a=0, b=0, text=b""):
    return struct.pack("=IiQQQ256s", kind, 0, a, b, 0, text)


KEEP, DROP, TURN, WANT, USED = 6, 7, 8, 9, 11


@contextlib.contextmanager
def lying(system, bob):
    """He may trace his worker and so send what he likes where it writes to the warden."""
    bob.run("ckpt", "status", "--socket", system.socket)
    pid = system.served(BOB)
    pidfd = os.pidfd_open(pid)
    libc = ctypes.CDLL(None, use_errno=True)
    channel, ledger = (socket.socket(fileno=libc.syscall(438, pidfd, fd, 0)) for fd in (3, 4))
    channel.setblocking(False)
    ledger.setblocking(False)
    arena = os.memfd_create("lie", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(arena, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    ordinary = os.open(bob.top, os.O_RDONLY)
    stop = os.fork()
    if not stop:
        lies = [(channel, post(KEEP, text=b"j%d/%d" % (i // 60, i % 60)), [arena]) for i in range(600)]
        lies += [(channel, post(KEEP, text=b"a/1"), [ordinary]), (channel, post(KEEP, text=b"a\nMAINPID=1\nx/1"), [arena]),
                 (channel, post(KEEP, text=b"../a/1"), [arena]), (channel, post(KEEP, text=b"a/1 "), [arena]),
                 (channel, post(KEEP, text=b"x" * 256), [arena] * 200), (channel, b"short", [ordinary] * 253),
                 (channel, post(KEEP), []), (channel, post(DROP, text=b"never"), []), (channel, post(99), []), (channel, post(0), []),
                 (channel, post(TURN, a=1 << 60, b=1), []), (ledger, post(WANT, a=1 << 63), []), (ledger, post(USED, a=0), []),
                 (ledger, b"", [ordinary]), (ledger, post(WANT, a=1 << 20), [ordinary])]
        while True:
            for sock, data, fds in lies:
                with contextlib.suppress(OSError):
                    socket.send_fds(sock, [data], fds)
            with contextlib.suppress(OSError):
                while True:
                    ledger.recv(1000)
    try:
        until(lambda: "no arena, or too much" in system.text(), "he lies")
        yield
        told = [line for _, lines in system.told for line in lines]
        expect(not [line for line in told if not re.fullmatch(r"FDSTORE=1|FDSTOREREMOVE=1|FDNAME=45002/j\d+/\d+|FDNAME=45001/main/[01]|READY=1|STATUS=.*|", line)],
               "systemd was told", set(told))
        expect(system.user(BOB)["arenas_held"] <= 512, system.user(BOB))
        expect(len(os.listdir(f"/proc/{system.process.pid}/fd")) < 700, "descriptors of the warden:", len(os.listdir(f"/proc/{system.process.pid}/fd")))
    finally:
        os.kill(stop, signal.SIGKILL)
        os.waitpid(stop, 0)
        os.close(arena)
        os.close(ordinary)


ATTACKS = (flood, flood_refused, lingering, lingering_refused, stopped_worker, chatty, lying)
system_service.run([(f"unharmed: {attack.__name__.replace('_', ' ')}", unharmed, attack) for attack in ATTACKS])
