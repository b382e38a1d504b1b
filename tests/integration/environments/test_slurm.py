"""Jobs of a real Slurm, with the prolog, the epilog and the batch scripts of deploy/slurm: whatever happens to a job, it ends with the bits of
an undisturbed run."""

import functools
import os
import re
import subprocess
import sys
import tempfile

from launcher import TRAIN, Run, environment_of
from pages import commands
from slurm import NO_TASK, DEPLOY, PAGE, final, lacks, slurm
from tap import Cases, equal, expect, until

why = lacks()
if why:
    print(why)
    sys.exit(77)
RANKS = 2
FOREVER = 1000000
SLOWLY = "slow:500@60"  # 30 steps of them: who waits for Slurm leaves it the processors
OPTIONS = ("--batch", "6", "--seq", "16", "--save-memory-every", "5", "--save-storage-every", "50")
cases = Cases()


@functools.cache
def undisturbed(steps, ranks=RANKS):
    return final(Run("-n", ranks, "--store", tempfile.mkdtemp(), "--", TRAIN, *OPTIONS, "--steps", steps).wait().out())


class Training:
    """A job that trains until it is told where to end: what disturbs it comes in time, however fast the machine is. Slowly from step 60 on, until
    then."""

    def __init__(self, s, name, *args, script="train.sbatch", words=(), play=SLOWLY, **env):
        self.slurm, self.name, self.store = s, name, s.store
        self.wrapper, self.steps = s.top / f"{name}.sh", s.top / f"{name}.steps"
        self.wrapper.write_text(f"#!/bin/sh\nsteps=$(cat {self.steps})\n[ $steps = {FOREVER} ] && export CKPT_PLAY={play}\n"
                                f"exec {TRAIN} {' '.join(OPTIONS)} --steps $steps\n")
        self.wrapper.chmod(0o755)
        self.steps.write_text(str(FOREVER))
        self.args, self.env = ("--job-name", name, *args, DEPLOY / script, *words, self.wrapper), env
        self.submit()

    def submit(self):
        self.job = self.slurm.submit(*self.args, **self.env)

    def out(self):
        return self.slurm.out(self.job)

    def trains(self, since=0):
        """Until something is durable."""
        self.slurm.until_out(self.job, " ranks start at step 0" if not since else " ranks go on from ")
        until(lambda: self.listed(), f"a checkpoint of {self.name}")

    def listed(self):
        path = self.store / self.name
        return sorted(int(p.name[5:17]) for p in path.glob("step-*") if (p / "MANIFEST.json").exists())

    def stopped(self):
        """The step at which its ranks have ended."""
        # The whole line: srun hands over what it has.
        return int(until(lambda: re.search(r"final step=(\d+) .*\n", self.out()), f"the end of {self.name}'s ranks", pause=0.05).group(1))

    def to_end(self, beyond):
        """What is started for it from here on ends a little later."""
        self.last = (beyond // 100 + 1) * 100
        self.steps.write_text(str(self.last))

    def went_on(self, s):
        s.until_out(self.job, "ranks go on from")
        return source(self.out())

    def ends_like_undisturbed(self, ranks=RANKS):
        self.slurm.until_out(self.job, f"final step={self.last} ")
        self.slurm.until_state(self.job, "COMPLETED")
        equal(final(self.out()), undisturbed(self.last, ranks))


def source(text):
    """Where its newest start went on: (from, step)."""
    found = re.findall(r"ranks go on from (?:a )?(\w+) at step (\d+)", text)
    expect(found, "no start went on:", text[-2000:])
    return found[-1][0], int(found[-1][1])


def preemption(s):
    t = Training(s, "preempted", "-N2", "-n2", "--ntasks-per-node=1")
    t.trains()
    other = s.submit("-p", "high", "-N3", "-n3", "--exclusive", s.script("#!/bin/sh\nexit 0\n"))
    step = t.stopped()
    t.to_end(step)
    s.runs_again(t.job)
    equal(t.went_on(s), ("storage", step))
    t.ends_like_undisturbed()
    s.until_state(other, "COMPLETED")
    equal(int(s.show(t.job)["Restarts"]), 1)


def time_limit(s):
    # Slurm looks each half a minute: slow steps meanwhile.
    t = Training(s, "limited", "-N2", "-n2", "--ntasks-per-node=1", "--time=1", "--signal=B:USR1@58", play="slow:3000@60")
    t.trains()
    step = t.stopped()
    t.to_end(step)
    s.runs_again(t.job)
    equal(t.went_on(s), ("storage", step))
    t.ends_like_undisturbed()


def cancelled(s):
    t = Training(s, "cancelled", "-N2", "-n2", "--ntasks-per-node=1")
    t.trains()
    s.call("scancel", t.job)
    step = t.stopped()
    t.to_end(step)
    s.until_state(t.job, "CANCELLED")
    until(lambda: step in t.listed(), "the last checkpoint")
    t.submit()
    equal(t.went_on(s), ("storage", step))
    t.ends_like_undisturbed()


def node_down(s):
    t = Training(s, "down", "-N2", "-n2", "--ntasks-per-node=1")
    t.trains()
    nodes = s.call("scontrol", "show", "hostnames", s.show(t.job)["NodeList"]).split()
    s.call("scontrol", "update", f"NodeName={nodes[1]}", "State=DOWN", "Reason=test")
    t.to_end(t.listed()[-1] + 100)
    s.runs_again(t.job)
    t.ends_like_undisturbed()
    until(lambda: s.call("scontrol", "update", f"NodeName={nodes[1]}", "State=RESUME", code=None) is not None and s.states() == {"idle"}, "the node is back")


def lost_rank(s):
    t = Training(s, "lost", "-N2", "-n2", "--ntasks-per-node=1")
    t.trains()
    kill_a_rank(t)
    s.until_out(t.job, "once more")
    expect(t.went_on(s)[0] in ("memory", "peer"), t.out())
    t.ends_like_undisturbed()


def heterogeneous(s):
    """A rank of each component is lost, on a node of its own: the others hear of it."""
    told = "x HetJobId=99 HetJobOffset=0 NodeList=n3 "  # what a user writes counts for nothing
    t = Training(s, "mixed", "-N1", "-n1", "--nodelist=n1", f"--comment={told}", ":", f"--comment={told}", "-N1", "-n1", "--nodelist=n2")
    t.trains()
    equal([line.split()[0] for line in (s.top / "run-n1" / t.job / "roster").read_text().splitlines()], ["n1", "n2"])
    for times, node in enumerate(("n1", "n2"), 1):
        os.kill(next(rank["pid"] for job in s.jobs(t.job, node) for rank in job["ranks"]), 9)
        until(lambda times=times: t.out().count("once more") == times, f"try {times + 1}", pause=0.05)
        until(lambda times=times: t.out().count("ranks go on from memory") + t.out().count("ranks go on from a peer") == times, t.out)
    s.call("scancel", "--signal=USR1", "--batch", t.job)
    step = t.stopped()
    t.to_end(step)
    s.runs_again(t.job)
    s.until_out(t.job, f"ranks go on from storage at step {step} ")
    t.ends_like_undisturbed()
    for node in ("n1", "n2"):
        until(lambda node=node: not list((s.top / f"run-{node}").glob(f"{int(t.job) + 1}")), "no link of the second component is left")


def kill_a_rank(t):
    """With what is started after it the job comes to its end."""
    t.to_end(t.listed()[-1] + 50)
    pids = subprocess.run(["pgrep", "-f", f"^{TRAIN} .*--steps {FOREVER}"], capture_output=True, text=True).stdout.split()
    mine = [pid for pid in pids if f"CKPT_JOB={t.name}".encode() in environment_of(pid)]
    expect(mine, "no rank runs")
    os.kill(int(mine[0]), 9)


def requeued(s):
    t = Training(s, "requeued", "-N2", "-n2", "--ntasks-per-node=1", "--nodelist=n1,n2", TRIES="1")
    t.trains()
    kill_a_rank(t)
    s.runs_again(t.job)
    expect(t.went_on(s)[0] in ("memory", "peer"), t.out())
    t.ends_like_undisturbed()


def elsewhere(s):
    """The daemon that its first node has still is of another roster: it is ended, and the job goes on with a new one."""
    t = Training(s, "elsewhere", "-N2", "-n2", "--ntasks-per-node=1", "--nodelist=n1,n2")
    t.trains()
    s.call("scancel", "--signal=USR1", "--batch", t.job)
    step = t.stopped()
    t.to_end(step)
    s.runs_again(t.job, "ReqNodeList=n1,n3")
    equal(t.went_on(s), ("storage", step))
    t.ends_like_undisturbed()


def own_daemon(s):
    t = Training(s, "own", "-N1", "-n1", words=("ckpt", "run", "-n", RANKS, "--store", s.store / "own-store", "--"), CKPT_SLURM="no")
    t.store = s.store / "own-store"
    t.trains()
    kill_a_rank(t)
    s.until_out(t.job, "restart 1 of 10", "ranks go on from memory")
    s.call("scancel", "--signal=USR1", "--batch", t.job)
    step = t.stopped()
    t.to_end(step)
    s.runs_again(t.job)
    s.until_out(t.job, f"ranks go on from storage at step {step}")
    t.ends_like_undisturbed()


def lost_node(s):
    t = Training(s, "spared", "-N3", script="train-spare.sbatch")
    t.trains()
    nodes = s.call("scontrol", "show", "hostnames", s.show(t.job)["NodeList"]).split()
    s.until_out(t.job, "this node waits")
    ranks = [node for node in nodes if s.has_rank(t.job, node)]
    expect(len(ranks) == RANKS, ranks)
    until(lambda: all(s.replicated(t.job, node) for node in ranks), "copies of what is not on storage")
    s.lose(next(node for node in ranks if node != s.show(t.job)["BatchHost"]), t.job)
    s.until_out(t.job, "srun: error: Node failure on", " ranks go on from ")
    expect(t.went_on(s)[0] in ("memory", "peer"), t.out())
    s.call("scancel", "--signal=TERM", t.job)
    step = t.stopped()
    equal(final(t.out()), undisturbed(step))


def hopeless(s):
    job = s.submit("-N1", "-n1", DEPLOY / "train.sbatch", "sh", "-c", "exit 7")
    s.until_state(job, "FAILED")
    equal([s.show(job)["ExitCode"], s.out(job).count("once more"), s.out(job).count("not again")], ["7:0", 2, 1], s.out(job))


def page(s):
    """What a user types, in the page's order, each job until it trains or ends; the second one goes on from the first."""
    work = s.top / "work"
    work.mkdir()
    (work / "deploy").symlink_to(DEPLOY.parent)
    (work / "train").symlink_to(s.top / "page.sh")
    (s.top / "page.sh").write_text(f"#!/bin/sh\nexec {TRAIN} {' '.join(OPTIONS)} --steps 100\n")
    (s.top / "page.sh").chmod(0o755)
    typed, ends = commands(PAGE), ["start at step 0", "go on from storage at step 100", "start at step 0", "start at step 0", "start at step 0", "go on from storage at step 100"]
    equal(len(typed), len(ends))
    for command, end in zip(typed, ends):
        words = s.here(command).replace("sbatch ", f"sbatch --parsable --output={s.top}/%A.%a.out ", 1)
        job = s.call("sh", "-c", words, folder=work, CKPT_SLURM="no" if "ckpt run" in command else "").strip()
        for task in range(2) if "--array" in command else [NO_TASK]:
            s.until_out(job, "final step=100 ", end, task=task)
            until(lambda job=job, task=task: re.search(r"final step=100 .*\n", s.out(job, task)), "its line is whole")
            equal(final(s.out(job, task)), undisturbed(100))


# Beside each other: these wait for Slurm, each on nodes that the others do not harm. Then, one by one, those that take all nodes or lose one.
BESIDE = (("a job that comes to its time limit saves before it, and is requeued", time_limit),
          ("a job that is cancelled makes a last checkpoint, and the next one goes on from it", cancelled),
          ("a rank that dies: the step runs again, and goes on from memory", lost_rank),
          ("a requeued job that comes back to the same nodes goes on from their memory", requeued),
          ("a requeued job that goes to other nodes goes on from storage", elsewhere),
          ("ckpt run in a batch script needs no prolog: a rank is replaced, and the job is requeued before its limit", own_daemon),
          ("components of a heterogeneous job are one job: a lost rank of either brings all back to memory", heterogeneous),
          ("a step that fails again and again is not requeued", hopeless),
          ("what the page says is typed, and works", page))
ALONE = (("a job that is preempted saves within the grace, is requeued, and loses no step", preemption),
         ("a node that is set down: the job is requeued, and goes on elsewhere", node_down),
         ("a node that is lost within an allocation: the spare takes its rank", lost_node))
with slurm(["n1", "n2", "n3"], site="KEEP=60 HET=yes") as it:
    cases.run_beside([(name, test, it) for name, test in BESIDE], 2)
    for name, test in ALONE:
        cases.run(name, test, it)
    if cases.failed:
        print("".join(f"# {line}\n" for line in it.logs().splitlines()))
sys.exit(cases.end())
