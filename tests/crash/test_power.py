"""Power cuts, as the file system sees them: ckptd works on a loop-mounted ext4 or xfs, the file system is shut down (what is not on
the device is gone), mounted again, and looked at. At every state of a commit, and at random instants under load. What was
acknowledged as durable must be there, whole; what is listed must be whole. That the test can fail is shown with a daemon whose
fsync of files, or of directories, does nothing. File systems side by side."""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import single_node
from single_node import BIN
from tap import NIGHTLY, Cases, Failure, expect, until

WORLD = 2
LOAD = ("--storage", 1, "--pause", 2, "--elements", 8000, "--deadline", 20000)
MEGABYTES = {"ext4": 64, "xfs": 320}
# So that ext4 does not write its journal by itself every 5 s. Of xfs it cannot be asked: it forces its log every 30 s.
MOUNT = {"ext4": "loop,commit=3600", "xfs": "loop"}
RANDOM_CUTS = 60 if NIGHTLY else 6
FORGOTTEN_CUTS = 5  # at most: the first one tells, unless the kernel has just then written by itself
# Here a step has just been said to be durable. The third time the daemon's loop stands still for longer than anything waits. Nothing is
# written meanwhile: ranks that wait for what they save have begun nothing, and what is not read back leaves no mark that it was.
STEPS = 3
HELD, PATIENT, UNREAD = "commit.close_node", ("--wait", "durable"), {"CKPT_VERIFY": "no"}
# In a commit that succeeds; the rest is clearing up after a failure.
STATES = ("job_dir", "open_job", "probe", "mkdir", "open_dir", "data", "digests", "sidecars", "notice", "node", "sync_dir", "sync_root",
          "manifest", "sync_manifest", "name", "sync_name", "close_dir", "close_job", "done")


