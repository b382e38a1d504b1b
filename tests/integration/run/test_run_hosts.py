"""ckpt run --nodes HOST,…: the launchers of all nodes started, attended and ended from one place, through a remote shell. The nodes are daemons on
this machine; what stands in for ssh runs the command here, with the socket of the daemon that has the host's name."""

import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

from elastic import BATCH, WAIT, undisturbed
from launcher import PACED, TRAIN, Run, final, gone, listed, sh, tidy, top
from loopback_cluster import loopback_cluster
from remote_shell import RemoteShell
from tap import Cases, equal, expect, has, until

STEPS = 400
FOREVER = 1000000
cases = Cases(tidy)
case = cases.case


class Hosts(RemoteShell):
    """Daemons by name, and the remote shell that reaches them."""

    def __init__(self, daemons):
        super().__init__({name: daemon.socket for name, daemon in daemons.items()})
        self.daemons = daemons

    def start(self, nodes, *args, command=(*PACED, "--batch", BATCH, "--steps", FOREVER, "--save-memory-every", 10, "--save-storage-every", 50), **env):
        return Run("--nodes", nodes, "--remote-shell", self.shell, *args, "--", *command, **env)

    def step(self, name):
        job = self.daemons[name].job("default")
        return max((rank.get("step") or 0 for rank in job["ranks"]), default=0) if job else 0

    def reaches(self, run, name, step):
        run.until(f"step {step} on {name}", lambda: self.step(name) >= step)

    def launchers_are_gone(self):
        until(lambda: all(gone(pid) for name in self.daemons for pid in self.pids(name)), "the end of all launchers")


@contextlib.contextmanager
def hosts(names, store=False, **options):
    path = tempfile.mkdtemp(dir=top)
    common = ["--node-wait", WAIT, *(["--store", path] if store else [])]
    with loopback_cluster(names, **{name: common for name in names}) as daemons:
        yield Hosts(daemons), path


@case("the nodes are one job, and their lines come with their names")
def _():
    with hosts("ab") as (h, _):
        run = h.start("a,b", "-n", 2, command=sh("echo $CKPT_RANK of $CKPT_WORLD; echo $CKPT_RANK errs >&2")[1:]).wait()
        for rank in range(4):
            expect(re.search(rf"^{'aabb'[rank]}: \[{rank}\] {rank} of 4$", run.out(), re.M), run.out(), run.err())
            expect(re.search(rf"^{'aabb'[rank]}: \[{rank}\] {rank} errs$", run.err(), re.M), run.err())
        bare = h.start("a,b", "--no-prefix", command=sh("echo $CKPT_RANK of $CKPT_WORLD")[1:]).wait()
        equal(sorted(bare.out().split("\n")), ["", "0 of 2", "1 of 2"])


@case("each word of the command, and the working directory, arrive as they were")
def _():
    with hosts("ab") as (h, _):
        words = ("it's", "two  blanks", "$HOME", "a\\b", "new\nline", "*", "`id`", "'", "")
        run = h.start("a,b", "--report", "told", command=(sys.executable, "-c", "import os, sys; print([os.getcwd()] + sys.argv[1:])",
                                                         *words)).wait()
        equal(run.out().count(str([str(run.folder), *words])), 2, run.out())
        reports = [json.loads((run.folder / f"told.{k}").read_text()) for k in range(2)]
        equal([[rank["rank"] for rank in report["ranks"]] for report in reports], [[0], [1]])


