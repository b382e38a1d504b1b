"""ckpt run with ckpt-train: what is lost on purpose comes back, and the result has the bits of an undisturbed run."""

import json
import re
import signal
import subprocess
import sys
import tempfile

import single_node
from launcher import CKPT, PACE, TRAIN, Run, final, listed, run, tidy, top
from tap import Cases, equal, expect, has

STEPS = 100
HANG_S = 6  # for so long no rank of a busy machine stands still
SMALL = ("--batch", 4, "--seq", 8)  # what is computed does not matter here
cases = Cases(tidy)
case = cases.case


def train(*args, steps=STEPS, **options):
    """ckpt run of four ranks of ckpt-train; returns (its document, the line that it ends with)."""
    store = options.pop("store", None) or tempfile.mkdtemp(dir=top)
    r = run("-n", 4, "--json", "--store", store, *args, "--", TRAIN, *SMALL, *PACE, "--steps", steps, "--save-memory-every", 5,
            "--save-storage-every", 40, **options)
    return json.loads(r.out()), final(r.err())


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


@case("a job that ends right after its recovery tells of the restore")
def _():
    tried = 0
    for _ in range(20):
        store = tempfile.mkdtemp(dir=top)
        r = run("-n", 4, "--json", "--store", store, "--inject", "kill:rank=1@step=40", "--", TRAIN, *SMALL, "--steps", 40, "--save-memory-every", 1)
        document = json.loads(r.out())
        tried += document["fired"]
        equal(document["recovered"], document["fired"])
        if not document["fired"]:
            continue  # the job had ended when its launcher looked
        r = document["recoveries"][0]
        equal([r["source"], r["restored_step"] is not None, r["restore_ms"] is not None], ["memory", True, True], r)
        if tried == 4:
            break
    equal(tried, 4, "jobs that lost a rank at their end")


@case("a killed daemon comes back, gets the arenas back, and saves go on")
def _():
    store = tempfile.mkdtemp(dir=top)
    document, end = train("--inject", "kill-daemon@step=45", store=store, steps=STEPS)
    equal(end, reference)
    equal([document["daemon_starts"], document["restarts"]], [2, 0])
    equal(listed(store)[-1], STEPS)


@case("rank and daemon killed together come back from memory")
def _():
    document, end = train("--inject", "kill:rank=1@step=60,kill-daemon@step=60")
    equal(end, reference)
    equal([document["daemon_starts"], document["restarts"], document["fired"]], [2, 1, 2])


@case("all ranks killed at once come back from memory")
def _():
    document, end = train("--inject", ",".join(f"kill:rank={r}@step=60" for r in range(4)))
    equal(end, reference)
    equal([document["fired"], [rank["starts"] for rank in document["ranks"]]], [4, [2] * 4])
    expect(1 <= document["restarts"] <= 4, "those that fall together count once:", document["restarts"])
    equal(document["recoveries"][-1]["source"], "memory")


@case("many faults in one run leave the bits as they are")
def _():
    spec = ",".join([f"kill:rank=any@step={s}" for s in (12, 30, 48, 66, 84)] + ["kill-daemon@step=39", "abort:rank=any@step=75"])
    document, end = train("--seed", 5, "--max-restarts", 20, "--inject", spec)
    equal(end, reference)
    equal([document["injected"], document["fired"]], [7, 7])


@case("a rank below a script is replaced as well")
def _():
    # Long enough for the launcher to ask the daemon how the restore went before the job is over.
    r = run("-n", 2, "--json", "--store", tempfile.mkdtemp(dir=top), "--inject", "kill:rank=1@step=20", "--", "bash", "-c",
            '"$0" --seq 8 --batch 4 --steps 1000 --save-storage-every 0; exit $?', TRAIN)
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
    r = run("-n", 2, "--json", "--inject", "kill:rank=1@step=60", "--", TRAIN, *SMALL, *PACE, "--steps", STEPS)
    document = json.loads(r.out())
    equal([document["fired"], document["restarts"], [rank["ok"] for rank in document["ranks"]]], [1, 1, [True, True]])
    equal(document["recoveries"][0]["source"], "memory")
    has(r.err(), "the daemon has no store: all saves go to memory only")
    final(r.err())


