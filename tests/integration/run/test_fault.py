"""ckpt fault: each kind in a running job, how it is seen to have fired, where it is told, and what is refused."""

import json
import re
import subprocess
import sys
import tempfile
import time

import single_node
from launcher import CKPT, ENVIRONMENT, PACED, Run, top, until_gone
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

FAILED, USAGE, PARTIAL, NO_DAEMON = 1, 2, 3, 12
LONG_ENOUGH = "15s"  # to be seen, and for one more command, where a process stands still for seconds
cases = Cases()
case = cases.case
SOURCE = (BIN.parents[2] / "libckpt" / "format" / "message" / "fault.h")


def ckpt(*args, code=0):
    done = subprocess.run([CKPT, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, code, f"{args}: {done.stdout} {done.stderr}")
    return done.stdout if code == 0 else done.stderr


class Job:
    """Two ranks that train until they are asked to end, at a daemon that allows faults."""

    def __init__(self, *options, storage_every=10, hang_s=DEADLINE):
        """hang_s: nobody is taken for one that hangs who is stopped, or waits for a disk, on purpose."""
        self.daemon = single_node.Daemon(tempfile.mkdtemp(dir=top), options=("--faults", "--span-log", "spans", *options))
        self.spans = self.daemon.top / "spans"
        self.daemon.options[self.daemon.options.index("spans")] = str(self.spans)
        self.daemon.start()
        self.run = Run("-n", 2, "--job", "gpt", "--socket", self.daemon.socket, "--hang-timeout", hang_s, "--max-restarts", 100, "--", *PACED,
                       "--steps", 1000000, "--save-memory-every", 2, "--save-storage-every", storage_every)
        until(lambda: self.job() and self.job()["saves"]["durable"]["step"], "a save on storage")

    def job(self):
        return next(iter(self.daemon.status()["jobs"]), None)

    def spans_of(self, name):
        """Those that stand in the log: it is written a little later than they happen, and its last line may be under way."""
        lines = self.spans.read_text().split("\n")[:-1]
        return [span for span in map(json.loads, lines) if span["span"] == name]

    def fault(self, *args, code=0):
        return ckpt("fault", *args, "--socket", self.daemon.socket, code=code)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.run.child.terminate()
        self.run.child.wait(DEADLINE)
        self.daemon.close()


@case("the catalogue names each kind of the code once, and those that ckpt run has")
def _():
    listed = json.loads(ckpt("fault", "list", "--json"))["faults"]
    names = [f["name"] for f in listed]
    kinds = re.findall(r"^\tFAULT_([A-Z_]+)(?: = 1)?,$", SOURCE.read_text().split("enum fault_kind {")[1].split("};")[0], re.M)
    equal(sorted(names), sorted(k.lower().replace("_", "-") for k in kinds if k != "KIND_END"))
    equal([line.split()[0] for line in ckpt("fault", "list").splitlines()[1:]], names)
    for kind in ("link-slow", "reboot"):
        has(ckpt("fault", kind, "n0", code=USAGE), f"{kind}: it needs CAP_NET_ADMIN, and a network that may be broken: ckpt campaign")
    said = ckpt("run", "--inject", "murder:rank=0@step=1", "true", code=USAGE)
    for f in listed:
        equal(f["name"] in re.split(r"[ ,\n]+", said), f["run"], f["name"])


@case("faults of ranks fire, and training goes on after each")
def _():
    with Job() as job:
        for kind, *more in (("kill", 1), ("abort", 0), ("exit-early", 1), ("trap", 0), ("nan", 1), ("slow", 0, "--for", "5ms"),
                            ("stop", 1, "--for", "300ms")):
            has(job.fault(kind, *more), f"gpt: {kind} has fired after ")
            step = (job.job()["saves"]["durable"]["step"], job.job()["epoch"])
            until(lambda s=step: job.job()["saves"]["durable"]["epoch"] == job.job()["epoch"] and
                  (job.job()["saves"]["durable"]["step"], job.job()["epoch"]) != s, f"a save after {kind}")
        told = [(f["kind"], f["outcome"]) for f in job.job()["faults"]]
        equal([k for k, _ in told], ["kill", "abort", "exit-early", "trap", "nan", "slow", "stop"])
        equal({o for _, o in told}, {"fired"})
        spans = until(lambda: len(found := job.spans_of("fault")) >= 2 * len(told) and found, "the log has them")
        equal([(s["number"], s["outcome"]) for s in spans], [(n, o) for n in range(1, 8) for o in ("caused", "fired")])


@case("kill-node ends the daemon, ckpt run and all ranks, and the span log has it")
def _():
    with Job() as job:
        pids = [rank["pid"] for rank in job.job()["ranks"]]
        has(ckpt("fault", "kill-node", "n0", "--socket", job.daemon.socket, code=USAGE), "takes no target")
        has(job.fault("kill-node"), "gpt: kill-node has fired after ", f"SIGKILL to ckptd, process {job.daemon.process.pid}, to ckpt run, and to 2 ranks")
        equal([job.daemon.process.wait(DEADLINE), job.run.child.wait(DEADLINE)], [-9, -9])
        until_gone(*pids)
        equal([(s["kind"], s["outcome"]) for s in job.spans_of("fault")], [("kill-node", "caused"), ("kill-node", "fired")])
        job.daemon.start()


@case("a rank that hangs plays it, is named and replaced")
def _():
    with Job(hang_s=5) as job:
        job.fault("absent", 1)
        job.run.until_err("rank 1 hangs")
        until(lambda: job.job()["epoch"] >= 2 and job.job()["saves"]["durable"]["epoch"] >= 2, "a save after it")


@case("a spike of the loss is named by the daemon, and training goes on")
def _():
    with Job() as job:
        until(lambda: job.job()["loss"]["median"] is not None, "32 steps are known")
        before = job.job()
        has(job.fault("loss-spike", 1), "gpt: loss-spike has fired after ")
        named = until(lambda: job.job()["loss"]["episodes"], "the daemon names it")
        equal([e["kind"] for e in named], ["spike"])
        until(lambda: job.job()["loss"]["trouble"] is None, "it is over")
        until(lambda: job.job()["saves"]["durable"]["step"] > named[0]["step"], "a save after it")
        equal(job.job()["epoch"], before["epoch"])


@case("bits that flip are found: in an arena by the next restore, in files by verify")
def _():
    with Job("--no-verify") as job:
        job.fault("stop", 0)
        until(lambda: all((r["beat_age_ms"] or 0) > 500 for r in job.job()["ranks"]), "no save is under way")
        places = [job.fault("flip-arena", 1, "--seed", seed) for seed in (1, 2, 2)]
        has(places[0], "of rank 1's step ", "flipped in its arena")
        where = [re.search(r"bit \d of byte \d+", text)[0] for text in places]  # the last one undoes the one before it
        expect(where[0] != where[1] == where[2], "the seed says where", where)
        job.fault("kill", 0)
        recovery = until(lambda: [r for r in job.job()["recoveries"]["recent"] if r["epoch"] == 2], "the job goes back")[0]
        has(str(recovery["passed_over"]), "rank 1")
        has(job.fault("flip-file", "--seed", 3), "flipped")
        has(job.fault("flip-sidecar", "--seed", 3), "flipped")
        until(lambda: len(list((job.daemon.store / "gpt").glob("step-*/MANIFEST.json"))) > 1, "two checkpoints")
        job.fault("stop", 1)
        until(lambda: all((r["beat_age_ms"] or 0) > 500 for r in job.job()["ranks"]), "nothing is saved")
        twice = [job.fault("flip-manifest", "--seed", 3) for _ in range(2)]
        has(twice[0], "MANIFEST.json")
        equal(len({text.split(" of step ")[1] for text in twice}), 2, twice)  # the second one hits what is still whole
        done = subprocess.run([CKPT, "verify", "--all", "--job", "gpt", "--repo", job.daemon.store], capture_output=True, text=True,
                              timeout=DEADLINE, env=ENVIRONMENT)
        expect(done.returncode != 0, "verify finds it", done.stdout)


@case("a full and a broken disk fail saves for a time, and a later save is durable")
def _():
    with Job() as job:
        for kind, word in (("disk-full", "No space left"), ("disk-eio", "Input/output error"), ("disk-read-only", "Read-only file system")):
            has(job.fault(kind, "--for", "3s"), "a write to the store was refused")
            until(lambda w=word: w in job.daemon.text(), f"the save fails with {word}")
            step = job.job()["saves"]["durable"]["step"]
            until(lambda s=step: job.job()["saves"]["durable"]["step"] > s, "a save after it")


def stored(job, fault):
    """Saves to storage that began behind the fault, as (when they were durable, how long that took), in seconds behind it."""
    return [((s["begun_ns"] + s["durable_ns"] - fault["caused_ns"]) / 1e9, s["durable_ns"] / 1e9) for s in job.spans_of("save")
            if s["target"] == "storage" and s["durable_ns"] and s["begun_ns"] > fault["caused_ns"]]


@case("a stalled disk keeps saves to storage waiting, and they are durable afterwards")
def _():
    with Job(storage_every=4) as job:
        epoch = job.job()["epoch"]
        has(job.fault("disk-stall", "--for", "4s"), "an operation at the store has waited")
        fault = job.job()["faults"][0]
        saves = until(lambda: stored(job, fault), "a save behind it")
        equal([s for s in saves if s[0] < 4], [], "none was durable meanwhile")
        equal(job.job()["epoch"], epoch)


@case("a slow disk makes saves to storage longer")
def _():
    with Job() as job:
        has(job.fault("disk-slow", "--for", "60s"), "an operation at the store has waited")
        fault = job.job()["faults"][0]
        saves = until(lambda: stored(job, fault), "a save meanwhile")
        expect(saves[0][0] > 60 or saves[0][1] > 0.4, "to make, write, sync and name a file takes four operations at least", saves)


@case("what changes on its way to the disk is found by the read-back")
def _():
    with Job(storage_every=50) as job:
        said = job.fault("disk-corrupt")
        has(said, "disk-corrupt has fired", " changed on its way to the store")
        step, epoch = re.search(r"of step (\d+) of epoch (\d+) ", said).groups()
        until(lambda: re.search(rf"step {step} epoch {epoch}[ :].*(repaired|reading back found)", job.daemon.text()), "it is found")
        until(lambda: job.job()["saves"]["durable"]["step"] > int(step), "a save after it")


@case("the daemon is stopped for a time, restarted, and killed")
def _():
    with Job() as job:
        has(job.fault("stop-daemon", "--for", "200ms"), "was stopped for ")
        has(job.fault("restart-daemon"), "has ended")
        equal(job.daemon.process.wait(DEADLINE), 0)
        job.daemon.start()
        until(job.job, "the job comes back")
        has(job.fault("kill-daemon"), "has died")
        equal(job.daemon.process.wait(DEADLINE), -9)
        job.daemon.start()
        until(job.job, "the job comes back")


@case("the time of day jumps by a day and back, and saves go on")
def _():
    with Job() as job:
        def ahead():
            return job.daemon.status()["now_ns"] / 1e9 - time.time()

        child = subprocess.Popen([CKPT, "fault", "clock-jump", "--for", LONG_ENOUGH, "--socket", job.daemon.socket], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        until(lambda: 86000 < ahead() < 87000, "it is ahead")
        has(job.fault("clock-jump", "--for", "1s", code=FAILED), "is off already")
        step = job.job()["saves"]["durable"]["step"]
        until(lambda: job.job()["saves"]["durable"]["step"] > step, "a save meanwhile")
        has(child.communicate(timeout=DEADLINE)[0], "clock-jump has fired after ", "was 24.0 h ahead for ")
        expect(abs(ahead()) < 60, ahead())


@case("the time of day goes back by an hour, and what is saved then is still the newest")
def _():
    with Job() as job:
        before = job.job()["saves"]["durable"]
        has(job.fault("kill", 1, "--by", "1h", code=USAGE), "takes no --by")
        has(job.fault("clock-jump", "--for", "1s", "--by", "1", code=USAGE), "--by")
        child = subprocess.Popen([CKPT, "fault", "clock-jump", "--by", "-1h", "--for", LONG_ENOUGH, "--socket", job.daemon.socket], stdout=subprocess.PIPE,
                                 text=True, env=ENVIRONMENT)
        until(lambda: -3700 < job.daemon.status()["now_ns"] / 1e9 - time.time() < -3500, "it is behind")
        until(lambda: job.job()["saves"]["durable"]["step"] > before["step"], "a save meanwhile")
        job.fault("kill", 1)
        until(lambda: [r for r in job.job()["recoveries"]["recent"] if r["epoch"] == 2], "the job goes back")
        recovery = [r for r in job.job()["recoveries"]["recent"] if r["epoch"] == 2][0]
        expect(recovery["step"] > before["step"], "the order of checkpoints is not that of their dates", recovery, before)
        has(child.communicate(timeout=DEADLINE)[0], "clock-jump has fired after ", "was 1.0 h behind for ")
        until(lambda: job.job()["saves"]["durable"]["epoch"] >= 2, "a save after it")


@case("what cannot be is refused, with what to do")
def _():
    with Job() as job:
        has(job.fault("kill", 7, code=FAILED), "rank 7 of job gpt is not on this node")
        has(job.fault("flip-replica", 0, code=FAILED), "holds no copy of rank 0")
        has(job.fault("flip-file", 3, code=FAILED), "no checkpoint of step 3")
        has(job.fault("murder", code=USAGE), "ckpt fault list")
        has(job.fault("kill", code=USAGE), "which rank?")
        has(job.fault("kill", "x", code=USAGE), "a number")
        has(job.fault("kill", 1, "--for", "3s", code=USAGE), "takes no --for")
        has(job.fault("slow", 1, code=USAGE), "needs --for")
        has(job.fault("kill-daemon", 1, code=USAGE), "takes no target")
        equal([(f["kind"], f["outcome"]) for f in job.job()["faults"]], [("flip-file", "not-fired")])
    has(job.fault("kill", 1, code=NO_DAEMON), "")


@case("without faults = yes nothing is caused; with it, also after SIGHUP")
def _():
    config = top / "ckpt.conf"
    config.write_text("")
    daemon = single_node.Daemon(tempfile.mkdtemp(dir=top), options=("--config", config))
    daemon.start()
    run = Run("-n", 1, "--job", "gpt", "--socket", daemon.socket, "--", "sleep", 1000)
    try:
        kill = ("fault", "kill", 0, "--job", "gpt", "--socket", daemon.socket)
        until(lambda: "gpt" in ckpt("status", "--socket", daemon.socket), "the job is there")
        has(ckpt(*kill, code=FAILED), "faults = yes")
        equal(json.loads(ckpt("status", "--json", "--socket", daemon.socket))["jobs"][0]["faults"], [])
        config.write_text("[node]\nfaults = yes\n")
        daemon.process.send_signal(1)
        until(lambda: "faults is now yes" in daemon.text(), "it is read")
        has(ckpt(*kill), "has died")
    finally:
        run.child.terminate()
        run.child.wait(DEADLINE)
        daemon.close()


sys.exit(cases.end())