def kill(*pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@case("a node that is lost is replaced by a spare, and tried again: not a bit is changed")
def _():
    with hosts("abcd") as (h, _):
        run = h.start("a,b,c", "--spares", "d")
        h.reaches(run, "a", 100)
        (h.folder / "c.socket").unlink()  # from here on it is not reached
        h.daemons["c"].kill()
        kill(*h.pids("c"))
        run.until_err("c: the remote shell was killed by signal 9 (Killed): again in", "3 ranks go on from memory")
        h.reaches(run, "a", h.step("a") + 30)
        run.child.send_signal(signal.SIGTERM)
        run.wait()
        line = final(run.out() + run.err())
        equal(line, undisturbed(3, int(re.search(r"step=(\d+)", line).group(1))))


@case("a launcher whose way broke is started again, and its rank goes on")
def _():
    with hosts("ab") as (h, _):
        run = h.start("a,b", command=(*PACED, "--steps", FOREVER, "--save-storage-every", 0, "--save-memory-every", 5))
        h.reaches(run, "b", 20)
        kill(*h.pids("b"))
        run.until_err("b: the remote shell was killed", "2 ranks go on from memory")
        equal(len(h.pids("b")), 2)
        run.child.send_signal(signal.SIGTERM)
        run.wait()


@case("a way that breaks while the launcher lives: its ranks go to other nodes, and come back with the next launcher")
def _():
    with hosts("ab", store=True) as (h, _):
        h.relays()
        run = h.start("a,b", "--min-ranks", 1, command=(*PACED, "--batch", 6, "--steps", FOREVER, "--save-storage-every", 20))
        h.reaches(run, "b", 30)
        kill(*h.pids("b"))
        run.until_err("b: the remote shell was killed by signal 9 (Killed): again in 1.0 s", "1 ranks go on from", "2 ranks go on from")
        run.child.send_signal(signal.SIGTERM)
        run.wait()


@case("where all nodes are needed the job has failed when it ends since the way to one broke")
def _():
    with hosts("ab") as (h, _):
        h.relays()
        run = h.start("a,b", command=(*PACED, "--steps", FOREVER, "--save-storage-every", 0))
        h.reaches(run, "b", 30)
        kill(*h.pids("b"))
        run.wait(1)
        has(run.err(), "b: the remote shell was killed by signal 9 (Killed): again in 1.0 s")


@case("who is asked to end before a node was reached has not done the job")
def _():
    with hosts("ab") as (h, _):
        run = h.start("nowhere,neither")
        run.until_err("nowhere: the remote shell exited with status 255: again in")
        run.child.send_signal(signal.SIGTERM)
        run.wait(1)


@case("SIGTERM ends the whole job with a last checkpoint, also one that could go on without a node")
def _():
    for options in ((), ("--min-ranks", 1)):
        with hosts("ab", store=True) as (h, store):
            run = h.start("a,b", *options, command=(*PACED, "--steps", FOREVER, "--save-storage-every", 1000))
            run.until_err("2 ranks start at step 0")
            run.child.send_signal(signal.SIGTERM)
            run.wait()
            has(run.err(), "SIGTERM: the job ends on all nodes", "a: ckpt run: SIGTERM: the ranks take a last checkpoint", "b: ckpt run: SIGTERM")
            equal(len(listed(store)), 1)
            h.launchers_are_gone()


@case("SIGINT twice kills all ranks at once")
def _():
    with hosts("ab") as (h, _):
        run = h.start("a,b", command=sh("trap '' TERM; echo here; while :; do sleep 1; done")[1:])
        run.until_out("a: [0] here", "b: [1] here")
        run.child.send_signal(signal.SIGINT)
        run.until_err("SIGINT: the job ends on all nodes", "a: ckpt run: SIGINT: ", "b: ckpt run: SIGINT: ")
        run.child.send_signal(signal.SIGINT)
        run.wait(130)
        has(run.err(), "a: ckpt run: SIGINT: the ranks are killed", "b: ckpt run: SIGINT: the ranks are killed")


@case("when it is killed the launchers end, and leave nothing behind")
def _():
    with hosts("ab", store=True) as (h, store):
        run = h.start("a,b", command=(*PACED, "--steps", FOREVER, "--save-storage-every", 1000))
        run.until_err("2 ranks start at step 0")
        run.child.kill()
        run.child.wait()
        h.launchers_are_gone()


@case("a host that is not reached ends the job of which it is a part, and not one that can do without it")
def _():
    with hosts("ab", store=True) as (h, path):
        tried = pathlib.Path(path) / "tried"
        run = h.start("a,b,nowhere", "--min-ranks", 1, command=sh(f"until [ -e {tried} ]; do sleep 0.05; done; exec {TRAIN} --steps {STEPS}")[1:])
        run.until_err("nowhere: the remote shell exited with status 255: the job goes on without it")
        tried.touch()
        run.wait()
        final(run.out() + run.err())
        run = h.start("a,nowhere", "--min-ranks", 2, "--job", "other").wait(1)
        has(run.err(), "nowhere: the remote shell exited with status 255, and the job cannot go on without it")
    with hosts("ab") as (h, _):
        run = h.start("a,nowhere,b", command=sh("sleep 1000")[1:]).wait(1)
        equal(len(h.pids("nowhere")), 3)
        has(run.err(), "nowhere: the remote shell exited with status 255: again in", "the job cannot go on without it", "a: ckpt run: SIGTERM")


@case("a launcher that gives up ends the job on the others")
def _():
    with hosts("ab") as (h, _):
        run = h.start("a,b", "--max-restarts", 0, command=sh("[ $CKPT_RANK = 0 ] && exit 7; sleep 1000")[1:]).wait(1)
        has(run.err(), "a: ckpt run: rank 0 exited with status 7", "a: its launcher exited with status 1", "b: ckpt run: SIGTERM")
        h.launchers_are_gone()


class Scripted:
    """A remote shell that does for each host what the test says, without a node behind it."""

    def __init__(self, **hosts):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=top))
        self.shell = self.folder / "shell"
        script = "".join(f"{name}) {what};;\n" for name, what in hosts.items())
        self.shell.write_text(f"#!/bin/sh\ncd {self.folder}\necho >> $1.starts\ncase $1 in\n{script}esac\n")
        self.shell.chmod(0o700)

    def run(self, nodes, *args, **options):
        return Run("--nodes", nodes, "--remote-shell", self.shell, *args, "--", "true", **options)

    def starts(self, name):
        path = self.folder / f"{name}.starts"
        return len(path.read_text()) if path.exists() else 0


