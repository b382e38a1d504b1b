"""ckpt run and ckpt status. First with ranks that know nothing of ckpt: how they are started, watched, replaced and ended. Then with
ckpt-train: what is lost on purpose comes back, and the result has the bits of an undisturbed run."""
# timeout: 300

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(os.environ["CKPT_BUILD"])
CKPT, TRAIN = str(PROGRAMS / "ckpt"), str(PROGRAMS / "ckpt-train")
DEADLINE = 60
STEPS = 100
top = pathlib.Path(tempfile.mkdtemp())
count, failed = 0, 0
for name in list(os.environ):
    if name.startswith("CKPT_") and name != "CKPT_BUILD" or name == "XDG_RUNTIME_DIR":
        del os.environ[name]


def case(name):
    """Runs the function below as the case of that name."""
    def run(test):
        global count, failed
        count += 1
        try:
            test()
            equal(list(top.glob("ckpt-run-*")), [], "private directories left behind")
            print(f"ok {count} - {name}", flush=True)
        except Exception as error:  # the other cases run all the same
            failed += 1
            print("".join(f"# {line}\n" for line in f"{type(error).__name__}: {error}".splitlines()), end="")
            print(f"not ok {count} - {name}", flush=True)
        return test
    return run


def equal(is_, due, what=""):
    if is_ != due:
        raise AssertionError(f"{what}: {is_!r}, not {due!r}")


def has(text, *parts):
    for part in parts:
        if part not in text:
            raise AssertionError(f"{part!r} is not in {text[-3000:]!r}")


class Run:
    """ckpt run in the background, its output in files."""

    def __init__(self, *args, **env):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=top))
        self.child = subprocess.Popen([CKPT, "run", *map(str, args)], env=dict(os.environ, TMPDIR=str(top), **env),
                                      cwd=self.folder, stdin=subprocess.DEVNULL, stdout=open(self.folder / "out", "wb"),
                                      stderr=open(self.folder / "err", "wb"))

    def out(self):
        return (self.folder / "out").read_text(errors="replace")

    def err(self):
        return (self.folder / "err").read_text(errors="replace")

    def wait(self, code=0):
        try:
            is_ = self.child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(f"still runs after {DEADLINE} s: {self.out()[-1000:]} {self.err()[-3000:]}")
        if is_ != code:
            raise AssertionError(f"exit code {is_}, not {code}: {self.out()[-1000:]} {self.err()[-3000:]}")
        return self

    def until(self, what, condition):
        """Waits for something that a rank or the launcher does."""
        limit = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > limit or self.child.poll() is not None:
                self.child.kill()
                raise AssertionError(f"{what} did not come: {self.out()[-1000:]} {self.err()[-3000:]}")
            time.sleep(0.005)

    def until_out(self, *parts):
        self.until(f"{parts} on stdout", lambda: all(part in self.out() for part in parts))

    def until_err(self, *parts):
        self.until(f"{parts} on stderr", lambda: all(part in self.err() for part in parts))


def run(*args, code=0, **env):
    return Run(*args, **env).wait(code)


def sh(script):
    return "--", "sh", "-c", script


