"""ckptd under a service manager, which the test plays: readiness, keep-alives, the passed socket, and arenas that the manager holds while
no process of the job lives."""

import os
import socket
import struct
import sys
import tempfile
import time

import single_node
from single_node import Cases, expect, until
from service_manager import Managed
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, Puppet, all_must, gather, holds, save
from tap import equal, has

def managed(**more):
    return single_node.daemon(kind=Managed, **more)


def pair(d, elements=1000):
    ranks = [Puppet(d, number, 2) for number in range(2)]
    gather(ranks, elements)
    return ranks


def ready():
    with managed() as d:
        d.start(ready=False)
        until(lambda: d.of("READY=1"), "READY=1")
        expect(d.answers(), "it is ready and does not listen")
        d.stop()
        until(lambda: d.of("STOPPING=1"), "STOPPING=1")


def keep_alive():
    with managed(watchdog_ms=400) as d:
        d.start()
        until(lambda: len(d.of("WATCHDOG=1")) > 8, "keep-alives")
        times = d.of("WATCHDOG=1")
        expect(len(times) / (times[-1] - times[0]) < 20, "too many keep-alives:", times)


def loop_stands():
    """Other threads live on; the loop does not turn for two seconds."""
    with managed(watchdog_ms=400) as d:
        d.start(failpoints="conn.send=delay:2000@1")
        until(lambda: d.of("WATCHDOG=1"), "keep-alives")
        began = time.monotonic()
        d.ckpt("status", "--socket", d.socket)
        until(lambda: d.of("WATCHDOG=1")[-1] > began + 2, "keep-alives go on")
        times = [began, *(t for t in d.of("WATCHDOG=1") if t > began)]
        expect(max(b - a for a, b in zip(times, times[1:])) > 1.5, "keep-alives while the loop stood:", times)


def no_watchdog():
    with managed() as d:
        d.start()
        pair(d)
        expect(not d.of("WATCHDOG=1"), "keep-alives that nobody asked for")


def held_and_dropped():
    with managed() as d:
        d.start()
        ranks = pair(d)
        until(lambda: set(d.held()) == {"main/0", "main/1"}, "the arenas are held")
        for fd in d.held().values():
            has(os.readlink(f"/proc/self/fd/{fd}"), "/memfd:ckpt:main")
        all_must(ranks, "close")
        until(lambda: not d.held(), "they are dropped when the job has ended")


def nobody_left(end):
    """Every rank is gone, there is no launcher, and the daemon ends: the snapshot in memory comes back all the same."""
    with managed() as d:
        d.start()
        ranks = pair(d)
        save(ranks, 5, 50, MEMORY, CAPTURED)
        until(lambda: len(d.held()) == 2, "the arenas are held")
        for rank in ranks:
            rank.kill()
        end(d)
        equal(set(d.held()), {"main/0", "main/1"}, "held when the daemon has ended")
        d.passed = d.held()
        d.start()
        ranks = pair(d)
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said == "5 1 memory", "restored", said)
        holds(ranks, 50)
        save(ranks, 10, 60, STORAGE, DURABLE)
        d.verify_all()


def ranks_live_on():
    with managed() as d:
        d.start()
        ranks = pair(d)
        save(ranks, 5, 50, MEMORY, CAPTURED)
        until(lambda: len(d.held()) == 2, "the arenas are held")
        d.kill()
        d.passed = d.held()
        d.start()
        until(lambda: any(rank["state"] == "joined" for job in d.status()["jobs"] for rank in job["ranks"]), "the ranks are back")
        for rank in ranks:  # the daemon may have both back before one of them has heard it
            until(lambda rank=rank: rank.ask("begin", 6, MEMORY, 0).code == 0, "saves are taken again")
        all_must(ranks, "fence", 0)
        all_must(ranks, "wait", 0, CAPTURED, 20000)
        expect(ranks[0].ask("epoch").code == 1, "the epoch was raised for a restart")