# What a scripted host does until the test has written the file.
UNTIL = "until [ -e {} ]; do sleep 0.05; done; exit {}"


@case("a remote shell that cannot be started again does not end a job that can do without the node")
def _():
    scripted = Scripted(a="mv shell away; exit 255", b=UNTIL.format("go", 0))
    run = scripted.run("b,a", "--min-ranks", 1)
    run.until_err(f"a: cannot start {scripted.shell}: No such file or directory: again in 1.0 s")
    (scripted.folder / "go").touch()
    run.wait()


@case("a launcher that the job does without is not its end: a node that is not reached yet is tried on")
def _():
    scripted = Scripted(a="[ -e once ] || { touch once; exit 255; }; " + UNTIL.format("done", 0), b=UNTIL.format("go", 1))
    run = scripted.run("a,b", "--min-ranks", 1)
    run.until_err("a: the remote shell exited with status 255: again in 1.0 s")
    (scripted.folder / "go").touch()
    run.until_err("b: its launcher exited with status 1: the job goes on without it")
    run.until("the second start of a", lambda: scripted.starts("a") == 2)
    (scripted.folder / "done").touch()
    run.wait(1)  # what b said is too new to be left out of the code


@case("where the directory is not there the remote shell says so by the code")
def _():
    scripted = Scripted(**{"*": "until [ -e go ]; do sleep 0.05; done; exec sh -c \"$2\""})
    run = scripted.run("a,b")
    run.until("the start of both", lambda: scripted.starts("a") and scripted.starts("b"))
    run.folder = run.folder.rename(f"{run.folder}.away")
    (scripted.folder / "go").touch()
    has(run.wait(1).err(), "its launcher exited with status 127, and the job cannot go on without it")


@case("more nodes than the usual limit of descriptors is for are started, with that limit, or none of them is")
def _():
    scripted = Scripted(**{"*": "ulimit -Sn"})
    names = [f"h{i}" for i in range(40)]
    for limit, code in (("-Sn", 0), ("-n", 1)):
        run = scripted.run(",".join(names), under=("sh", "-c", f'ulimit {limit} 100 && exec "$@"', "sh")).wait(code)
        equal(sorted(run.out().splitlines()), sorted(f"{name}: 100" for name in names) if not code else [])
    has(run.err(), "40 nodes take 192 descriptors, of which this process may have 100 (ulimit -Hn)")
    equal(scripted.starts("h0"), 1)


@case("what is wrong is said")
def _():
    for args, text in ((("--nodes", "a,"), "a name is missing between two commas"), (("--nodes", "a,-oProxyCommand=x"), "is no host"),
                       (("--nodes", "a,b c"), '"b c" is no host'), (("--nodes", "a,b,a"), "a is named twice"),
                       (("--nodes", "a,b", "--spares", "b"), "--spares: b is named twice"),
                       (("--nodes", "a,b", "--spare"), "--spare does not go with the names of --nodes: --spares HOST"),
                       (("--nodes", "a,b", "--node-rank", "0"), "--node-rank does not go"), (("--nodes", "a,b", "--json"), "--report FILE"),
                       (("--nodes", "a,b", "--store", "x"), "--store does not go"), (("--nodes", "2", "--spares", "c"), "--spares is for"),
                       (("--nodes", "2", "--remote-shell", "c"), "--remote-shell is for"),
                       (("--nodes", "a,b", "--remote-shell", " "), "--remote-shell: no command"),
                       (("--nodes", "a,b", "--min-ranks", "3"), "at most all of them, 2")):
        has(Run(*args, "true").wait(2).err(), text)
    has(Run("--nodes", "a,b", "--remote-shell", "/no/such/shell", "true").wait(1).err(), "a: cannot start /no/such/shell")


sys.exit(cases.end())
