"""ckpt-train with ckptd: a run that loses ranks, the daemon or both ends with the bits of an undisturbed one."""

import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

from tap import BIN, DEADLINE, Cases, expect

STEPS, MEMORY_EVERY, STORAGE_EVERY = 120, 5, 40
SLOWLY = ("--pace", "40")  # where something happens to a run in its midst, which is over in 3 s otherwise
top = pathlib.Path(tempfile.mkdtemp())
cases = Cases()
case = cases.case
reference = None


class Run:
    """A daemon, the ranks of one job, and what they report. Leaves no process behind."""

    def __init__(self, world, *options, store=None, no_store=False, only=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=top))
        self.store = None if no_store else store or self.folder / "store"
        self.env = dict(os.environ, CKPT_SOCKET=str(self.folder / "sock"), CKPT_WORLD=str(world), CKPT_JOB="test",
                        CKPT_TIMEOUT_MS="30000")
        self.errors = open(self.folder / "stderr", "a")
        os.mkfifo(self.folder / "report")
        self.pipe = os.open(self.folder / "report", os.O_RDWR | os.O_NONBLOCK)
        self.rest, self.events = b"", []
        self.options = ["--steps", str(STEPS), "--save-memory-every", str(MEMORY_EVERY), "--save-storage-every",
                        str(STORAGE_EVERY), "--report", str(self.folder / "report"), *options]
        self.ranks, self.daemon, self.pids = [None] * world, None, [[] for _ in range(world)]
        self.start_daemon()
        for rank in range(world) if only is None else only:
            self.start(rank)

    def start_daemon(self):
        store = ["--store", self.store] if self.store else []
        self.daemon = subprocess.Popen([BIN / "ckptd", *store], env=self.env, stderr=self.errors)

    def start(self, rank):
        self.ranks[rank] = subprocess.Popen([BIN / "ckpt-train", *self.options], stdout=subprocess.PIPE,
                                            env=dict(self.env, CKPT_RANK=str(rank)), stderr=self.errors, text=True)
        self.pids[rank].append(self.ranks[rank].pid)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for process in [*self.ranks, self.daemon]:
            if process and process.poll() is None:
                process.kill()
            if process:
                process.wait()
        os.close(self.pipe)
        self.errors.close()
        if error:
            error.args = (f"{error}\n{self.messages()}",)

    def messages(self):
        return (self.folder / "stderr").read_text()

    def read_events(self, timeout):
        if select.select([self.pipe], [], [], timeout)[0]:
            *lines, self.rest = (self.rest + os.read(self.pipe, 65536)).split(b"\n")
            self.events += map(json.loads, lines)

    def wait_for(self, wanted):
        """The first event from now on for which wanted(event)."""
        at, until = len(self.events), time.monotonic() + DEADLINE
        while time.monotonic() < until:
            for event in self.events[at:]:
                if wanted(event):
                    return event
            at = len(self.events)
            self.read_events(0.2)
            expect(not any(rank.poll() for rank in self.ranks), "a rank has failed")
        raise AssertionError("the event did not come")

    def wait_save(self, step):
        return self.wait_for(lambda event: event["event"] == "save" and event["step"] >= step)

    def kill(self, rank):
        self.ranks[rank].kill()
        self.ranks[rank].wait()
        self.ranks[rank].stdout.close()
        self.start(rank)

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        self.start_daemon()

    def finish(self, status=0):
        """Waits for the end of all ranks; returns the final line of rank 0 as a dict."""
        until = time.monotonic() + DEADLINE
        while any(rank.poll() is None for rank in self.ranks):
            expect(time.monotonic() < until, "the run does not end")
            self.read_events(0.05)
        self.read_events(0)
        outputs = [rank.communicate()[0] for rank in self.ranks]
        expect([rank.returncode for rank in self.ranks] == [status] * len(self.ranks), "exit statuses",
              [rank.returncode for rank in self.ranks])
        self.daemon.terminate()
        expect(self.daemon.wait(DEADLINE) == 0, "ckptd ended with", self.daemon.returncode)
        return dict(word.split("=") for word in outputs[0].split()[1:])

    def of(self, event):
        return [found for found in self.events if found["event"] == event]