def asked_to_end():
    """Those who were asked are known by their arenas when the daemon is another; when they are gone it is over."""
    with managed() as d:
        d.start()
        ranks = pair(d)
        save(ranks, 5, 50, MEMORY, CAPTURED)
        until(lambda: len(d.held()) == 2, "the arenas are held")
        equal(d.ckpt("halt", "--now", "--socket", d.socket)[0], 0, "halt")
        for rank in ranks:
            until(lambda rank=rank: rank.ask("stop").code == 1, "it is asked to end")
        d.kill()
        d.passed = d.held()
        d.start()
        until(lambda: any(rank["state"] == "joined" for job in d.status()["jobs"] for rank in job["ranks"]), "the ranks are back")
        equal([rank.ask("stop").code for rank in ranks], [1, 1], "asked to end")
        d.kill()
        for rank in ranks:
            rank.kill()
        d.passed = d.held()
        d.start()
        ranks = pair(d)
        for said in all_must(ranks, "restore", LATEST, 0):
            expect(said == "5 1 memory", "restored", said)
        equal([rank.ask("stop").code for rank in ranks], [0, 0], "asked to end")


def new_tables():
    """Arenas that do not fit the tables of the next life are replaced, in the manager's hands, too."""
    with managed() as d:
        d.start()
        for rank in pair(d):
            rank.kill()
        until(lambda: len(d.held()) == 2, "the arenas are held")
        old = {name: os.fstat(fd).st_ino for name, fd in d.held().items()}
        pair(d, elements=200000)
        until(lambda: set(d.held()) == set(old) and all(os.fstat(fd).st_ino != old[name] for name, fd in d.held().items()),
              "the new arenas are held in place of the old")


def lingering():
    """A job that does not come back is given up, as any without processes."""
    with managed(options=["--linger", "300ms"]) as d:
        d.start()
        ranks = pair(d)
        until(lambda: len(d.held()) == 2, "the arenas are held")
        d.kill()
        for rank in ranks:
            rank.kill()
        d.passed = d.held()
        d.start()
        until(lambda: not d.held(), "the arenas are dropped")


def garbage():
    with managed() as d:
        with tempfile.TemporaryFile(dir=d.top) as file, tempfile.TemporaryFile(dir=d.top) as other:
            file.write(struct.pack("<I", 2) * 8192)
            file.flush()
            d.passed = {"main/0": file.fileno(), "short/0": other.fileno(), "other": other.fileno(), "../x/1": other.fileno(), "main/64": other.fileno()}
            d.start()
        until(lambda: d.of("FDNAME=main/0") and d.of("READY=1"), "what was refused is dropped")
        has(d.text(), "job main: the arena of rank 0, held by the service manager, is refused", "job short: the arena of rank 0", "'other', which is no arena",
            "'../x/1', which", "'main/64', which")
        save(pair(d), 1, 2)


def passed_socket():
    with managed() as d:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(d.socket))
            listener.listen(16)
            d.passed = {"ckptd.socket": listener.fileno()}
            early = single_node.Client(d)  # before there is a daemon
            d.start(ready=False)
            early.send("HELLO", struct.pack("<II", 99, 99))
            equal(early.receive()[0], "ERROR", "who connected before the daemon started")
            save(pair(d), 1, 2)
            equal(d.stop(), 0, "exit status")
            expect(os.path.exists(d.socket), "the manager's socket was removed")


def wrong_socket():
    with managed() as d:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(d.socket))
            listener.listen(16)
            d.passed = {"ckptd.socket": listener.fileno()}
            d.start(ready=False)
            equal(d.process.wait(single_node.DEADLINE), 1, "exit status")
            has(d.text(), "ListenSequentialPacket=")
            expect(not d.of("READY=1"), "it said that it is ready")


def main():
    # In a build without libsystemd the daemon says so, and there is nothing to test.
    with managed() as d:
        d.start()
        if "built without libsystemd" in d.text():
            print("ckptd is built without libsystemd")
            return 77
    cases = Cases()
    for test in (ready, keep_alive, loop_stands, no_watchdog, held_and_dropped):
        cases.run(test.__name__.replace("_", " "), test)
    cases.run("nobody left, daemon killed", nobody_left, lambda d: d.kill())
    cases.run("nobody left, daemon stopped", nobody_left, lambda d: d.stop())
    for test in (ranks_live_on, asked_to_end, new_tables, lingering, garbage, passed_socket, wrong_socket):
        cases.run(test.__name__.replace("_", " "), test)
    return cases.end()


sys.exit(main())
