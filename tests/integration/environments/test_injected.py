"""System calls of the daemon fail, class by class: strace is attached to it while a job saves (or ranks arrive, or it starts), lets some
calls of the class fail, and goes. The daemon lives, ranks train on, what failed is said, what was acknowledged is there and whole,
and the next checkpoint is durable. On threads, where every call of the disk is one of the process, and with io_uring. Prints how many
failures each class had."""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import single_node
from single_node import BIN, NIGHTLY, Cases, Failure, expect, until
from failing_allocation import preloaded

WORLD = 2
LOAD = ("--storage", 2, "--pause", 5, "--elements", 8000, "--deadline", 20000)
FIRED = 12 if NIGHTLY else 3
QUIET = 3  # seconds after which a class that was not called is left alone

# While a job saves: class, errors. The last is what the daemon must have said, in its log or to a rank; None: it goes on as if nothing was.
SAVING = (
    ("openat", "EMFILE", "Too many open files"), ("openat", "EIO", "Input/output error"), ("mkdirat", "ENOSPC", "No space left"),
    ("linkat", "EIO", "Input/output error"), ("unlinkat", "EIO", None),
    ("fsync", "EIO", "Input/output error"), ("pwrite64", "ENOSPC", "No space left"), ("pwrite64", "EIO", "Input/output error"),
    ("pread64", "EIO", "Input/output error"), ("pread64", "EINTR", None), ("pwrite64", "EINTR", None), ("ftruncate", "EIO", None),
    ("fallocate", "ENOSPC", None), ("newfstatat", "EIO", None), ("mmap", "ENOMEM", None),
    ("close", "EIO", None), ("read", "EAGAIN", None),
    ("read", "EINTR", None), ("write", "EAGAIN", None), ("epoll_wait", "EINTR", None), ("sendmsg", "EAGAIN", None),
    ("clone3", "EAGAIN", None))
URING = (("io_uring_enter", "EINTR", None), ("io_uring_enter", "EAGAIN", None), ("io_uring_enter", "EBUSY", None),
         ("write", "EAGAIN", None))
# While ranks arrive and join.
ARRIVING = (("accept4", "EMFILE"), ("accept4", "ECONNABORTED"), ("recvmsg", "ECONNRESET"), ("recvmsg", "ENOMEM"), ("recvmsg", "EINTR"), ("sendmsg", "EPIPE"),
            ("sendmsg", "ENOBUFS"), ("epoll_ctl", "ENOMEM"), ("epoll_ctl", "ENOSPC"), ("memfd_create", "EMFILE"), ("mmap", "ENOMEM"),
            ("ftruncate", "ENOMEM"), ("fcntl", "EPERM"), ("eventfd2", "EMFILE"), ("pidfd_open", "EMFILE"), ("getsockopt", "EINVAL"),
            ("madvise", "ENOMEM"), ("clone3", "EAGAIN"))
# At the start: it comes up, or ends with a sentence.
STARTING = (("socket", "EMFILE"), ("bind", "EACCES"), ("listen", "EADDRINUSE"), ("epoll_create1", "EMFILE"), ("eventfd2", "EMFILE"),
            ("timerfd_create", "EMFILE"), ("signalfd4", "EMFILE"), ("clone3", "EAGAIN"), ("mkdirat", "EROFS"), ("openat", "EACCES"),
            ("flock", "EAGAIN"), ("fsync", "EIO"), ("io_uring_setup", "ENOMEM"), ("io_uring_setup", "EPERM"),
            ("io_uring_register", "EINVAL"), ("epoll_ctl", "ENOSPC"), ("getrandom", "ENOSYS"))


