"""One service for all users of a node: `ckptd --system`. Each has a worker that runs as he does; what they share, who may, and what becomes
of it when a part ends. What one may do to the others is in test_attacks. Needs root."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import stat
import struct

import system_service  # first: it starts this again
import single_node
import users
from single_node import DEADLINE, NIGHTLY, expect, finish, until
from system_service import Guest, ManagedSystem, System, again, owners, puppets, saves, service, top
from users import ANN, BOB, child
from scripted_ranks import CAPTURED, DURABLE, LATEST, MEMORY, STORAGE, Puppet, all_must, each, ended, holds, save
from tap import equal, has


def both_work():
    with service() as (system, ann, bob, _):
        ranks = [g.world(2, "--steps", 60, "--storage", 10, "--pause", 5) for g in (ann, bob)]
        for guest, own in zip((ann, bob), ranks):
            for rank in own:
                equal(rank.wait(), 0, f"a rank of user {guest.uid}")
        for guest in (ann, bob):
            expect(guest.committed(), f"user {guest.uid} has no checkpoint")
            equal(owners(guest.store), {guest.uid}, "owners")
            equal(stat.S_IMODE(guest.store.stat().st_mode), 0o700, "mode of the store")
            code, said = guest.run("ckpt", "verify", "--repo", guest.store, "--all", "--read-data")
            equal(code, 0, said)
        for guest in (ann, bob):
            equal(pathlib.Path(f"/proc/{system.served(guest.uid)}").stat().st_uid, guest.uid, "the worker's user")


def killed_rank_is_restored():
    """Of both users, at the same time."""
    with service() as (system, ann, bob, _):
        for guest in (ann, bob):
            ranks = puppets(guest)
            save(ranks, 5, 50 + guest.uid, MEMORY, CAPTURED)
            ranks[1].kill()
            guest.pair = [ranks[0], Puppet(guest, 1, 2)]
        for guest in (ann, bob):
            again(guest.pair)
            for said in all_must(guest.pair, "restore", LATEST, 0):
                has(said, "memory")
            holds(guest.pair, 50 + guest.uid)


def others_are_not_seen():
    with service() as (system, ann, bob, _):
        rank = ann.rank(0, 1, "--steps", 100000, "--storage", 10, "--pause", 5, name="hers")
        rank.until(lambda: rank.reached("captured") and ann.committed(), "it saves")
        equal([job["name"] for job in ann.status()["jobs"]], ["main"], "her jobs")
        equal(bob.status()["jobs"], [], "what he is shown of hers")
        code, said = bob.run("ckpt", "list", "--repo", ann.store)
        expect(code != 0 and "ermission" in said, code, said)
        worker = system.served(ANN)
        for pid in (worker, rank.process.pid, system.process.pid):
            for path in (f"/proc/{pid}/mem", f"/proc/{pid}/fd/3"):
                equal(child(BOB, os.open, path, os.O_RDONLY), "PermissionError", path)
            equal(child(BOB, os.kill, pid, 9), "PermissionError", "a signal to another's process")
        # Her rank 0 is not his: the same name is another job.
        his = bob.rank(0, 1, "--steps", 20, name="his")
        equal(his.wait(), 0, "his rank of the same job name")
        expect(rank.process.poll() is None, "her rank has ended")
        equal(system.worker(ANN), worker, "her worker")


def only_root_looks_at_others():
    with service() as (system, ann, bob, _):
        saves(ann)
        saves(bob)
        names = {u["name"]: u["state"] for u in system.overview()["users"]}
        equal(names, {"ann": "served", "bob": "served"}, "what root sees")
        code, out, err = system.ckpt("status", "--socket", system.socket)
        equal(code, 0, err)
        has(out, "ann", "bob", "for all users")
        code, out, err = system.ckpt("status", "--user", "ann", "--json", "--socket", system.socket)
        equal(code, 0, err)
        equal(json.loads(out)["store"], str(ann.store), "root looks at her part")
        code, out, err = system.ckpt("status", "--user", "eve", "--socket", system.socket)
        expect(code != 0, "a user without a worker")
        has(err, "eve", "ann, bob")
        code, out, err = system.ckpt("top", "--once", "--socket", system.socket)
        has(err, "--user")
        code, out, err = system.ckpt("top", "--once", "--user", "bob", "--socket", system.socket)
        equal(code, 0, err)
        code, said = bob.run("ckpt", "status", "--user", "ann", "--socket", system.socket)
        expect(code != 0 and "only root" in said, code, said)
        # His command line may be another one than ours: the first word of his connection is for his own worker.
        client = child(BOB, visit, system.socket, b"ann")
        has(client, "USER before HELLO")


def visit(path, name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(DEADLINE)
        s.connect(str(path))
        body = struct.pack("<H", len(name)) + name
        s.send(struct.pack("=HHIQ", single_node.NUMBER["USER"], 0, 1, len(body)) + body)
        return s.recv(4096)[16:].decode(errors="replace")


def who_may():
    config = "[user]\nallow = no\n[user ann]\nallow = yes\n[user @team]\nallow = yes\n"
    with service(config=config) as (system, ann, bob, eve):
        saves(ann, steps=10)
        saves(eve, steps=10)  # by her group
        code, said = bob.run("ckpt", "status", "--socket", system.socket)
        expect(code != 0, "he is served")
        has(said, "user bob may not use this service", "ckpt.conf:2")
        rank = bob.rank(0, 1, "--steps", 10)
        expect(rank.wait() != 0, "his rank is served")
        has((bob.top / "rank0.err").read_text(), "user bob may not use this service")
        expect(not bob.store.exists(), "a store was made for him")
        system.config.write_text("")
        system.process.send_signal(signal.SIGHUP)
        until(lambda: "read again" in system.text(), "the configuration is read")
        until(lambda: bob.run("ckpt", "status", "--socket", system.socket)[0] == 0, "he may now")


def accounts_of_the_system():
    with service() as (system, *_):
        for uid, why in ((1, "accounts below 1000"), (45999, "is not known here")):
            has(child(uid, greeted, system.socket), why)
        expect(not list(system.stores.iterdir()), "stores were made")


def greeted(path):
    """What is answered to a HELLO."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(DEADLINE)
        s.connect(str(path))
        with contextlib.suppress(BrokenPipeError):
            s.send(struct.pack("=HHIQ", single_node.NUMBER["HELLO"], 0, 1, 0))
        return s.recv(4096).decode(errors="replace")