def committed(store):
    return sorted(path.parent.name for path in store.glob("test/step-*/MANIFEST.json"))


def same_bits(run):
    final = run.finish()
    expect(final == reference, "ended with", final, "the undisturbed run with", reference)


@case("an undisturbed run ends with a committed checkpoint and the same parameters on every rank")
def undisturbed():
    global reference
    with Run(4) as run:
        reference = run.finish()
        expect(reference["step"] == str(STEPS), reference)
        expect(float(reference["loss"]) < 4, reference)
        expect(any(f"step-{STEPS:012d}." in name for name in committed(run.store)), committed(run.store))
        ends = run.of("end")
        expect(len(ends) == 4 and {end["params"] for end in ends} == {reference["params"]}, ends)
        # Where the machine is busy, saves that find all slots in use are left out.
        expect({save["result"] for save in run.of("save")} <= {"ok", "busy"}, run.of("save"))


@case("a killed rank is replaced from memory, its neighbours live on, and no bit differs")
def killed():
    with Run(4, *SLOWLY) as run:
        run.wait_save(50)
        run.kill(2)
        same_bits(run)
        expect([len(pids) for pids in run.pids] == [1, 1, 2, 1], run.pids)
        recoveries = run.of("recovery")
        expect(sorted(event["rank"] for event in recoveries) == [0, 1, 3], recoveries)
        for event in recoveries:
            expect(event["source"] == "memory" and event["steps_lost"] <= 3 * MEMORY_EVERY, event)
            expect(event["step"] % MEMORY_EVERY == 0 and event["epoch"] == recoveries[0]["epoch"], event)


@case("ranks killed one after the other, rank 0 and the same one twice among them, change no bit")
def killed_often():
    with Run(4, "--pace", "100") as run:  # so that the last one is killed before the end
        for rank, step in (0, 20), (3, 45), (3, 60), (1, 95):
            run.wait_save(step)
            run.kill(rank)
        same_bits(run)


@case("two ranks killed at once change no bit")
def killed_together():
    with Run(4, *SLOWLY) as run:
        run.wait_save(50)
        for rank in 1, 2:
            run.ranks[rank].kill()
        for rank in 1, 2:
            run.kill(rank)
        same_bits(run)


@case("a killed daemon ends no training, and a rank killed with it changes no bit")
def killed_daemon():
    with Run(4, *SLOWLY) as run:
        run.wait_save(30)
        run.kill_daemon()
        run.wait_save(70)
        run.daemon.kill()
        run.kill(1)
        run.kill_daemon()
        same_bits(run)
        expect([len(pids) for pids in run.pids] == [1, 2, 1, 1], run.pids)


@case("SIGTERM to one rank ends all at one step with a checkpoint, from which the next run goes on bit for bit")
def stopped():
    with Run(4, *SLOWLY) as run:
        run.wait_save(50)
        run.ranks[3].send_signal(signal.SIGTERM)
        final = run.finish()
        expect(50 <= int(final["step"]) < STEPS, final)
        expect(any(f"step-{int(final['step']):012d}." in name for name in committed(run.store)), committed(run.store))
        expect({end["step"] for end in run.of("end")} == {int(final["step"])}, run.of("end"))
    with Run(4, store=run.store) as again:
        same_bits(again)
        expect({(start["step"], start["source"]) for start in again.of("start")} == {(int(final["step"]), "storage")},
              again.of("start"))


@case("with a daemon that has no store all saves go to memory, which is said once, and the run ends well")
def memory_only():
    with Run(2, *SLOWLY, no_store=True) as run:
        run.wait_save(50)
        run.kill(1)
        final = run.finish()
        expect(final["step"] == str(STEPS), final)
        expect(run.messages().count("has no store") == 1, run.messages())
        expect({save["target"] for save in run.of("save")} == {"memory"}, run.of("save"))