class Injection:
    """strace on a process: of each thread's calls of a class every third fails, FIRED in all. No more: a call that is failing just when strace
    lets go is one that the kernel does not know (ENOSYS), which no io_uring_enter says that has worked before. all: each of them, to the end."""

    def __init__(self, call, error, pid, top, all=False):
        when = "1+" if all else f"1..{3 * FIRED - 2}+3"
        self.trace, self.said = top / f"{call}.{error}", tempfile.TemporaryFile("w+")
        self.trace.write_text("")
        self.process = subprocess.Popen(["strace", "-f", "-qq", "-o", self.trace, "-e", f"trace={call}",
                                         "-e", f"inject={call}:error={error}:when={when}", "-p", str(pid)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.said, start_new_session=True)

    def fired(self):
        return self.trace.read_text(errors="replace").count("(INJECTED)")

    def calls(self):
        return len(re.findall(r"^\d+ +\w+\(", self.trace.read_text(errors="replace"), re.M))

    def until_fired(self, count, seconds=QUIET):
        limit = time.monotonic() + seconds
        while self.fired() < count and time.monotonic() < limit and self.process.poll() is None:
            time.sleep(0.02)
        return self.fired()

    def end(self):
        """It lets go of the process."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.said.close()


def why_not():
    if not shutil.which("strace"):
        return "strace is not installed"
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        with tempfile.TemporaryDirectory() as top:
            probe = subprocess.Popen(["strace", "-o", f"{top}/x", "-p", str(sleeper.pid)], stderr=subprocess.PIPE, text=True)
            line = probe.stderr.readline()
            probe.terminate()
            probe.wait(20)
            probe.stderr.close()
            return None if "attached" in line else f"strace may not attach to a process: {line.strip()}"
    finally:
        sleeper.kill()
        sleeper.wait()


class Job:
    def __init__(self, d, name, job="main"):
        self.d, self.stop, self.name = d, d.top / f"stop{name}", name
        self.ranks = [d.rank(r, WORLD, *LOAD, "--until-file", self.stop,
                             name=f"rank{r}.{len(d.ranks)}", env={"CKPT_JOB": job}) for r in range(WORLD)]

        for rank in self.ranks:
            rank.job = job

    def count(self, level):
        return min(len(r.reached(level)) for r in self.ranks)

    def check(self):
        expect(self.d.alive(), f"{self.name}: the daemon ended with {self.d.process.poll()}: {self.d.text()[-800:]}")
        for r in self.ranks:
            expect(r.process.poll() is None, f"{self.name}: rank {r.number} ended with {r.process.returncode}: {r.lines()[-3:]}")

    def more(self, level, count=2):
        before = self.count(level)

        def there():
            self.check()
            return self.count(level) >= before + count
        until(there, f"{self.name}: more {level}")

    def said(self):
        return self.d.text() + "".join("\n".join(r.lines()) for r in self.ranks)

    def kill(self):
        for r in self.ranks:
            r.kill()

    def end(self):
        self.stop.touch()
        for r in self.ranks:
            expect(r.wait() == 0, f"{self.name}: rank {r.number} ended with {r.process.returncode}: {r.lines()[-3:]}")


def intact(d):
    acknowledged = set().union(*(r.reached("durable") for r in d.ranks if r.job == "main"))
    lost = acknowledged - set(d.committed())
    expect(not lost, "lost:", sorted(lost))
    d.verify_all()
    return len(acknowledged)


def saving(engine, classes):
    with single_node.daemon() as d:
        with preloaded({"CKPT_DISK_ENGINE": engine}):
            d.start()
        job = Job(d, engine)
        job.more("durable")
        for call, error, words in classes:
            job.name = f"{engine}, {call}={error}"
            before = len(job.said())
            mute = call == "write"  # then no thread can ring the loop's bell: saves go on all the same, at its ticks
            injection = Injection(call, error, d.process.pid, d.top, all=mute)
            try:
                injection.until_fired(FIRED)
                job.check()
                if mute:
                    job.more("durable")
            finally:
                injection.end()
            fired = injection.fired()
            job.more("durable")
            print(f"# saving, {engine}: {call}={error}: {injection.calls()} calls, {fired} failed", flush=True)
            if words and fired:
                until(lambda w=words, b=before: w in job.said()[b - 1:] or w in job.said(), f"{job.name}: '{words}' is said")
        job.end()
        print(f"# saving, {engine}: {intact(d)} acknowledged, 0 lost")
        expect(d.stop() == 0, "the daemon's end")


def arriving():
    with single_node.daemon() as d:
        d.start()
        total = 0
        for call, error in ARRIVING:
            injection = Injection(call, error, d.process.pid, d.top)
            job = None
            try:
                until(lambda i=injection: i.process.poll() is not None or traced(d.process.pid), "strace is attached")
                job = Job(d, f"arriving, {call}={error}", f"{call}.{error}")  # of its own: arenas are made anew
                injection.until_fired(1)
            finally:
                injection.end()
            total += injection.fired()
            print(f"# arriving: {call}={error}: {injection.calls()} calls, {injection.fired()} failed", flush=True)
            expect(d.alive(), f"{job.name}: the daemon ended with {d.process.poll()}: {d.text()[-800:]}")
            for r in job.ranks:  # refused, perhaps, with a sentence
                words = pathlib.Path(f"{r.log}.err").read_text() + "".join(r.lines())
                expect(r.process.poll() is None or "refused" in words or "drive:" in words, f"{job.name}: rank {r.number}: {words}")
            job.kill()
            job = Job(d, f"after {call}={error}")
            job.more("durable", 1)
            job.kill()
        expect(total, "nothing fired")
        print(f"# arriving: {intact(d)} acknowledged, 0 lost")
        expect(d.stop() == 0, "the daemon's end")


def traced(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return "TracerPid:\t0" not in status.read()


def starting():
    fired = 0
    for call, error in STARTING:
        with single_node.daemon() as d:
            trace = d.top / "trace"
            with open(d.log, "wb") as log:
                d.process = subprocess.Popen(["strace", "-f", "-qq", "-o", trace, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when=1+2",
                                              BIN / "ckptd", "--socket", d.socket, *d.options], stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL, env=d.environment(), start_new_session=True)
            try:
                until(lambda d=d: d.answers() or d.process.poll() is not None, f"{call}={error}: the daemon listens or ends")
            finally:
                up = d.process.poll() is None
                subprocess.run(["pkill", "-TERM", "-P", str(d.process.pid)], check=False)
                code = d.process.wait(single_node.DEADLINE)
            expect(trace.exists(), f"{call}={error}: {d.text()}")
            count = trace.read_text(errors="replace").count("(INJECTED)")
            fired += count
            expect(up or (code > 0 and d.text().strip()), f"{call}={error}: exit {code}: {d.text()}")
            print(f"# starting: {call}={error}: {count} failed, the daemon {'came up' if up else 'said: ' + d.text().splitlines()[-1]}", flush=True)
    expect(fired, "nothing fired")


def main():
    cases = Cases()
    why = why_not()
    for name, test, *args in (("calls fail while a job saves: threads", saving, "threads", SAVING),
                              ("calls fail while a job saves: io_uring", saving, "uring", URING),
                              ("calls fail while ranks arrive", arriving),
                              ("calls fail at the start", starting)):
        cases.run(name, (lambda why: lambda *_: why)(why) if why else test, *args)
    return cases.end()


sys.exit(main())
