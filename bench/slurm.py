#!/usr/bin/env python3
"""bench/slurm.py WHAT [--runs N] [--dir DIR] [--programs DIR] [--check]

Jobs of a real Slurm that this script starts on this machine, with the prolog, the epilog and the batch scripts of deploy/slurm. Needs root.

    prolog   how long the prolog takes on a node that is ready, which is what it adds to a job's start. Floor: 0.5 s
    preempt  a job of two ranks with 1 GiB of state each, on two nodes, without copies, is preempted with 30 s of grace: from the submission of the job that
             preempts it until its last checkpoint is durable, and how many steps are lost when it goes on after the requeue. Floors: 30 s, 0 steps
    lost     a node is lost within an allocation that has a spare, with 256 MiB of state in two ranks: from the kill of all that runs on it to the first
             new step of all ranks. Floor: 3 s, p50
"""
import json
import os
import statistics
import subprocess
import sys
import time

import node as nodes
from begin import percentile
from node import wait
from training import MODELS

PROLOG_S, GRACE_S, LOST_S = 0.5, 30, 3.0
GIB = ["--width", "1280", "--layers", "7", "--heads", "8", "--seq", "16", "--batch", "2"]  # 8 bytes for each of 138 million parameters on each of two ranks
FOREVER = 1000000
TIMED = '#!/bin/sh\nbegan=$(date +%s.%N)\n{script}\nstatus=$?\necho "$began $(date +%s.%N)" >>{log}\nexit $status\n'


