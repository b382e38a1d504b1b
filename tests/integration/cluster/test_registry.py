"""The registry on a real etcd: what is followed, decided and held, while members are killed, stopped and restarted, and answers are lost."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from etcd import etcd, why_not
from registry_nodes import LEASE_MS, Gate, RegistryNode
from tap import DEADLINE, Cases, Failure, equal, expect, until

ENOBUFS, ESTALE, EACCES, ENOLCK, EHOSTUNREACH = -105, -116, -13, -37, -113
UNKNOWN = (-104, -110)  # ECONNRESET, ETIMEDOUT
LONG_MS = 60000  # of a call, where much is asked of etcd at once
SHORT = 8  # seconds of a lease that is to lapse, or to be seen renewed: no process of a busy machine stands still for so long
RACES = 200
AFTERWARDS = 3000  # records
SLEPT = ["unshare", "--time", "--boottime", "100000", "--fork", "--kill-child"]  # so many seconds


def node(cluster, *args, **more):
    return RegistryNode(cluster.url("ckpt"), *args, **more)


@contextlib.contextmanager
def ready(cluster, *names, **more):
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(node(cluster, name=name, **more)) for name in names or "a"]
        yield nodes if names else nodes[0]


# ---- one member --------------------------------------------------------------------------------------------------------------------------------------


def case_changes_are_told():
    """Each of them while the watch stands, so it may take its time: after a break changes that cancel out are not told."""
    with etcd() as cluster:
        cluster.must("put", "/ckpt/before", "1")
        cluster.must("put", "/ckptother", "1")
        cluster.must("put", "/other/ckpt", "1")
        with ready(cluster, "a", "b", timeout_ms=LONG_MS) as (a, b):
            for n in a, b:
                n.ready()
                equal([line[:2] for line in n.told("record")], [["record", "before"]], "what stood")
            first = a.applied("put k one")
            second = a.applied("swap k %d two" % first)
            rc, applied, revision, _ = a.change("swap k %d three" % first)
            equal((rc, applied, revision), (0, False, second), "a comparison that fails")
            equal(a.change("make k three")[:2], (0, False), "what stands is made")
            a.applied("hold k %d four" % first)
            a.applied("drop k")
            b.take("gone", "k", but=["away"])
            equal([line[2] for line in b.told("record", "k")], ["one", "two", "four"], "each change, in its order")
            equal((b.get("k"), b.get("before")), (None, ("1", False)), "what stands")
            a.applied("make k again")
            b.take("record", "k", "again")
            equal(b.list(), ["before", "k"], "all records")


def case_the_lease_takes_its_records_with_it():
    with etcd() as cluster, ready(cluster, "a", "b", lease_ms=LONG_MS) as (a, b):
        a.ready()
        b.ready()
        a.applied("lease mine 1")
        a.applied("put all 2")
        b.take("record", "mine")
        a.take("record", "mine")
        a.take("record", "all")
        equal((a.get("mine"), b.get("mine"), a.get("all")), (("1", True), ("1", False), ("2", False)), "whose it is")
        began = time.monotonic()
        a.end()
        b.take("gone", "mine")
        expect(time.monotonic() - began < LONG_MS / 2000, "a lease that was given back waited for its end:", time.monotonic() - began)
        equal(b.list(), ["all"], "what is not leased stays")


def case_a_lease_is_renewed():
    with etcd() as cluster, node(cluster, SHORT * 1000) as a:
        a.ready().applied("lease mine 1")
        until(lambda: a.counts()["renewals"] >= 4, "renewals for longer than the lease")
        equal([line[0] for line in a.forget() if line[0] in ("lapsed", "leased", "gone")], [], "what happened to the lease")
        synced, left = a.state()
        expect(synced and 0 < left <= 900 * SHORT, "a lease of", SHORT, "s stands for", left, "ms")


def case_many_records_come_in_pages():
    with etcd() as cluster, ready(cluster, "a", timeout_ms=LONG_MS) as (a,):
        a.say("quiet")
        a.ready()
        equal(a.ask(f"fill many/ {AFTERWARDS} 300", "filled"), [str(AFTERWARDS), "0"], "records put")
        equal(a.ask("fill big/ 600 60000", "filled"), ["600", "0"], "records of 60 KB put")
        until(lambda: a.counts()["records"] == AFTERWARDS + 600, "all have come by the watch")
        with node(cluster, timeout_ms=LONG_MS) as b:
            b.say("quiet")
            b.ready()
            equal(b.counts()["records"], AFTERWARDS + 600, "all have been read")
            equal((b.list("many/"), b.list("big/")), (AFTERWARDS, 600), "in their order")


def case_too_much_at_once_is_refused():
    with etcd() as cluster, ready(cluster, "a", timeout_ms=LONG_MS) as (a,):
        a.ready()
        equal(a.ask(f"fill x/ {1100 * 16} 1", "filled"), [str(1100 * 16), str(76 * 16)], "records, and those that were refused")
        counts = a.counts()
        equal((counts["transactions"], counts["applied"]), (1024, 1024), "those that were taken, and decided")
        equal(a.ask("put " + "k" * 256 + " v", "committed")[1], "-22", "a key that is too long")
        equal(a.ask("put k " + "v" * 524289, "committed")[1], "-90", "a value that is too long")


def case_of_two_that_make_the_same_one_wins():
    with etcd() as cluster, ready(cluster, "a", "b", timeout_ms=LONG_MS) as (a, b):
        a.ready()
        b.ready()
        for n in a, b:
            for number in range(RACES):
                n.say(f"make race/{number} {n.name}")
        won = {n.name: [n.result(n.take("committed")[0])[:2] for _ in range(RACES)] for n in (a, b)}
        for number in range(RACES):
            winners = [name for name in "ab" if won[name][number] == (0, True)]
            expect(len(winners) == 1 and all(won[name][number][0] == 0 for name in "ab"), number, {name: won[name][number] for name in "ab"})
            equal(cluster.get(f"/ckpt/race/{number}") if number % 50 == 0 else winners[0], winners[0], "whose it is")
        print(f"# {RACES} races: {sum(w == (0, True) for w in won['a'])} and {sum(w == (0, True) for w in won['b'])} won", flush=True)


def case_a_full_etcd_says_so():
    with etcd(options=["--quota-backend-bytes", str(8 << 20)]) as cluster, ready(cluster, "a", timeout_ms=LONG_MS) as (a,):
        a.say("quiet")
        a.ready()
        a.ask("fill big/ 400 60000", "filled")
        rc, applied, _, why = a.change("put k v")
        expect(rc == -28 and not applied and "space exceeded" in why, rc, why)


# ---- lost answers ------------------------------------------------------------------------------------------------------------------------------------


def case_an_answer_that_is_lost():
    """On a connection that is kept, where libcurl would send it again."""
    with etcd() as cluster, contextlib.closing(Gate(cluster.members[0].place)) as gate:
        with RegistryNode(cluster.url("ckpt", [gate.place])) as a:
            a.ready()
            for round in range(5):
                a.applied(f"put warm {round}")
                gate.cut_answer_to("/v3/kv/txn")
                rc, applied, _, why = a.change(f"make lost/{round} once")
                expect(rc in UNKNOWN and not applied, "the result is", rc, why)
                a.take("record", f"lost/{round}", "once")
                equal(cluster.record(f"/ckpt/lost/{round}")["version"], 1, "how often it was applied")
                equal(a.told("away"), [], "away")


def case_a_watch_that_says_nothing():
    """Its connection stands, and all else goes well: our own change must come by it."""
    with etcd() as cluster, contextlib.closing(Gate(cluster.members[0].place)) as gate, ready(cluster, "other") as (other,):
        other.ready()
        with RegistryNode(cluster.url("ckpt", [gate.place])) as a:
            a.ready()
            gate.mute("/v3/watch")
            other.applied("put theirs 1")
            a.applied("put ours 1")
            equal(a.told("record"), [], "what a watch told that says nothing")
            a.take("record", "ours")
            a.take("record", "theirs")
            gate.muted = None
            other.applied("put later 1")
            a.take("record", "later")


def case_a_watch_that_was_compacted():
    with etcd() as cluster, contextlib.closing(Gate(cluster.members[0].place)) as gate, ready(cluster, "other") as (other,):
        other.ready()
        other.applied("put stays 1")
        other.applied("put changes 1")
        other.applied("put goes 1")
        gate.hold("/v3/watch")
        with RegistryNode(cluster.url("ckpt", [gate.place]), timeout_ms=20000) as a:
            expect(gate.happened.wait(DEADLINE), "no watch was asked for")
            other.applied("put changes 2")
            other.applied("drop goes")
            other.applied("put passes 1")
            other.applied("drop passes")
            revision = other.applied("put new 1")
            cluster.must("compact", revision)
            gate.release()
            a.ready()
            a.take("gone", "goes")
            equal({key: a.get(key) for key in ("stays", "changes", "goes", "passes", "new")},
                  {"stays": ("1", False), "changes": ("2", False), "goes": None, "passes": None, "new": ("1", False)}, "what stands")
            equal(a.told("record", "stays")[1:], [], "what has not changed is told again")
            other.applied("put after 1")
            a.take("record", "after")
            equal(a.told("away"), [], "away")


def case_an_outage_with_changes_and_a_compaction():
    with etcd() as cluster, contextlib.closing(Gate(cluster.members[0].place)) as gate, ready(cluster, "other") as (other,):
        other.ready()
        with RegistryNode(cluster.url("ckpt", [gate.place])) as a:
            a.ready()
            for key in "stays", "changes", "goes", "is_made_anew":
                other.applied(f"put {key} 1")
            a.take("record", "is_made_anew")
            a.forget()
            gate.close_door()
            a.take("away")
            equal(a.state()[0], False, "synced")
            other.applied("put changes 2")
            other.applied("drop goes")
            other.applied("drop is_made_anew")
            other.applied("put is_made_anew 1")
            cluster.must("compact", cluster.revision())
            gate.open_door()
            a.take("synced")
            told = a.forget()
            equal(sorted(line[:3] for line in told if line[0] == "record"), [["record", "changes", "2"], ["record", "is_made_anew", "1"]], "news")
            equal([line[:2] for line in told if line[0] == "gone"], [["gone", "goes"]], "what is gone")
            equal(a.counts()["outages"], 1, "outages")


def case_an_etcd_that_was_restored_from_an_old_copy():
    with etcd() as cluster, ready(cluster, "a") as (a,):
        member = cluster.members[0]
        a.ready()
        a.applied("put stays 1")
        a.applied("put changes 1")
        snapshot = cluster.top / "snapshot"
        cluster.must("snapshot", "save", snapshot)
        a.applied("put changes 2")
        a.applied("put later 1")
        a.take("record", "later")
        a.forget()
        member.kill()
        member.restore(snapshot)
        member.start()
        a.take("gone", "later")
        a.take("record", "changes", "1")
        until(lambda: a.state()[0] and a.state()[1], "it is synced and has a lease")
        equal(a.list(), ["changes", "stays"], "what stands")
        a.applied("put changes 3")


def restored_and_overtaken(*more):
    """Before the node is back, the restored registry has come to later revisions than the node knows of; more: keys that others make there."""
    with etcd() as cluster, contextlib.closing(Gate(cluster.members[0].place)) as gate:
        member, snapshot = cluster.members[0], cluster.top / "snapshot"
        with RegistryNode(cluster.url("ckpt", [gate.place])) as a:
            a.ready()
            a.applied("put stays 1")
            a.applied("put changes old")
            cluster.must("snapshot", "save", snapshot)
            a.applied("put changes new")
            a.applied("put later 1")
            a.take("record", "later")
            known = cluster.revision()
            gate.close_door()
            a.take("away")
            member.kill()
            member.restore(snapshot)
            member.start()
            until(cluster.healthy, "etcd is healthy")
            for key in more:
                cluster.must("put", f"/ckpt/{key}", 1)
            while cluster.revision() <= known:
                cluster.must("put", "/elsewhere", 1)
            a.forget()
            gate.open_door()
            a.take("synced")
            equal(a.list(), sorted(["changes", "stays", *more]), "what stands")
            equal(a.get("changes"), ("old", False), "what was changed after the copy")
            a.applied("put changes 3")


def case_an_etcd_that_was_restored_and_has_come_further():
    restored_and_overtaken()


def case_an_etcd_that_was_restored_and_has_as_many_records():
    restored_and_overtaken("other")


# ---- three members -----------------------------------------------------------------------------------------------------------------------------------


def goes_on(cluster, nodes, key):
    """All of them may change something, and are told of it."""
    for n in nodes:
        limit = time.monotonic() + DEADLINE
        while n.change(f"put {key}/{n.name} 1")[:2] != (0, True):
            expect(time.monotonic() < limit, n.name, "can change nothing")
    for n in nodes:
        for other in nodes:
            n.take("record", f"{key}/{other.name}")


def case_members_are_killed():
    with etcd("xyz") as cluster, ready(cluster, "a", "b", "c") as nodes:
        for n in nodes:
            n.ready().applied(f"lease lease/{n.name} 1")
        for round in range(3):
            lost = until(cluster.leader, "a leader") if round == 1 else cluster.members[round]
            lost.kill()
            goes_on(cluster, nodes, f"without{round}")
            lost.start()
            until(cluster.healthy, "etcd is healthy")
            goes_on(cluster, nodes, f"with{round}")
        for n in nodes:
            equal([line[0] for line in n.forget() if line[0] in ("lapsed", "gone")], [], f"{n.name}: its lease of {LEASE_MS} ms")


def case_the_leader_is_stopped():
    with etcd("xyz") as cluster, ready(cluster, "a", "b") as nodes:
        for n in nodes:
            n.ready()
        leader = until(cluster.leader, "somebody leads")
        leader.stop()
        try:
            goes_on(cluster, nodes, "without")
        finally:
            leader.go_on()
        goes_on(cluster, nodes, "with")


def case_a_member_without_a_leader_is_away():
    with etcd("xyz") as cluster, ready(cluster, "a") as (a,):
        a.ready()
        for member in cluster.members[1:]:
            member.kill()
        why = " ".join(a.take("away"))
        expect(why, "it does not say why")
        rc, applied, _, why = a.change("put k v")
        expect(rc and not applied, rc, why)
        for member in cluster.members[1:]:
            member.start()
        a.take("synced")
        until(lambda: a.state()[1], "it has a lease")
        goes_on(cluster, [a], "again")


def case_all_are_away_and_back(stop, back):
    """For longer than the lease."""
    with etcd("xyz") as cluster, node(cluster, SHORT * 1000, name="a") as a, node(cluster, SHORT * 1000, name="b") as b:
        for n in a, b:
            n.ready()
        a.applied("lease mine 1")
        a.applied("put stays 1")
        for n in a, b:
            n.take("record", "stays")
        for member in cluster:
            stop(member)
        late = [int(n.take("lapsed")[0]) for n in (a, b)]
        expect(0 <= min(late) < 1000, "lapsed", late, "ms after its time")  # the better one counts: a busy machine makes single ones late
        for n in a, b:
            equal(n.state()[1], 0, "ms that the lease stands")
            expect(n.take("away"), "it does not say why")
        equal(a.ask("lease mine 2", "committed")[1], str(ENOLCK), "a change under no lease")
        rc, applied, _, why = a.change("put k v")
        expect(rc in (EHOSTUNREACH, *UNKNOWN) and not applied, rc, why)
        for member in cluster:
            back(member)
        for n in a, b:
            n.take("synced")
            n.take("leased")
        a.take("gone", "mine")
        goes_on(cluster, (a, b), "again")
        a.applied("lease mine 3")
        b.take("record", "mine", "3")


def case_a_node_that_is_stopped_beyond_its_lease():
    with etcd() as cluster, node(cluster, SHORT * 1000, name="a") as a, node(cluster, SHORT * 1000, name="b") as b:
        for n in a, b:
            n.ready()
        a.applied("claim leads a")
        b.take("record", "leads", "a")
        began = time.monotonic()
        left = a.state()[1] / 1000  # for etcd it stands at least as long
        expect(left > 0, "the lease has lapsed before anything happened")
        a.signal(signal.SIGSTOP)
        b.take("gone", "leads")
        expect(time.monotonic() - began > left, "gone after", time.monotonic() - began, "s, of which the lease was to stand", left)
        b.applied("claim leads b")
        a.signal(signal.SIGCONT)
        late = int(a.take("lapsed")[0])
        expect(late >= 0, "lapsed", -late, "ms too early")
        a.take("record", "leads", "b")
        a.take("leased")
        equal(a.change("claim leads a")[:2], (0, False), "a claim that comes second")
        equal((a.get("leads"), b.get("leads")), (("b", False), ("b", True)), "whose it is")


def case_a_machine_that_was_suspended():
    """Its monotonic clock has stood still meanwhile, and that of etcd has not. The lease is long: nobody else finds out."""
    with etcd() as cluster, node(cluster, LONG_MS) as a:
        a.ready().applied("lease mine 1")
        a.take("record", "mine")  # what a node has never heard of is not told to be gone
        a.ask(f"suspend {LONG_MS}", "suspended")
        late = int(a.take("lapsed")[0])
        expect(late >= LONG_MS // 20, "lapsed", late, "ms after its time")
        a.take("leased")
        a.take("gone", "mine")


def case_clocks_of_a_machine_that_was_suspended_before():
    if os.geteuid() != 0 or subprocess.run([*SLEPT, "true"], stderr=subprocess.DEVNULL).returncode:
        return "a time namespace needs root, and a kernel that has them"
    with etcd() as cluster, node(cluster, SHORT * 1000, under=SLEPT) as a:
        a.ready().applied("lease mine 1")
        until(lambda: a.counts()["renewals"] >= 4, "renewals for longer than the lease")
        expect(0 < a.state()[1] <= 900 * SHORT, "a lease of", SHORT, "s stands for", a.state()[1], "ms")
        equal(a.told("lapsed"), [], "what happened to the lease")
    return None


# ---- access ------------------------------------------------------------------------------------------------------------------------------------------


def with_user(cluster, folder):
    """The files of a user that may read and write the prefix."""
    for words in ("user add root:rootword", "user grant-role root root", "role add ckpt", "role grant-permission --prefix=true ckpt readwrite /ckpt/",
                  "user add ann:pass'word\"1", "user grant-role ann ckpt", "auth enable"):
        cluster.must(*words.split())
    cluster.login = ["--user", "root:rootword"]
    password = folder / "password"
    password.write_text("pass'word\"1\n")
    password.chmod(0o600)
    return {"user": "ann", "password_file": password}


def case_tls_and_a_user():
    with etcd("xyz", tls=True, options=["--auth-token-ttl", "3"]) as cluster, tempfile.TemporaryDirectory() as folder:
        files = {**with_user(cluster, pathlib.Path(folder)), "ca": cluster.certificates.ca, "cert": cluster.certificates.cert, "key": cluster.certificates.key}
        with ready(cluster, "a", "b", lease_ms=12000, timeout_ms=8000, **files) as nodes:  # a token ends after 3 s unused, a lease is renewed after 4 s
            for n in nodes:
                n.ready().applied(f"lease mine/{n.name} 1")
            until(lambda: min(n.counts()["renewals"] for n in nodes) >= 3, "three renewals")
            goes_on(cluster, nodes, "later")
            lost = cluster.leaves(until(cluster.leader, "a leader"))[0]  # without its leader etcd is away until there is another one
            lost.kill()
            goes_on(cluster, nodes, "without")
            lost.start()
            until(cluster.healthy, "etcd is healthy")
            for n in nodes:
                equal([line for line in n.forget() if line[0] in ("away", "lapsed")], [], n.name)
            nodes[0].end()
            nodes[1].take("gone", "mine/a")


def case_users_are_asked_for_later_and_no_more():
    """Users were made, and access is not asked of them yet: the nodes name theirs already."""
    with etcd() as cluster, tempfile.TemporaryDirectory() as folder:
        files = with_user(cluster, pathlib.Path(folder))
        cluster.must("auth", "disable")
        with ready(cluster, "a", "b", **files) as nodes:
            for n in nodes:
                n.ready()
            goes_on(cluster, nodes, "anybody")
            cluster.must("auth", "enable")
            goes_on(cluster, nodes, "users")
            cluster.must("auth", "disable")
            goes_on(cluster, nodes, "again")
            cluster.must("auth", "enable")
            goes_on(cluster, nodes, "more")


def case_a_password_that_changes():
    with etcd() as cluster, tempfile.TemporaryDirectory() as folder:
        files = with_user(cluster, pathlib.Path(folder))
        with ready(cluster, "a", "b", **files) as nodes:
            for n in nodes:
                n.ready()
            goes_on(cluster, nodes, "before")
            cluster.must("user", "delete", "ann")
            for words in "user add ann:another", "user grant-role ann ckpt":
                cluster.must(*words.split())
            files["password_file"].write_text("another\n")
            goes_on(cluster, nodes, "after")


def case_access_that_is_refused():
    with etcd(tls=True) as cluster, tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = {**with_user(cluster, folder), "ca": cluster.certificates.ca, "cert": cluster.certificates.cert, "key": cluster.certificates.key}
        wrong, open_ = folder / "wrong", folder / "open"
        wrong.write_text("wrong\n")
        wrong.chmod(0o600)
        open_.write_text("word\n")
        open_.chmod(0o644)
        for url, change, said in ((None, {"password_file": wrong}, "user ann: "),
                                  (None, {"password_file": wrong}, "authentication failed"),
                                  (None, {"user": "-", "password_file": "-"}, "user name is empty"),
                                  ("elsewhere", {}, "permission denied"),
                                  (None, {"ca": cluster.certificates.cert}, "certificate"),
                                  (None, {"cert": "-", "key": "-"}, "")):
            with RegistryNode(cluster.url(url or "ckpt"), **{**files, **change}) as a:
                a.take("ready")
                why = " ".join(a.take("away", but=["synced"]))
                expect(said in why, change, "is away:", why)
        for change, rc, said in (({"password_file": open_}, EACCES, f"registry-password-file: {open_}: its mode is 0644"),
                                 ({"password_file": folder / "none"}, -2, "registry-password-file"),
                                 ({"user": "-"}, -22, "needed together"), ({"key": "-"}, -22, "needed together"),
                                 ({"ca": folder / "none"}, -2, "registry-ca")):
            with node(cluster, **{**files, **change}) as a:
                failed, *why = a.take("failed")
                equal(int(failed), rc, change)
                expect(said in " ".join(why), change, why)
        with RegistryNode(cluster.url("ckpt").replace("etcds", "etcd"), **files) as a:
            expect("write etcds://" in " ".join(a.take("failed", "-22")), "a certificate without TLS")


def main():
    why = why_not()
    if why:
        print(why)
        return 77
    cases = Cases()
    rows = [(name[5:].replace("_", " "), test) for name, test in globals().items() if name.startswith("case_") and test is not case_all_are_away_and_back]
    rows.append(("all are stopped and continued", case_all_are_away_and_back, lambda m: m.stop(), lambda m: m.go_on()))
    rows.append(("all are killed and restarted", case_all_are_away_and_back, lambda m: m.kill(), lambda m: m.start()))
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    cases.run_beside([row for row in rows if wanted in row[0]], 2)
    return cases.end()


sys.exit(main())