def killed_worker():
    """Ranks go on as with any daemon that is started anew; the other user does not notice."""
    with service() as (system, ann, bob, _):
        hers, his = puppets(ann), puppets(bob)
        save(hers, 5, 50, MEMORY, CAPTURED)
        worker, other = system.served(ANN), system.served(BOB)
        os.kill(worker, signal.SIGKILL)
        until(lambda: system.user(ANN).get("state") == "served" and system.worker(ANN) != worker, "another worker")
        until(lambda: '"joined"' in json.dumps(ann.status()), "her ranks are back")
        until(lambda: hers[0].ask("begin", 6, MEMORY, 0).code == 0, "saves are taken again")
        hers[1].must("begin", 6, MEMORY, 0)
        all_must(hers, "fence", 0)
        all_must(hers, "wait", 0, CAPTURED, 20000)
        expect(hers[0].ask("epoch").code == 1, "the epoch was raised for a restart")
        save(his, 5, 60, STORAGE, DURABLE)
        equal(system.worker(BOB), other, "his worker")


def killed_worker_and_nobody_left():
    """The warden alone holds the arenas."""
    with service() as (system, ann, _, _):
        ranks = puppets(ann)
        save(ranks, 5, 50, MEMORY, CAPTURED)
        worker = system.served(ANN)
        until(lambda: system.user(ANN)["arenas_held"] == 2, "the arenas are held")
        for rank in ranks:
            rank.kill()
        os.kill(worker, signal.SIGKILL)
        until(lambda: system.user(ANN).get("state") == "served" and system.worker(ANN) != worker, "another worker")
        ranks = puppets(ann)
        for said in all_must(ranks, "restore", LATEST, 0):
            equal(said, "5 1 memory", "restored")
        holds(ranks, 50)


def killed_warden(end):
    with service() as (system, ann, bob, _):
        hers, his = puppets(ann), puppets(bob)
        save(hers, 5, 50, MEMORY, CAPTURED)
        save(his, 5, 60, STORAGE, DURABLE)
        workers = [system.served(uid) for uid in (ANN, BOB)]
        end(system)
        for pid in workers:
            until(lambda pid=pid: ended(pid), "the workers end")
        expect(hers[0].ask("begin", 6, MEMORY, 0).code < 0, "a save without a service")
        system.start()
        for guest, ranks in ((ann, hers), (bob, his)):
            until(lambda guest=guest: '"joined"' in json.dumps(guest.status()), "the ranks are back")
            until(lambda ranks=ranks: ranks[0].ask("begin", 7, STORAGE, 0).code == 0, "saves are taken again")
            ranks[1].must("begin", 7, STORAGE, 0)
            all_must(ranks, "fence", 0)
            all_must(ranks, "wait", 0, DURABLE, 20000)
            expect(ranks[0].ask("epoch").code == 1, "the epoch was raised for a restart")
            code, said = guest.run("ckpt", "verify", "--repo", guest.store, "--all", "--read-data")
            equal(code, 0, said)


