"""A full, failing or read-only store: the checkpoint fails with a message, training goes on, and the next save works once the cause
is gone. Nothing half-written is listed."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import single_node
from launcher import PACED, Run
from tap import Cases, expect, has, until

WORLD = 2
LOAD = ("--storage", 2, "--pause", 10, "--elements", 8000, "--deadline", 20000)


class Job:
    def __init__(self, d):
        self.d, self.stop = d, d.top / "stop"
        self.ranks = d.world(WORLD, *LOAD, "--until-file", self.stop)

    def more(self, level="durable", count=2):
        """Every rank sees further steps reach the level."""
        before = [len(r.reached(level)) for r in self.ranks]
        until(lambda: all(len(r.reached(level)) >= n + count for r, n in zip(self.ranks, before)) or self.broken(), f"more {level}")
        expect(not self.broken(), "a rank ended:", *self.ranks[0].lines()[-3:])

    def broken(self):
        return any(r.process.poll() is not None for r in self.ranks) or not self.d.alive()

    def failures(self, code):
        return [line for r in self.ranks for line in r.lines() if line.startswith("failed") and code in line]

    def fails(self, code):
        until(lambda: self.failures(code) or self.broken(), f"a save fails with {code}")
        expect(not self.broken(), "a rank ended:", *self.ranks[0].lines()[-3:])

    def end(self, words):
        self.stop.touch()
        for r in self.ranks:
            expect(r.wait() == 0, f"rank {r.number} ended with {r.process.returncode}: {r.lines()[-3:]}")
        expect(words in self.d.text(), f"the daemon's log does not say '{words}'")
        durable = set().union(*(r.reached("durable") for r in self.ranks))
        expect(durable <= set(self.d.committed()), "lost:", durable - set(self.d.committed()))
        self.d.verify_all()
        expect(self.d.stop() == 0, "the daemon's end:", self.d.process.returncode)


class Mount:
    """A small file system of its own; None when this user may not mount."""

    def __init__(self, megabytes):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.at, image = self.top / "fs", self.top / "image"
        self.at.mkdir()
        with open(image, "wb") as f:
            f.truncate(megabytes << 20)
        tries = []
        if shutil.which("mkfs.ext4") and not subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image]).returncode:
            tries.append(["mount", "-o", "loop", image, self.at])
        tries.append(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", self.at])
        self.why = "no mount"
        self.mounted = False
        for command in tries:
            done = subprocess.run(command, capture_output=True, text=True)
            self.mounted = done.returncode == 0
            self.why = done.stderr.strip().replace("\n", " ")
            if self.mounted:
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "-l", self.at], check=True)
        shutil.rmtree(self.top, ignore_errors=True)


def store_on(d, mount):
    d.store = mount.at / "store"
    d.options[d.options.index("--store") + 1] = str(d.store)


def full():
    with Mount(24) as mount:
        if not mount.mounted:
            return f"a small file system cannot be mounted: {mount.why}"
        with single_node.daemon() as d:
            store_on(d, mount)
            d.start()
            job = Job(d)
            job.more()
            filler = mount.at / "filler"
            with open(filler, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(bytes(1 << 16))
                except OSError:
                    pass
            job.fails("ENOSPC")
            job.more("captured")
            filler.unlink()
            job.more()
            job.end("No space left on device")
    return None


def read_only_from_the_start():
    with Mount(24) as mount:
        if not mount.mounted:
            return f"a small file system cannot be mounted: {mount.why}"
        with single_node.daemon() as d:
            store_on(d, mount)
            d.start()
            expect(d.stop() == 0)
            subprocess.run(["mount", "-o", "remount,ro", mount.at], check=True)
            d.start(ready=False)
            expect(d.process.wait(single_node.DEADLINE) == 1, "the daemon starts on a read-only store")
            expect("Read-only file system" in d.text(), "it does not say why")
            subprocess.run(["mount", "-o", "remount,rw", mount.at], check=True)
            d.start()
            job = Job(d)
            job.more()
            job.end("listens on")
    return None


def injected(spec, code, words):
    with single_node.daemon() as d:
        d.start(spec)
        job = Job(d)
        job.fails(code)
        job.more()
        job.end(words)


# Several hits in a row: some of them are those of the read-back and of marks, which fail no checkpoint.
def several(point, error, hits):
    return ",".join(f"{point}=error:{error}@{hit}" for hit in hits)


def stalled():
    """A disk that answers nothing: the commit fails at the deadline, training goes on."""
    with single_node.daemon(options=["--stall-timeout", 300]) as d:
        d.start(",".join(f"disk.fsync=delay:800@{hit}" for hit in range(12, 20)))
        job = Job(d)
        job.fails("ETIMEDOUT")
        job.more()
        job.end("no progress")


def unread():
    """What is on storage and cannot be read back is no save that failed: it counts, and only that is told."""
    with single_node.daemon(options=["--write-bandwidth", "300K"]) as d:
        d.start(several("readback", "EAGAIN", range(1, 40)))
        run = Run("-n", 1, "--job", "main", "--socket", d.socket, "--", *PACED, "--steps", 30, "--save-memory-every", 0, "--save-storage-every", 10)
        run.until("a save under way", lambda: any(s["in_memory"] for s in (d.job() or {"snapshots": []})["snapshots"]))
        # So that the rank does not see the moment in which the save is durable and nobody has tried to read it back.
        rank = d.job()["ranks"][0]["pid"]
        os.kill(rank, signal.SIGSTOP)
        run.until("the reading back", lambda: "step 10 epoch 1 not verified: " in d.text())
        os.kill(rank, signal.SIGCONT)
        run.wait(0)
        has(run.err(), "the save of step 10 is on storage, but is not verified: step 10: ")
        has(d.text(), "not verified: it cannot be read back: Resource temporarily unavailable")
        expect("to storage failed" not in run.err(), run.err())
        expect({10, 30} <= {step for _, step in d.committed()}, d.committed())
        expect(d.stop() == 0, "the daemon's end:", d.process.returncode)


def main():
    cases = Cases()
    cases.run("a full file system", full)
    cases.run("a read-only store at the start", read_only_from_the_start)
    for name, spec, code, words in (
            ("EIO of a write", several("disk.write", "EIO", range(9, 20)), "EIO", "Input/output error"),
            ("EIO of a fsync", several("disk.fsync", "EIO", range(9, 30)), "EIO", "Input/output error"),
            ("EROFS of a mkdir", several("disk.mkdir", "EROFS", range(6, 12)), "EROFS", "Read-only file system"),
            ("EDQUOT of an open", several("disk.open", "EDQUOT", range(40, 48)), "EDQUOT", "Disk quota exceeded"),
            ("ENOSPC while clearing up after ENOSPC", several("disk.write", "ENOSPC", range(9, 20)) + "," +
             several("disk.rename", "ENOSPC", (1,)), "ENOSPC", "No space left on device")):
        cases.run(name, injected, spec, code, words)
    cases.run("a stalled disk", stalled)
    cases.run("what cannot be read back", unread)
    return cases.end()


sys.exit(main())