def stop_in_join(daemon_dies):
    with Run(2, only=[0]) as run:
        def connected():
            status = subprocess.run([BIN / "ckpt", "status", "--json"], env=run.env, capture_output=True)
            jobs = json.loads(status.stdout)["jobs"] if status.returncode == 0 else []
            return jobs and jobs[0]["ranks"][0].get("pid") == run.ranks[0].pid
        until = time.monotonic() + DEADLINE
        while not connected():
            expect(time.monotonic() < until, "the rank does not come")
            time.sleep(0.01)
        if daemon_dies:
            run.daemon.kill()
            run.daemon.wait()
        begin = time.monotonic()
        run.ranks[0].send_signal(signal.SIGTERM)
        expect(run.ranks[0].wait(DEADLINE) == 1, run.messages())
        expect(time.monotonic() - begin < 2 * DEADLINE / 3, "it ended after", time.monotonic() - begin, "s")
        expect("join: " in run.messages(), "no reason is said")


@case("all ranks end with --stopped-status when one was asked to stop, and with 0 when they have trained to the end")
def stopped_status():
    with Run(2, "--stopped-status", "75", *SLOWLY) as run:
        run.wait_save(MEMORY_EVERY)
        run.ranks[1].send_signal(signal.SIGTERM)
        expect(int(run.finish(75)["step"]) < STEPS)
    with Run(2, "--stopped-status", "75", store=run.store) as again:
        expect(int(again.finish()["step"]) == STEPS)


@case("SIGTERM ends a rank that waits for others")
def stopped_without_others():
    stop_in_join(False)


@case("SIGTERM ends a rank that waits for others and the daemon")
def stopped_without_daemon():
    stop_in_join(True)


@case("a run goes on at another world size")
def other_world():
    with Run(4, "--steps", "60") as run:
        final = run.finish()
    with Run(3, "--steps", "70", store=run.store) as smaller:
        expect(smaller.finish()["step"] == "70" and smaller.of("start")[0]["step"] == 60, smaller.events)
    with Run(1, "--steps", "75", store=run.store) as alone:
        last = alone.finish()
        expect(last["step"] == "75" and alone.of("start")[0]["step"] == 70, alone.events)
        expect(float(last["loss"]) < float(final["loss"]) + 0.5, final, last)


@case("without a daemon a rank ends within its timeout and names the socket")
def no_daemon():
    env = dict(os.environ, CKPT_SOCKET=str(top / "nobody"), CKPT_WORLD="1", CKPT_RANK="0", CKPT_TIMEOUT_MS="300")
    done = subprocess.run([BIN / "ckpt-train"], capture_output=True, text=True, timeout=DEADLINE, env=env)
    expect(done.returncode == 1 and str(top / "nobody") in done.stderr, done)


@case("a rank that waits for a daemon says so, once, and that the socket is none")
def waits_for_daemon():
    (top / "plain").write_text("")
    for path, cause in ((top / "nobody", "no daemon listens at"), (top / "plain", "plain is not a socket"), (top, "is not a socket")):
        env = dict(os.environ, CKPT_SOCKET=str(path), CKPT_WORLD="1", CKPT_RANK="0", CKPT_TIMEOUT_MS="1500")
        done = subprocess.run([BIN / "ckpt-train"], capture_output=True, text=True, timeout=DEADLINE, env=env)
        told = [line for line in done.stderr.splitlines() if "waiting for a daemon, at most 1 s longer" in line]
        expect(done.returncode == 1 and len(told) == 1 and cause in told[0] and str(path) in told[0], done)


@case("wrong usage ends with status 2 and names the option")
def usage():
    done = subprocess.run([BIN / "ckpt-train", "--batch", "none"], capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode == 2 and "--batch none" in done.stderr, done)


sys.exit(cases.end())
