"""Daemons of a cluster: they find each other, see each other's end, and do not start where something is missing."""

import os
import pathlib
import signal
import subprocess
import sys

from loopback_cluster import Cluster
from tap import BIN, DEADLINE, Cases, expect, has, until


def log_has(daemon, text):
    until(lambda: text in daemon.log.read_text(), f"'{text}' in {daemon.log}")


def nodes_find_each_other_and_see_who_ends():
    cluster = Cluster(["a", "b", "c"])
    daemons = {name: cluster.daemon(name) for name in "abc"}
    try:
        for daemon in daemons.values():
            daemon.start()
        for name in "abc":
            for other in set("abc") - {name}:
                log_has(daemons[name], f"node {other} is there")
        daemons["b"].stop()
        for name in "ac":
            log_has(daemons[name], "node b is lost: Cannot send after transport endpoint shutdown")
        daemons["c"].kill()
        log_has(daemons["a"], "node c is lost")
        daemons["b"].start()
        until(lambda: daemons["a"].log.read_text().count("node b is there") >= 2, "b to be there again")
    finally:
        for daemon in daemons.values():
            daemon.kill()


def who_is_not_let_in_is_told_of():
    cluster, other = Cluster(["a", "b"]), Cluster(["c"])
    a, b = cluster.daemon("a"), cluster.daemon("b")
    roster = other.top / "other"
    roster.write_text(cluster.roster.read_text() + "d 127.0.0.9:1\n")
    try:
        a.start()
        b.options[b.options.index(cluster.roster)] = roster
        b.start()
        log_has(a, "node b has another roster")
        b.kill()
        b.options[b.options.index(roster)] = cluster.roster
        b.options[b.options.index(cluster.key)] = other.key
        b.start()
        log_has(b, "connections from the network were refused")
        expect("is there" not in a.text() + b.text(), a.text(), b.text())
    finally:
        a.kill()
        b.kill()


def nodes_that_elect_otherwise_are_not_let_in():
    """Each side says why, whoever of them calls: with a registry and without, and under two prefixes."""
    cluster = Cluster(["a", "b", "c"])
    away = "etcd://127.0.0.1:1"
    daemons = {"a": cluster.daemon("a"), "b": cluster.daemon("b", "--registry", f"{away}/ckpt"), "c": cluster.daemon("c", "--registry", f"{away}/other/")}
    how = {"a": "without a registry", "b": 'in a registry, under "/ckpt/"', "c": 'in a registry, under "/other/"'}
    try:
        for daemon in daemons.values():
            daemon.start()
        for name, daemon in daemons.items():
            for other in set("abc") - {name}:
                log_has(daemon, f"node {other} elects coordinators {how[other]}, and this one {how[name]}: it is not let in. Let registry be alike")
        for name, daemon in daemons.items():
            expect("is there" not in daemon.text(), daemon.text())
            expect(daemon.text().count("elects coordinators") == 2, "each is told of once", daemon.text())
        daemons["a"].kill()
        daemons["a"].options += ["--registry", f"{away}/ckpt"]
        daemons["a"].start()
        log_has(daemons["a"], "node b is there")
        log_has(daemons["b"], "node a is there")
    finally:
        for daemon in daemons.values():
            daemon.kill()


def a_key_is_changed_while_the_nodes_run():
    cluster = Cluster(["a", "b"])
    keys = {name: cluster.top / f"key-{name}" for name in "ab"}
    old, new = cluster.key.read_text().strip(), os.urandom(32).hex()
    daemons = {name: cluster.daemon(name) for name in "ab"}

    def write(name, *words):
        keys[name].write_text("".join(f"{word}\n" for word in words))
        keys[name].chmod(0o600)

    def reread(name, says="has been read again"):
        before = daemons[name].text().count(says)
        daemons[name].process.send_signal(signal.SIGHUP)
        until(lambda: daemons[name].text().count(says) > before, f"{name} reads its key")

    def meet(times):
        for name in "ab":
            until(lambda n=name: daemons[n].text().count("is there") == times, f"{name} to see the other one for the {times}th time")

    try:
        for name, daemon in daemons.items():
            write(name, old)
            daemon.options[daemon.options.index(cluster.key)] = keys[name]
            daemon.start()
        meet(1)
        write("a", old, new)  # both take both, then both use the new one, then the old one goes
        reread("a")
        write("b", new, old)
        reread("b")
        write("a", "weak")
        reread("a", "stays as it was")
        write("a", new)
        reread("a")
        write("b", new)
        reread("b")
        expect("is lost" not in daemons["a"].text() + daemons["b"].text(), "a session that stands stays", daemons["a"].text())
        daemons["b"].kill()
        daemons["b"].start()
        until(lambda: daemons["a"].text().count("node b is there") == 2, "b to be there again, by the new key")
    finally:
        for daemon in daemons.values():
            daemon.kill()


def without_what_it_needs_it_does_not_start():
    cluster = Cluster(["a", "b"])

    def fails(*options):
        done = subprocess.run([BIN / "ckptd", "--socket", cluster.top / "s", *options], capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == 1, done.returncode, done.stderr)
        return done.stderr

    has(fails("--cluster", cluster.roster, "--node", "a"), "cluster needs cluster-key")
    has(fails("--cluster", cluster.roster, "--node", "a", "--cluster-key", cluster.key, "--cluster-ca", cluster.key), "alone")
    has(fails("--cluster", cluster.roster, "--node", "a", "--cluster-cert", cluster.key), "together")
    has(fails("--cluster", cluster.roster, "--node", "z", "--cluster-key", cluster.key), "z, is not in the roster")
    has(fails("--cluster", cluster.top / "none", "--cluster-key", cluster.key), "cannot read the roster")
    if not pathlib.Path("/sys/class/infiniband").exists():
        has(fails("--cluster", cluster.roster, "--node", "a", "--cluster-key", cluster.key, "--fabric-provider", "verbs"),
            "libfabric has no provider verbs here")
    cluster.key.write_text("weak")
    has(fails("--cluster", cluster.roster, "--node", "a", "--cluster-key", cluster.key), "32 random bytes", "/dev/urandom")


def what_is_a_crash_ends_as_one():
    """Libraries of providers bring handlers of their own."""
    cluster = Cluster(["a"])
    daemon = cluster.daemon("a")
    daemon.start()
    before = set(pathlib.Path().iterdir())
    daemon.process.send_signal(signal.SIGABRT)
    expect(daemon.process.wait(DEADLINE) == -signal.SIGABRT, daemon.process.returncode, daemon.text())
    expect(not set(pathlib.Path().iterdir()) - before, "left behind:", set(pathlib.Path().iterdir()) - before)


cases = Cases()
cases.run("what is a crash ends as one", what_is_a_crash_ends_as_one)
cases.run_beside([("nodes find each other and see who ends", nodes_find_each_other_and_see_who_ends),
                  ("who is not let in is told of", who_is_not_let_in_is_told_of),
                  ("nodes that elect otherwise are not let in", nodes_that_elect_otherwise_are_not_let_in),
                  ("a key is changed while the nodes run", a_key_is_changed_while_the_nodes_run)])
cases.run("without what it needs it does not start", without_what_it_needs_it_does_not_start)
sys.exit(cases.end())