class FileSystem:
    """One whose power can be cut."""

    def __init__(self, kind):
        self.kind, self.top = kind, pathlib.Path(tempfile.mkdtemp())
        self.image, self.at = self.top / "image", self.top / "fs"
        self.at.mkdir()
        with open(self.image, "wb") as f:
            f.truncate(MEGABYTES[kind] << 20)
        self.must(f"mkfs.{kind}", "-q", *(["-F"] if kind == "ext4" else []), self.image)
        self.mounted = False

    @staticmethod
    def must(*command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        expect(done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr.strip()}")

    def mount(self):
        self.must("mount", "-o", MOUNT[self.kind], self.image, self.at)
        self.mounted = True

    def cut(self):
        """Nothing more reaches the device, not even the journal."""
        self.must("xfs_io", "-x", "-c", "shutdown", self.at)

    def unmount(self):
        if self.mounted:
            until(lambda: subprocess.run(["umount", self.at], capture_output=True).returncode == 0, "the file system is let go")
            # Only then is it gone: a mount before that would be given the same one, which is still shut down.
            until(lambda: not self.loops(), "the loop device is let go")
        self.mounted = False

    def loops(self):
        return subprocess.run(["losetup", "-j", self.image], capture_output=True, text=True).stdout.strip()

    def close(self):
        with contextlib.suppress(Failure):
            self.unmount()
        shutil.rmtree(self.top, ignore_errors=True)


def why_not(kind):
    for tool in ("xfs_io", f"mkfs.{kind}", "mount"):
        if not shutil.which(tool) and not shutil.which(tool, path="/usr/sbin:/sbin"):
            return f"{tool} is not installed"
    fs = None
    try:
        fs = FileSystem(kind)
        fs.mount()
        fs.cut()
    except Failure as error:
        return f"a file system cannot be mounted and shut down here: {error}"
    finally:
        if fs:
            fs.close()
    return None


class Machine:
    """A daemon on such a file system, and the ranks of a job, whose logs of what was acknowledged are elsewhere."""

    def __init__(self, fs, d):
        self.fs, self.d, self.ranks, self.unheard = fs, d, [], set()
        d.store = fs.at / "store"
        d.options += ["--store", str(d.store)]

    def boot(self, failpoints="", forget=None, load=(), **variables):
        self.fs.mount()
        if forget:
            variables.update(CKPT_DISK_ENGINE="threads", CKPT_FORGET=forget, LD_PRELOAD=str(BIN / "forget.so"),
                             ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        self.d.start(failpoints, **variables)
        number = len(self.d.ranks)
        self.ranks = [self.d.rank(r, WORLD, *LOAD, *load, "--steps", 100000, name=f"rank{r}.{number}") for r in range(WORLD)]

    def acknowledged(self):
        return set().union(*(r.reached("durable") for r in self.d.ranks)) - self.unheard

    def at_work(self, count=2):
        def done():
            return not self.d.alive() or all(len(r.reached("durable")) >= count for r in self.ranks)
        until(done, "steps become durable")

    def hold(self, forget=None):
        """Boots it, and returns when it stands still right after an acknowledgement that all ranks have heard."""
        before = self.held()
        self.boot(f"{HELD}=delay:600000@{STEPS}", forget, PATIENT, **UNREAD)
        self.at_work(STEPS)
        until(lambda: self.held() > before, "the daemon is held")

    def held(self):
        return self.d.fired.read_text().count(f"fired {HELD} ") if self.d.fired.exists() else 0

    def cut(self, doubtful=True):
        """doubtful: what is acknowledged while it lasts counts, too. It should not where nothing may be lost: a file system that is being
        shut down lets go of what an fsync waits for, and the fsync may say that all is well. When the power fails nobody hears that."""
        before = self.acknowledged()
        self.fs.cut()
        self.d.kill()
        for rank in self.ranks:
            rank.kill()
        if not doubtful:
            self.unheard |= self.acknowledged() - before
        self.fs.unmount()

    def look(self):
        """What is wrong with the store after the power has come back; nothing: None."""
        self.fs.mount()
        try:
            lost = self.acknowledged() - set(self.d.committed())
            if lost:
                return f"lost: {sorted(lost)}"
            if not self.d.committed():
                return None
            code, out, err = self.d.ckpt("verify", "--repo", self.d.store, "--all", "--read-data")
            return None if code == 0 else f"verify: exit {code}: {out[:400]} {err[:400]}"
        finally:
            self.fs.unmount()


@contextlib.contextmanager
def machine(kind):
    fs = FileSystem(kind)
    try:
        with single_node.daemon(store=False) as d:
            yield Machine(fs, d)
    finally:
        fs.close()


def at_each_state(kind):
    with machine(kind) as m:
        for state in STATES:
            m.boot(f"commit.{state}=kill@3")
            until(lambda: not m.d.alive(), f"the daemon dies at {state}")
            m.cut()
            wrong = m.look()
            expect(not wrong, f"cut at {state}: {wrong}")
        print(f"# {kind}: {len(STATES)} cuts, {len(m.acknowledged())} acknowledged, 0 lost")


def at_random(kind, choose):
    with machine(kind) as m:
        for n in range(RANDOM_CUTS):
            m.boot()
            m.at_work()
            # What is random here is the instant: there is no event to wait for.
            time.sleep(choose.uniform(0, 0.2))
            m.cut(doubtful=False)
            wrong = m.look()
            expect(not wrong, f"cut {n}: {wrong}")
        print(f"# {kind}: {RANDOM_CUTS} cuts, {len(m.acknowledged())} acknowledged, 0 lost")


def forgotten(kind, what):
    """A daemon that does not fsync must be found out, by a cut at which one that does loses nothing."""
    with machine(kind) as m:
        m.hold()
        m.cut()
        wrong = m.look()
        expect(not wrong, f"cut of one that forgets nothing: {wrong}")
        for n in range(FORGOTTEN_CUTS):
            m.hold(forget=what)
            m.cut()
            wrong = m.look()
            if wrong:
                print(f"# {kind}, fsync of {what} forgotten: found at cut {n}: {wrong[:100]}")
                return
        raise Failure(f"{FORGOTTEN_CUTS} cuts of a daemon that forgets the fsync of each {what} show nothing")


def main():
    seed = int(os.environ.get("CKPT_SEED", random.randrange(1 << 32)))
    print(f"# CKPT_SEED={seed}", flush=True)
    cases, rows = Cases(), []
    for kind in MEGABYTES:
        why = why_not(kind)
        for name, test, *args in ((f"{kind}: power cuts at every state of a commit", at_each_state, kind),
                                  (f"{kind}: power cuts at random", at_random, kind, random.Random(seed)),
                                  (f"{kind}: a forgotten fsync of files is found", forgotten, kind, "file"),
                                  (f"{kind}: a forgotten fsync of directories is found", forgotten, kind, "directory")):
            rows.append((name, (lambda why: lambda *_: why)(why) if why else test, *args))
    cases.run_beside(rows)
    return cases.end()


sys.exit(main())