def events(path):
    """What the ranks have reported."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def script(s, name, options):
    """A program whose last step stands in a file, and what it reports to."""
    steps, report = s.top / f"{name}.steps", s.top / f"{name}.report"
    steps.write_text(str(FOREVER))
    path = s.top / f"{name}.sh"
    path.write_text(f"#!/bin/sh\nexec ckpt-train --report {report} --save-storage-every 0 {' '.join(options)} --steps $(cat {steps})\n")
    path.chmod(0o755)
    return path, steps, report


def prolog(s, args):
    log = s.top / "prolog.times"
    wrapper = s.top / "prolog"
    wrapper.write_text(TIMED.format(script=wrapper.read_text().splitlines()[1].replace("exec ", ""), log=log))
    for _ in range(args.runs):
        job = s.submit("-N1", "-n1", s.script("#!/bin/sh\nexit 0\n"))
        s.until_state(job, "COMPLETED")
        wait(lambda: s.states() == {"idle"}, "the node is idle")
    return [[float(end) - float(began) for began, end in (line.split() for line in log.read_text().splitlines())]]


def preempt(s, args):
    took, lost = [], []
    for run in range(args.runs):
        program, steps, report = script(s, f"preempted{run}", [*GIB, "--save-storage-every", str(FOREVER)])
        job = s.submit("-N2", "-n2", "--ntasks-per-node=1", "--job-name", f"preempted{run}", s.deploy / "train.sbatch", program)
        wait(lambda: [e for e in events(report) if e["event"] == "save"], "a save to memory")
        began = time.monotonic()
        other = s.submit("-p", "high", "-N2", "-n2", "--exclusive", s.script("#!/bin/sh\nexit 0\n"))
        wait(lambda: "PreemptTime=2" in s.call("scontrol", "show", "job", job), "the preemption")
        ends = wait(lambda: [e for e in events(report) if e["event"] == "end"], "the end of the ranks")
        took.append(time.monotonic() - began)
        steps.write_text(str(ends[0]["step"] + 3))
        s.until_state(other, "COMPLETED")
        s.runs_again(job)
        wait(lambda: len([e for e in events(report) if e["event"] == "start"]) >= 4, "the next start")
        again = [e for e in events(report) if e["event"] == "start"][2:]
        lost.append(max(ends[0]["step"] - e["step"] for e in again))
        s.until_state(job, "COMPLETED")
        print(f"  durable after {took[-1]:.1f} s, {lost[-1]} steps lost, went on from {again[0]['source']}", flush=True)
    return [took, lost]


def replicated(s, job):
    """How many saves have copies on another node, as the daemons say."""
    return max((path.read_text(errors="replace").count(" replicated") for path in s.top.glob(f"run-*/{job}/user/ckptd.log")), default=0)


def lost(s, args):
    took = []
    for run in range(args.runs):
        program, _, report = script(s, f"spared{run}", [*MODELS["256 MiB"], "--save-memory-every", "2"])
        job = s.submit("-N3", "--job-name", f"spared{run}", s.deploy / "train-spare.sbatch", program)
        wait(lambda: replicated(s, job) >= 2, "copies of two saves")
        s.until_out(job, "this node waits")
        host = s.show(job)["BatchHost"]
        victim = next(node for node in s.nodes if node != host and s.has_rank(job, node))
        before = max(e["epoch"] for e in events(report) if e["event"] in ("start", "recovery"))
        began = time.monotonic()
        s.lose(victim, job)

        def entered():
            new = [e for e in events(report) if e["event"] in ("start", "recovery") and e["epoch"] > before and e["first_step_ms"] is not None]
            return new if len({e["rank"] for e in new}) == 2 else None
        new = wait(entered, "the first new step of all")
        took.append(time.monotonic() - began)
        if "peer" not in {e["source"] for e in new}:
            raise nodes.Failed(f"restored from {[e['source'] for e in new]}")
        print(f"  {took[-1]:.2f} s, from {sorted({e['source'] for e in new})}", flush=True)
        s.call("scancel", "--full", "--signal=KILL", job, code=None)
        s.call("scancel", job, code=None)
        wait(lambda: s.show(job)["JobState"] not in ("RUNNING", "COMPLETING"), "the end of the job")
        s.slurmd[victim] = s.background(f"slurmd-{victim}", "slurmd", "-D", "-N", victim, "-f", s.conf)
        wait(lambda: s.call("scontrol", "update", f"NodeName={victim}", "State=RESUME", code=None) is not None and s.states() == {"idle"}, "the node is back")
    return [took]


SETTINGS = {"prolog": (["n1"], "", {}), "preempt": (["n1", "n2"], "--copies 0", {"grace": GRACE_S}), "lost": (["n1", "n2", "n3"], "", {})}


def measure(args):
    os.environ.update(CKPT_BUILD=os.path.abspath(args.programs), CKPT_CONFIG="/dev/null", TMPDIR=args.dir)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
    import slurm
    if why := slurm.lacks():
        raise nodes.Failed(why)
    names, options, more = SETTINGS[args.what]
    s = slurm.Slurm(names, site=f"OPTIONS=\"--store {args.dir}/ckpt-bench-slurm-%u {options}\"", **more)  # the defaults, where tests are more patient
    s.deploy = slurm.DEPLOY
    try:
        s.start()
        return globals()[args.what](s, args)
    except (nodes.Failed, slurm.Failure) as error:
        raise nodes.Failed(f"{error}\n{s.logs()}") from error
    finally:
        s.close()
        subprocess.run(["rm", "-rf", f"{args.dir}/ckpt-bench-slurm-root"], check=False)


def main():
    parser = nodes.options(runs=10)
    parser.add_argument("what", choices=SETTINGS)
    args = parser.parse_args()
    nodes.check_memory({"prolog": 1, "preempt": 12, "lost": 2}[args.what] << 10)
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    times, *steps = measure(args)
    print(f"{args.what}: p50 {percentile(times, 0.5):.2f} s, p90 {percentile(times, 0.9):.2f}, max {max(times):.2f}, of {len(times)}"
          + "".join(f"; steps lost: at most {max(each)}" for each in steps))
    floor = {"prolog": statistics.median(times) <= PROLOG_S, "preempt": max(times) < GRACE_S and not any(sum(steps, [])),
             "lost": percentile(times, 0.5) <= LOST_S}[args.what]
    return 1 if args.check and not floor else 0


if __name__ == "__main__":
    sys.exit(main())