@case("a rank that hangs is killed and replaced")
def _():
    document, end = train("--hang-timeout", HANG_S, "--inject", "stop:rank=1@step=50")
    equal(end, reference)
    equal([document["fired"], document["restarts"]], [1, 1])


@case("ranks that wait for a slow disk at the end do not hang")
def _():
    document, end = train("--hang-timeout", HANG_S, CKPT_WRITE_BANDWIDTH="256K")
    equal([end, document["restarts"]], [reference, 0])


@case("the last checkpoint is read back before the daemon ends, although another read-back goes on")
def _():
    store = tempfile.mkdtemp(dir=top)
    # Half a minute for the read-back of the first one, until the daemon is told to end.
    run("-n", 1, "--store", store, "--", TRAIN, *SMALL, "--steps", 20, "--save-storage-every", 10, CKPT_READ_BANDWIDTH="64K")
    done = subprocess.run([CKPT, "list", "--repo", store, "--json"], capture_output=True, check=True)
    checkpoints = json.loads(done.stdout)["checkpoints"]
    equal([checkpoint["step"] for checkpoint in checkpoints], [10, 20])
    equal(checkpoints[-1]["state"], "verified")  # the first as well, if it was under way


@case("what compressed gradients have left out is saved and restored: no bit differs")
def _():
    def ended(*args):
        r = run("-n", 4, "--json", "--store", tempfile.mkdtemp(dir=top), *args, "--", TRAIN, *SMALL, *PACE, "--steps", STEPS, "--compress", "1bit")
        equal("torn" in r.err(), False, r.err())
        return json.loads(r.out())["restarts"], final(r.err())
    undisturbed, killed = ended(), ended("--inject", "kill:rank=2@step=60")
    equal([undisturbed[0], killed[0]], [0, 1])
    equal(killed[1], undisturbed[1])


# ---- faults that ranks play themselves

def play(fault, *options, restarts=0, **more):
    """The run ends as the undisturbed one did; returns its document and what was said."""
    r = run("-n", 4, "--json", "--store", tempfile.mkdtemp(dir=top), "--inject", fault, *options, "--", TRAIN, *SMALL, "--steps", STEPS,
            "--save-memory-every", 5, "--save-storage-every", 40, "--timeout", more.get("timeout", 20))
    document = json.loads(r.out())
    equal(final(r.err()), reference, r.err())
    equal([document["fired"], document["restarts"]], [1, restarts], r.err())
    return document, r.err()


@case("a rank whose device fails for good leaves with its own status and is replaced; the others live on")
def _():
    for fault, said in ("trap", "trapped"), ("illegal-address", "illegal address"), ("device-lost", "device is lost"), ("ecc", "uncorrectable ECC error"):
        document, err = play(f"{fault}:rank=2@step=60", restarts=1)
        equal([rank["starts"] for rank in document["ranks"]], [1, 1, 2, 1])
        has(err, "rank 2 (process", "exited with status 4", said)


@case("a device that does not come to its end is given up at the deadline")
def _():
    document, err = play("never-ends:rank=1@step=60", restarts=1, timeout=2)
    equal([rank["starts"] for rank in document["ranks"]], [1, 2, 1, 1])
    has(err, "what runs on it has not ended for 2")


@case("a rank that never enters its collective is named and replaced")
def _():
    document, err = play("absent:rank=3@step=60", "--hang-timeout", HANG_S, restarts=1)
    found = re.search(r"rank 3 hangs: no heartbeat for ([\d.]+) s, last at step 60, in no collective; rank \d and others are in "
                      r"reduce_scatter #\d+ of \d+ bytes", err)
    equal(found is not None and float(found.group(1)) < 2 * HANG_S, True, err)