def killed_warden_and_nobody_left():
    """The service manager holds the arenas of all users for the warden, and gives each to the user whose it was."""
    with service(kind=ManagedSystem) as (system, ann, bob, _):
        if "built without libsystemd" in system.text():
            return "ckptd is built without libsystemd"
        for guest in (ann, bob):
            ranks = puppets(guest)
            save(ranks, 5, guest.uid, MEMORY, CAPTURED)
            for rank in ranks:
                rank.kill()
        names = {f"{uid}/main/{rank}" for uid in (ANN, BOB) for rank in range(2)}
        until(lambda: set(system.held()) == names, "the arenas are held")
        workers = [system.served(uid) for uid in (ANN, BOB)]
        system.kill()
        for pid in workers:
            until(lambda pid=pid: ended(pid), "the workers end")
        system.passed = dict(system.held(), **{"45003/../0": system.held()[f"{ANN}/main/0"]})
        system.start()
        for guest in (ann, bob):
            ranks = puppets(guest)
            for said in all_must(ranks, "restore", LATEST, 0):
                equal(said, "5 1 memory", "restored")
            holds(ranks, guest.uid)
            all_must(ranks, "close")
        until(lambda: not system.held() or system.held().keys() == {"45003/../0"}, "they are dropped when the jobs have ended")
        return None


def silent_worker_is_killed():
    if not NIGHTLY:
        return "it takes a minute: in the nightly tests"
    with service() as (system, ann, _, _):
        saves(ann, steps=10)
        worker = system.served(ANN)
        os.kill(worker, signal.SIGSTOP)
        until(lambda: "has not turned" in system.text(), "it is killed", 90)
        saves(ann, steps=10)
        return None


def seen_at_work(system, guest):
    """A worker of hers, while it has something to do."""
    stop, ranks = guest.endless(2, "--storage", 10, "--pause", 5)
    worker = system.served(guest.uid)
    until(lambda: all(rank.reached("captured") for rank in ranks), "they save")
    equal(system.served(guest.uid), worker, "her worker")
    finish(stop, ranks)
    return worker


def idle_worker_ends():
    with service("--user-linger", "300ms", "--linger", "100ms") as (system, ann, _, _):
        worker = seen_at_work(system, ann)
        until(lambda: not system.worker(ANN), "her worker ends")
        expect(ended(worker), "it has not ended")
        expect(seen_at_work(system, ann) != worker, "the same worker")
        expect("signal" not in system.text() and " status " not in system.text(), system.text())


def memory_is_divided():
    config = "[node]\nmemory-limit = 64M\n[user bob]\nmemory-limit = 24M\n"
    with service(config=config) as (system, ann, bob, eve):
        hers = puppets(ann, 1500000)  # some 40 MiB
        held = system.user(ANN)["memory_bytes"]
        expect(held > 30 << 20, "she holds", held)
        for guest, why in ((bob, ("their limit is 24.0 MiB",)), (eve, ("other users hold", "64.0 MiB"))):
            ranks = [Puppet(guest, number, 2) for number in range(2)]
            all_must(ranks, "open")
            all_must(ranks, "table", 1000000, 0)  # some 28 MiB
            for answer in each(ranks, "join"):
                expect(answer.code < 0, "more than is left", answer)
                has(answer.text, *why)
        save(hers, 5, 50, STORAGE, DURABLE)  # she has what she had
        for rank in hers:
            rank.kill()
        for rank in ranks:
            rank.kill()
        save(puppets(eve, 100000), 1, 1)  # what fits is had


def bandwidth_is_divided():
    with service(config="[node]\nwrite-bandwidth = 8M\n[user ann]\nwrite-bandwidth = 1M\n") as (system, ann, bob, _):
        puppets(ann)
        puppets(bob)

        def rate(guest):
            return next(s["value"] for s in guest.status()["config"] if (s["section"], s["key"]) == ("node", "write-bandwidth"))
        until(lambda: rate(bob) == "4M", "his half")
        equal(rate(ann), "1M", "hers is her own limit")