def gone(pid):
    """Whether the process has ended (a zombie has)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until_gone(*pids):
    limit = time.monotonic() + DEADLINE
    while not all(gone(pid) for pid in pids):
        if time.monotonic() > limit:
            raise AssertionError(f"left running: {[pid for pid in pids if not gone(pid)]}")
        time.sleep(0.005)


# ---- starting

@case("each rank finds its place in its environment")
def _():
    names = ["CKPT_JOB", "CKPT_RANK", "CKPT_WORLD", "CKPT_LOCAL_WORLD", "CKPT_EPOCH", "RANK", "WORLD_SIZE", "LOCAL_RANK",
             "LOCAL_WORLD_SIZE"]
    done = run("-n", 3, "--job", "place", *sh("echo " + " ".join("$" + name for name in names)), RANK="77")
    equal(sorted(done.out().splitlines()), [f"[{r}] place {r} 3 3 1 {r} 3 {r} 3" for r in range(3)])


@case("lines of several ranks have a prefix, and none with --no-prefix")
def _():
    script = "echo out $RANK; echo err $RANK >&2; printf half"
    done = run("-n", 2, *sh(script))
    equal(sorted(done.out().splitlines()), ["[0] half", "[0] out 0", "[1] half", "[1] out 1"])
    has(done.err(), "[0] err 0\n", "[1] err 1\n")
    done = run("-n", 2, "--no-prefix", *sh(script))
    equal(sorted(done.out().splitlines()), ["half", "half", "out 0", "out 1"])


@case("a single rank keeps stdout and stderr")
def _():
    equal(run(*sh("printf half")).out(), "half")


@case("megabytes of lines come whole and in order")
def _():
    done = run("-n", 2, *sh("seq 200000"))
    for rank in range(2):
        lines = [line[4:] for line in done.out().splitlines() if line.startswith(f"[{rank}] ")]
        equal(lines == [str(i) for i in range(1, 200001)], True, f"{len(lines)} lines of rank {rank}")


@case("ranks read nothing and have clean signals")
def _():
    script = "cat; kill -PIPE $$; echo no"
    done = run("--max-restarts", 0, *sh(script), code=1)
    has(done.err(), "was killed by signal 13")
    equal(done.out(), "")


@case("a command that does not exist ends the run")
def _():
    has(run("-n", 3, "--", "no-such-command", code=1).err(), "cannot start no-such-command: No such file")


@case("what is wrong on the command line is said, with code 2")
def _():
    wrong = [
        ([], "is missing"), (["-n", "0", "true"], "1 to 64"), (["-n", "65", "true"], "1 to 64"), (["-n", "x", "true"], "number"),
        (["--job", "a/b", "true"], "job"), (["--daemon", "maybe", "true"], "auto or external"),
        (["--daemon", "external", "--store", "x", "true"], "--store"), (["--max-restarts", "1001", "true"], "1000"),
        (["--inject", "kill:rank=1@step=4", "true"], "position 11,"), (["--inject", "kill:rank=0", "true"], "trigger"),
        (["--grace", "1000001", "true"], "seconds"), (["--socket", "x" * 200, "true"], "bytes"),
    ]
    for args, text in wrong:
        done = run(*args, code=2)
        has(done.err(), text)
        equal(done.out(), "")


@case("no daemon at a socket is code 12")
def _():
    run("--daemon", "external", "--socket", top / "none", "true", code=12)
    equal(subprocess.run([CKPT, "status", "--socket", top / "none"], capture_output=True).returncode, 12)


@case("a store that another daemon has is code 11")
def _():
    store = top / "locked"
    first = Run("--store", store, *sh("echo up; sleep 1000"))
    first.until_out("up")
    second = run("--store", store, *sh("echo no"), code=11)
    has(second.err(), f"another daemon writes to the store {store}", "give another --store", "--socket PATH")
    equal(second.out(), "")
    first.child.send_signal(signal.SIGINT)
    first.wait(130)


# ---- restarts

@case("a rank that fails at first is started again")
def _():
    done = run("-n", 2, *sh('[ $RANK = 0 ] || { echo x >> tries; [ $(wc -l < tries) -ge 3 ] || exit 7; }; echo done'))
    has(done.err(), "rank 1", "exited with status 7 before it joined: restart 1 of 10", "restart 2 of 10")
    equal(sorted(done.out().splitlines()), ["[0] done", "[1] done"])


@case("a rank that always fails at once is given up, and its last status is said")
def _():
    begin = time.monotonic()
    done = run("-n", 3, *sh('[ $RANK = 2 ] && exit 9; sleep 1000'), code=1)
    has(done.err(), "rank 2 has failed 3 times within 10 s before it joined: giving up", "exited with status 9")
    equal(time.monotonic() - begin < 20, True, "the other ranks were waited for")


@case("a rank that is called wrongly ends the run at once")
def _():
    done = run("-n", 2, *sh('echo x >> runs-$RANK; [ $RANK = 0 ] || exit 2; exec sleep 1000'), code=1)
    has(done.err(), "rank 1 (process", "exited with status 2 before it joined: wrong usage")
    equal("restart" in done.err().replace("which no restart mends", ""), False, done.err())
    equal((done.folder / "runs-1").read_text(), "x\n")


@case("status 3 of a rank that was never at work is a loss as any other")
def _():
    done = run(*sh('echo x >> runs; [ $(wc -l < runs) -ge 2 ] || exit 3'))
    has(done.err(), "exited with status 3 before it joined: restart 1 of 10")


@case("restarts are bounded")
def _():
    done = run("--max-restarts", 1, *sh("kill -9 $$"), code=1)
    has(done.err(), "restart 1 of 1", "was killed by signal 9 (Killed), and all 1 restarts", "giving up")


@case("a rank that finished is not started again")
def _():
    done = run("-n", 2, *sh('echo x >> runs-$RANK; [ $RANK = 0 ] || { [ $(wc -l < runs-1) -ge 2 ] || exit 1; }'))
    equal((done.folder / "runs-0").read_text(), "x\n")


# ---- the end

@case("a signal in the first moments leaves nothing behind")
def _():
    for _ in range(20):
        r = Run(*sh("exec sleep 1000"))
        limit = time.monotonic() + DEADLINE
        while not any(name.startswith("ckpt-run-") for name in os.listdir(top)):  # no pause: the moment is short
            equal(time.monotonic() < limit and r.child.poll() is None, True, "no directory came")
        r.child.send_signal(signal.SIGINT)
        r.wait(130)
        equal(list(top.glob("ckpt-run-*")), [], "private directories left behind")


TRAP = 'trap "echo bye; exit 0" TERM; echo up; while :; do sleep 1000 & wait; done'


@case("SIGTERM reaches ranks that cannot be asked, and 0 is a clean end")
def _():
    r = Run("-n", 2, *sh(TRAP))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGTERM)
    r.wait(0)
    has(r.out(), "[0] bye", "[1] bye")


@case("SIGINT is code 130")
def _():
    r = Run("-n", 2, *sh(TRAP))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGINT)
    has(r.wait(130).out(), "[0] bye", "[1] bye")


@case("ranks that do not end are killed after the grace, stopped ones as well")
def _():
    r = Run("-n", 2, "--grace", 1, *sh('trap "" TERM; echo up; [ $RANK = 0 ] || kill -STOP $$; while :; do sleep 1000; done'))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGTERM)
    has(r.wait(1).err(), "SIGKILL", "was killed by signal 9")


@case("a second SIGINT kills at once")
def _():
    r = Run("--grace", 1000, *sh('trap "" TERM INT; echo up; while :; do sleep 1000; done'))
    r.until_out("up")
    r.child.send_signal(signal.SIGINT)
    r.until_err("SIGINT:")
    r.child.send_signal(signal.SIGINT)
    r.wait(130)


@case("a rank that fails while all are ending is not started again")
def _():
    r = Run("-n", 2, *sh('trap "exit 5" TERM; echo up $$; while :; do sleep 1000 & wait; done'))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGTERM)
    has(r.wait(1).err(), "rank 0 exited with status 5", "rank 1 exited with status 5")
    equal(len(r.out().splitlines()), 2)


@case("what ranks leave behind is killed, also outside of their process group")
def _():
    done = run(*sh('sleep 1000 & echo $! > inside; setsid sh -c "echo \\$\\$ > outside; exec sleep 1000" & '
                   'while [ ! -s outside ]; do sleep 0.01; done'))
    equal([gone((done.folder / name).read_text().strip()) for name in ("inside", "outside")], [True, True])


@case("ranks and daemon die with a launcher that is killed")
def _():
    r = Run("-n", 2, *sh("echo up $$ $CKPT_SOCKET; exec sleep 1000"))
    r.until_out("[0] up", "[1] up")
    words = [line.split() for line in r.out().splitlines()]
    children = pathlib.Path(f"/proc/{r.child.pid}/task/{r.child.pid}/children").read_text().split()
    equal(len(children), 3, "ranks and daemon")
    r.child.kill()
    r.child.wait()
    until_gone(*children, *[w[2] for w in words])
    os.rmdir(pathlib.Path(words[0][3]).parent)  # the daemon has removed its socket; who is killed removes nothing


@case("a terminal that stalls does not stall the supervision")
def _():
    r_end, w_end = os.pipe()
    child = subprocess.Popen([CKPT, "run", "-n", "2", "--", "sh", "-c", "while :; do seq 100000; done"], stdout=w_end,
                             stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=str(top)))
    os.close(w_end)
    select.select([r_end], [], [], DEADLINE)
    children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGTERM)
    equal(child.wait(DEADLINE), 130)
    until_gone(*children)
    os.close(r_end)


# ---- faults and reports

@case("faults come at their time and are counted")
def _():
    r = run("-n", 2, "--json", "--report", "report.json", "--inject", "kill:rank=1@t=200ms,stop:rank=0:for=50ms@t=100ms",
            "--inject", "abort:rank=0@t=600s", *sh("""
                [ $RANK = 0 ] || echo x >> runs
                until [ -s runs ] && [ $(wc -l < runs) = 2 ]; do sleep 0.02; done"""))
    document = json.loads(r.out())
    equal(document, json.loads((r.folder / "report.json").read_text()))
    equal([document[k] for k in ("schema", "command", "world", "exit", "injected", "fired", "restarts")],
          [1, "run", 2, 0, 3, 2, 1])
    equal([f["fired"] for f in document["faults"]], [True, True, False])
    equal(document["faults"][0]["fired_at_s"] >= 0.2, True)
    equal([rank["starts"] for rank in document["ranks"]], [1, 2])
    has(r.err(), "injected: kill:rank=1@t=200ms (rank 1, process", "was killed by signal 9")


@case("with --json the ranks' stdout goes to stderr")
def _():
    r = run("-n", 2, "--json", *sh("echo out $RANK"))
    equal(json.loads(r.out())["exit"], 0)
    has(r.err(), "[0] out 0\n", "[1] out 1\n")
    r = run("--json", *sh("echo out"))
    equal(json.loads(r.out())["exit"], 0)
    has(r.err(), "out\n")


@case("a daemon that dies is started again")
def _():
    r = Run("--json", "--inject", "kill-daemon@t=50ms", *sh("trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"))
    r.until_err("was killed by signal 9 (Killed): it is started again")
    r.until("a second daemon", lambda: any(top.glob("ckpt-run-*/ckptd.sock")) and subprocess.run(
        [CKPT, "status", "--socket", next(top.glob("ckpt-run-*/ckptd.sock"))], capture_output=True).returncode == 0)
    r.child.send_signal(signal.SIGTERM)
    document = json.loads(r.wait().out())
    equal([document["daemon_starts"], document["fired"], document["restarts"]], [2, 1, 0])
    equal(document["recoveries"][0]["what"], "daemon")


# ---- with ckpt-train

def train(*args, steps=STEPS, **options):
    """ckpt run of four ranks of ckpt-train; returns (its document, the line that it ends with)."""
    store = options.pop("store", None) or tempfile.mkdtemp(dir=top)
    r = run("-n", 4, "--json", "--store", store, *args, "--", TRAIN, "--steps", steps, "--save-memory-every", 5,
            "--save-storage-every", 40, **options)
    return json.loads(r.out()), final(r.err())


def final(text):
    found = re.findall(r"final step=\d+ loss=\S+ params=\w+", text)
    equal(len(found), 1, text[-2000:])
    return found[0]


reference = None


@case("ranks of ckpt-train run to their end")
def _():
    global reference
    document, reference = train()
    equal([document["restarts"], document["recovered"], document["epoch"]], [0, 0, 1])


@case("a killed rank comes back from memory and the bits are the same")
def _():
    document, end = train("--inject", "kill:rank=2@step=60")
    equal(end, reference)
    equal([document["restarts"], document["fired"], document["recovered"], document["daemon_starts"]], [1, 1, 1, 1])
    r = document["recoveries"][0]
    equal([r["what"], r["injected"], r["source"], r["epoch"]], ["ranks", True, "memory", 2])
    # The last save but one as a rule; where the machine is busy, saves that find all slots in use are left out.
    equal(r["restored_step"] % 5 == 0 and r["steps_lost"] <= 15, True, r)
    for name in ("detect_ms", "decide_ms", "restore_ms", "back_ms"):
        equal(r[name] is not None and 0 <= r[name] < 30000, True, f"{name} {r[name]}")


@case("a killed daemon comes back, gets the arenas back, and saves go on")
def _():
    store = tempfile.mkdtemp(dir=top)
    document, end = train("--inject", "kill-daemon@step=45", store=store, steps=STEPS)
    equal(end, reference)
    equal([document["daemon_starts"], document["restarts"]], [2, 0])
    listed = json.loads(subprocess.run([CKPT, "list", "--repo", store, "--json"], capture_output=True, check=True).stdout)
    equal(listed["checkpoints"][-1]["step"], STEPS)


@case("rank and daemon killed together come back from memory")
def _():
    document, end = train("--inject", "kill:rank=1@step=60,kill-daemon@step=60")
    equal(end, reference)
    equal([document["daemon_starts"], document["restarts"], document["fired"]], [2, 1, 2])


@case("all ranks killed at once come back from memory")
def _():
    document, end = train("--inject", ",".join(f"kill:rank={r}@step=60" for r in range(4)))
    equal(end, reference)
    equal([document["fired"], document["restarts"]], [4, 4])
    equal(document["recoveries"][-1]["source"], "memory")


@case("many faults in one run leave the bits as they are")
def _():
    spec = ",".join([f"kill:rank=any@step={s}" for s in (12, 30, 48, 66, 84)] + ["kill-daemon@step=39", "abort:rank=any@step=75"])
    document, end = train("--seed", 5, "--max-restarts", 20, "--inject", spec)
    equal(end, reference)
    equal([document["injected"], document["fired"]], [7, 7])


@case("a rank below a script is replaced as well")
def _():
    r = run("-n", 2, "--json", "--store", tempfile.mkdtemp(dir=top), "--inject", "kill:rank=1@step=20", "--", "bash", "-c",
            '"$0" --steps 40 --save-storage-every 0; exit $?', TRAIN)
    document = json.loads(r.out())
    equal([document["fired"], document["restarts"], document["recovered"]], [1, 1, 1])
    equal(document["recoveries"][0]["source"], "memory")


@case("ranks whose last save is not safe have failed, and are not started again")
def _():
    r = run("-n", 2, "--json", "--store", tempfile.mkdtemp(dir=top), "--", "bash", "-c",
            '"$0" --steps 20 --save-storage-every 0; exit 3', TRAIN, code=1)
    document = json.loads(r.out())
    equal([document["restarts"], [rank["starts"] for rank in document["ranks"]], document["exit"]], [0, [1, 1], 1])
    has(r.err(), "rank 0 (process", "it has finished, but not all is saved", "rank 1 exited with status 3")


@case("without a store ckpt-train saves to memory, and ends well")
def _():
    r = run("-n", 2, "--json", "--inject", "kill:rank=1@step=60", "--", TRAIN, "--steps", STEPS)
    document = json.loads(r.out())
    equal([document["fired"], document["restarts"], [rank["ok"] for rank in document["ranks"]]], [1, 1, [True, True]])
    equal(document["recoveries"][0]["source"], "memory")
    has(r.err(), "the daemon has no store: all saves go to memory only")
    final(r.err())


@case("a rank that hangs is killed and replaced")
def _():
    document, end = train("--hang-timeout", 2, "--inject", "stop:rank=1@step=50")
    equal(end, reference)
    equal([document["fired"], document["restarts"]], [1, 1])


@case("SIGTERM makes a last checkpoint, and the run goes on from it later")
def _():
    store = tempfile.mkdtemp(dir=top)
    r = Run("-n", 4, "--store", store, "--", TRAIN, "--steps", 1000000, "--save-storage-every", 100000)
    r.until_err("4 ranks start at step 0")
    r.child.send_signal(signal.SIGTERM)
    step = int(re.search(r"step=(\d+)", final(r.wait(0).out())).group(1))
    listed = json.loads(subprocess.run([CKPT, "list", "--repo", store, "--json"], capture_output=True, check=True).stdout)
    equal([c["step"] for c in listed["checkpoints"]], [step])
    r = run("-n", 4, "--store", store, "--", TRAIN, "--steps", step + 5)
    has(r.err(), f"go on from storage at step {step}")


# ---- somebody else's daemon

class Daemon:
    def __init__(self, folder):
        self.socket = folder / "sock"
        self.args = [PROGRAMS / "ckptd", "--socket", self.socket, "--store", folder / "store"]
        self.start()

    def start(self):
        self.child = subprocess.Popen(self.args, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        limit = time.monotonic() + DEADLINE
        while self.status().returncode:
            if time.monotonic() > limit:
                raise AssertionError("the daemon does not answer")
            time.sleep(0.01)

    def status(self, *args):
        return subprocess.run([CKPT, "status", "--socket", self.socket, *args], capture_output=True, text=True)

    def end(self, how=signal.SIGTERM):
        self.child.send_signal(how)
        self.child.wait(DEADLINE)


@case("a daemon that runs already is used, asked for its status, and may be restarted meanwhile")
def _():
    folder = pathlib.Path(tempfile.mkdtemp(dir=top))
    daemon = Daemon(folder)
    try:
        has(daemon.status().stdout, "no jobs", str(folder / "store"))
        run("--socket", daemon.socket, "--store", "x", "true", code=2)
        run("--socket", daemon.socket, "--inject", "kill-daemon@t=1s", "true", code=2)
        r = Run("-n", 4, "--socket", daemon.socket, "--job", "other", "--json", "--", TRAIN, "--steps", 800, "--save-memory-every",
                5, "--save-storage-every", 250)
        state = {}

        def at_work():
            jobs = json.loads(daemon.status("--json").stdout)["jobs"]
            state.update(jobs[0] if jobs else {})
            return jobs and all(rank.get("step", 0) > 20 for rank in jobs[0]["ranks"])
        r.until("work", at_work)
        equal([state["name"], state["world"], state["state"], [rank["state"] for rank in state["ranks"]]],
              ["other", 4, "running", ["joined"] * 4])
        has(daemon.status().stdout, "job other", "running", "joined")
        daemon.end(signal.SIGKILL)
        daemon.start()
        document = json.loads(r.wait().out())
        equal([document["own_daemon"], document["restarts"], document["epoch"]], [False, 0, 1])
        equal(daemon.child.poll(), None, "the daemon was stopped")
    finally:
        daemon.end()


print(f"1..{count}")
sys.exit(failed > 0)