@case("ranks in different collectives are named at once, then the one that differs from most, and all go on in their processes")
def _():
    document, err = play("mismatch:rank=1@step=60")
    has(err, "mismatch: rank ", "in all_gather #", "in reduce_scatter #", "mismatch: rank 1 was in all_gather #")
    # A rank that the news calls away before it is there is late: two against one is the least.
    equal(re.search(r"; [23] ranks in reduce_scatter #", err) is not None, True, err)
    equal(document["recoveries"][0]["back_ms"] < 10000, True, document)


@case("a gradient that is no number sends all back to a healthy checkpoint")
def _():
    document, err = play("nan:rank=1@step=60")
    has(err, "the loss of step 62 is nan: back to the last healthy checkpoint")
    equal(document["epoch"] >= 2, True)


@case("a flipped bit is outvoted, named with rank and tensor, and not saved")
def _():
    document, err = play("flip:rank=2@step=60")
    has(err, "step 60 epoch 1 failed: replicas differ: rank 2 deviates from the others in block.", "not saved: step 60: ")
    equal(document["recoveries"][0]["restored_step"] <= 55, True, document)


@case("a spike of the loss changes no parameter")
def _():
    document, _ = play("loss-spike:rank=1@step=40")
    equal(document["epoch"], 1)


@case("a slow rank is named, with what it has cost")
def _():
    document, err = play("slow:rank=1:for=40ms@step=30")
    has(err, "rank 1 is slow since step", "it has cost")  # a busy machine keeps it slow to the end
    equal(document["epoch"], 1)
    _, err = play("slow:rank=1:for=40ms@step=82")
    has(err, "rank 1 is slow to the end: it has cost")


@case("SIGTERM makes a last checkpoint, and the run goes on from it later")
def _():
    store = tempfile.mkdtemp(dir=top)
    r = Run("-n", 4, "--store", store, "--", TRAIN, *SMALL, "--steps", 1000000, "--save-storage-every", 100000)
    r.until_err("4 ranks start at step 0")
    r.child.send_signal(signal.SIGTERM)
    step = int(re.search(r"step=(\d+)", final(r.wait(0).out())).group(1))
    equal(listed(store), [step])
    r = run("-n", 4, "--store", store, "--", TRAIN, *SMALL, "--steps", step + 5)
    has(r.err(), f"go on from storage at step {step}")


# ---- somebody else's daemon

def status(daemon, *options):
    code, out, err = daemon.ckpt("status", "--socket", daemon.socket, *options)
    equal(code, 0, err)
    return out


@case("a daemon that runs already is used, asked for its status, and may be restarted meanwhile")
def _():
    with single_node.daemon() as daemon:
        daemon.start()
        has(status(daemon), "no jobs", str(daemon.store))
        run("--socket", daemon.socket, "--store", "x", "true", code=2)
        run("--socket", daemon.socket, "--inject", "kill-daemon@t=1s", "true", code=2)
        r = Run("-n", 4, "--socket", daemon.socket, "--job", "other", "--json", "--", TRAIN, *SMALL, "--steps", 800, "--save-memory-every",
                5, "--save-storage-every", 250)
        state = {}

        def at_work():
            jobs = json.loads(status(daemon, "--json"))["jobs"]
            state.update(jobs[0] if jobs else {})
            return jobs and all(rank.get("step", 0) > 20 for rank in jobs[0]["ranks"])
        r.until("work", at_work)
        equal([state["name"], state["world"], state["state"], [rank["state"] for rank in state["ranks"]]],
              ["other", 4, "running", ["joined"] * 4])
        has(status(daemon), "job other", "running", "joined")
        daemon.kill()
        daemon.start()
        document = json.loads(r.wait().out())
        equal([document["own_daemon"], document["restarts"], document["epoch"]], [False, 0, 1])
        equal(daemon.alive(), True, "the daemon was stopped")

sys.exit(cases.end())