def a_store_that_cannot_be():
    with service() as (system, ann, bob, _):
        (system.stores / "bob").write_text("a file")
        code, said = bob.run("ckpt", "status", "--socket", system.socket)
        expect(code != 0, "he is served without a store")
        has(said, "bob")
        saves(ann)
        starts = system.user(BOB)["starts"]
        expect(starts < 12, "he is started over and over:", starts)
        (system.stores / "bob").unlink()
        saves(bob)


def control_groups():
    """Of version 2, wherever they are mounted; the controllers may be elsewhere."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    tree = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    if not tree:
        return "no control groups of version 2 here"
    if tree != "/sys/fs/cgroup":  # in our own mount namespace
        users.subprocess.run(["mount", "--bind", tree, "/sys/fs/cgroup"], check=True)
    own = pathlib.Path(f"/sys/fs/cgroup/ckpt-test-{os.getpid()}")
    try:
        own.mkdir()
        os.setxattr(own, "user.delegate", b"1")
    except OSError as error:
        return f"control groups cannot be made here: {error}"
    try:
        with service(kind=Delegated) as (system, ann, bob, _):
            has(pathlib.Path(f"/proc/{system.process.pid}/cgroup").read_text(), f"{own.name}/warden")
            saves(ann)
            saves(bob)
            for uid in (ANN, BOB):
                has(pathlib.Path(f"/proc/{system.served(uid)}/cgroup").read_text(), f"{own.name}/user-{uid}")
            worker = system.served(ANN)
            os.kill(worker, signal.SIGKILL)
            until(lambda: ended(worker), "it ends")
            saves(ann)
    finally:
        for group in (*own.glob("*/"), own):
            until(lambda group=group: not (group / "cgroup.procs").read_text(), "the group is empty")
            group.rmdir()
    return None


class Delegated(System):
    def launch(self, command, **how):
        how["env"].update(LD_LIBRARY_PATH=str(top / "lib"))
        own = f"/sys/fs/cgroup/ckpt-test-{os.getpid()}/cgroup.procs"
        return self.spawn(["bash", "-c", f'echo $$ >{own}; exec "$@"', "bash", *self.line(command)], **how)


def found_without_a_name():
    """Where there is no daemon of one's own: by ranks and by the command line."""
    system = System()
    system.socket = pathlib.Path("/run/ckptd.sock")
    if system.socket.exists():
        return "there is a service already"
    ann = Guest(ANN, system)
    nowhere = str(ann.top)  # a runtime directory without a daemon

    def unnamed(**more):
        env = System.environment(ann, XDG_RUNTIME_DIR=nowhere, LD_LIBRARY_PATH=str(top / "lib"), HOME=nowhere, **more)
        env.pop("CKPT_SOCKET")
        return env
    ann.environment = unnamed
    try:
        system.start()
        equal(ann.run("ckpt", "status")[0], 0, "status")
        saves(ann, steps=10)
        expect(ann.committed(), "no checkpoint")
    finally:
        ann.close()
        equal(system.stop(), 0, "exit status")
        expect(not system.socket.exists(), "the socket was left")


def mistakes_at_start():
    with service() as (system, *_):
        system.stop()
        for words, why in ((["--store", "/tmp/one-for-all"], "%u"), (["--store", "/tmp/%x"], "behind %"),
                           (["--cluster", "/etc/roster"], "no part in a cluster")):
            done = users.subprocess.run([top / "bin" / "ckptd", "--system", "--socket", system.socket, *words], capture_output=True,
                                         text=True, timeout=DEADLINE, env=system.environment(CKPT_CONFIG="/dev/null"))
            equal(done.returncode, 1, done.stderr)
            has(done.stderr, why)
        code, said = Guest(ANN, system).run("ckptd", "--system", "--socket", "/nonexistent/s")
        equal(code, 1, said)
        has(said, "needs root")


PLAIN = (both_work, killed_rank_is_restored, others_are_not_seen, only_root_looks_at_others, who_may, accounts_of_the_system, killed_worker,
         killed_worker_and_nobody_left, killed_warden_and_nobody_left, silent_worker_is_killed, idle_worker_ends, memory_is_divided,
         bandwidth_is_divided, a_store_that_cannot_be, control_groups, found_without_a_name, mistakes_at_start)
system_service.run([(test.__name__.replace("_", " "), test) for test in PLAIN] +
           [("warden killed", killed_warden, lambda s: s.kill()),
            ("warden ended", killed_warden, lambda s: equal(s.stop(), 0, "exit status"))])
