"""A real Slurm on this machine: munged, slurmctld and several slurmd, with the scripts of deploy/slurm. Needs root, and Debian's packages."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from launcher import ENVIRONMENT
from loopback_cluster import free_port
from pages import at, commands
from tap import BIN, DEADLINE, Failure, expect, until

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY, PAGE = ROOT / "deploy" / "slurm", "run-under-slurm.md"
PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "munged": "munge", "srun": "slurm-client"}
# Without an argument of their own, commands of Slurm take options from the environment.
CLEAN = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(("SLURM", "SBATCH", "SALLOC", "SRUN"))}
PAUSE = 0.2  # seconds between two questions to Slurm, each of which is a process of its own
NO_TASK = 4294967294  # what Slurm has in place of a number for a job that is no array
SBIN = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def lacks():
    """Why there can be no Slurm here, or None."""
    if os.geteuid():
        return "slurmd needs root"
    missing = sorted({package for name, package in PROGRAMS.items() if not shutil.which(name, path=SBIN)})
    return f"Slurm is not installed: {' '.join(missing)}" if missing else None


class Slurm:
    """nodes: their names. Each has an address of its own on loopback. options: lines of slurm.conf beyond the usual ones. grace: seconds that a job
    has to end when it is preempted."""

    def __init__(self, nodes, site="", options=(), cpus=4, grace=10):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))  # the path of munged's socket is short
        self.top.chmod(0o711)
        self.nodes, self.site, self.cpus, self.grace, self.children = nodes, site, cpus, grace, []
        net = random.randrange(1, 255)
        self.hosts = {name: f"127.77.{net}.{number + 1}" for number, name in enumerate(nodes)}
        self.conf, self.store = self.top / "slurm.conf", self.top / "scratch" / "root" / "checkpoints"
        self.store.parent.mkdir(parents=True)
        self.scripts()
        self.conf.write_text("\n".join((*self.lines(), *options)) + "\n")
        self.environment = {**CLEAN, "SLURM_CONF": str(self.conf), "PATH": f"{BIN}:{SBIN}", "CKPT_CONFIG": "/dev/null"}

    def scripts(self):
        """Prolog and epilog as the page tells an administrator to install them; then what differs where all nodes are one machine."""
        etc = self.top / "etc"
        for command in commands(PAGE, "#"):
            subprocess.run(self.here(command), shell=True, check=True, cwd=ROOT)
        (etc / "nodes").write_text("".join(f"{name} {host}\n" for name, host in self.hosts.items()))
        with open(etc / "slurm.conf", "a", encoding="utf-8") as conf:
            conf.write(f"""
RUN={self.top}/run-$SLURMD_NODENAME SITE_KEY={etc}/cluster.key NODES={etc}/nodes READY={DEADLINE} FLUSH={DEADLINE}
PORT_FROM={random.randrange(10000, 22000)} OPTIONS="$OPTIONS --peer-timeout 10s --node-wait 500ms"
PATH={BIN}:$PATH CKPT_CONFIG=/dev/null
{self.site}
""")
        for name in ("prolog", "epilog", "task-prolog"):
            script = self.top / name
            script.write_text(f"#!/bin/sh\nCKPT_SLURM_CONF={etc}/slurm.conf exec {etc / name}\n")
            script.chmod(0o755)

    def here(self, command):
        """With the paths of this Slurm in place of the page's."""
        return at(command, {"/etc/ckpt": f"{self.top}/etc", "/scratch/me": self.store.parent, "/scratch": f"{self.top}/scratch"})

    def lines(self):
        top, host = self.top, socket.gethostname()
        return [
            "ClusterName=ckpt", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={free_port('127.0.0.1')}", "SlurmUser=root",
            "AuthType=auth/munge", f"AuthInfo=socket={top}/munge,cred_expire=30", f"StateSaveLocation={top}/state",
            f"SlurmdSpoolDir={top}/spool-%n", f"SlurmctldPidFile={top}/slurmctld.pid", f"SlurmdPidFile={top}/slurmd-%n.pid",
            "SlurmdParameters=config_overrides", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SwitchType=switch/none",
            "MpiDefault=none", "ReturnToService=2", "SlurmdTimeout=300", "KillWait=10", "MessageTimeout=60",
            "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0",
            "PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "PrologFlags=Alloc", f"Prolog={top}/prolog", f"Epilog={top}/epilog",
            f"TaskProlog={top}/task-prolog",
            *(f"NodeName={name} NodeAddr={address} NodeHostname={host} Port={free_port(address)} CPUs={self.cpus}"
              for name, address in self.hosts.items()),
            f"PartitionName=low Nodes={','.join(self.nodes)} Default=YES PriorityTier=1 GraceTime={self.grace} State=UP",
            f"PartitionName=high Nodes={','.join(self.nodes)} PriorityTier=2 PreemptMode=OFF State=UP",
        ]

    def background(self, name, *command):
        with open(self.top / f"{name}.log", "ab") as log:
            child = subprocess.Popen([*map(str, command)], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(child)
        return child

    def start(self):
        (self.top / "state").mkdir()
        key = self.top / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        self.background("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.top}/munge",
                        f"--pid-file={self.top}/munge.pid", f"--log-file={self.top}/munge.log", f"--seed-file={self.top}/munge.seed")
        until(lambda: (self.top / "munge").exists(), "munged listens")
        self.background("slurmctld", "slurmctld", "-D", "-f", self.conf)
        self.slurmd = {name: self.background(f"slurmd-{name}", "slurmd", "-D", "-N", name, "-f", self.conf) for name in self.nodes}
        until(lambda: self.states() == {"idle"}, "all nodes are idle")

    def states(self):
        done = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=self.environment, capture_output=True, text=True)
        return set(done.stdout.split())

    def call(self, *command, code=0, folder=None, **env):
        done = subprocess.run([*map(str, command)], env={**self.environment, **env}, cwd=folder or self.top, capture_output=True, text=True, timeout=DEADLINE)
        expect(code is None or done.returncode == code, command, f"exit code {done.returncode}: {done.stdout} {done.stderr}")
        return done.stdout

    def script(self, text, name="job"):
        path = self.top / f"{name}.sbatch"
        path.write_text(text)
        return path

    def submit(self, *args, **env):
        """The number of the job."""
        return self.call("sbatch", "--parsable", f"--output={self.top}/%A.%a.out", "--open-mode=append", *args, **env).strip()

    def out(self, job, task=NO_TASK):
        path = self.top / f"{job}.{task}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def show(self, job):
        """What scontrol says, as {name: value}."""
        text = self.call("scontrol", "show", "job", "-o", job)
        return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)

    def state(self, job):
        return self.show(job)["JobState"]

    def until_out(self, job, *parts, task=NO_TASK):
        name = job if task == NO_TASK else f"{job}_{task}"  # the job alone is any of its tasks

        def there():
            return all(part in self.out(job, task) for part in parts)

        def over():
            return there() or self.state(name) in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

        def come():
            """What has been written is looked at more often than Slurm is asked."""
            with contextlib.suppress(Failure):
                return until(there, "the text", seconds=1, pause=0.05)
            return over()
        until(come, lambda: f"{parts} of job {name}: {self.show(name)} {self.out(job, task)[-3000:]}")
        expect(there(), f"job {name} ended without {parts}: {self.show(name)} {self.out(job, task)[-3000:]}")

    def until_state(self, job, *states):
        until(lambda: self.state(job) in states, f"job {job} is {states}", pause=PAUSE)

    def runs_again(self, job, *changes):
        """A requeued job waits for minutes: not here. But slurmd takes no job again within the second of its end. changes: of the job, for scontrol."""
        until(lambda: self.state(job) == "PENDING", f"job {job} is requeued", pause=PAUSE)
        self.call("scontrol", "update", f"JobId={job}", "StartTime=now+2seconds", *changes)

    def daemon(self, job, node):
        """The socket of the job's daemon on that node."""
        return self.top / f"run-{node}" / str(job) / "user" / "ckptd.sock"

    def has_rank(self, job, node):
        """Whether the job's daemon there has one."""
        return any(rank["pid"] for each in self.jobs(job, node) for rank in each["ranks"])

    def replicated(self, job, node):
        """Whether other nodes have copies of something newer than what is on storage, as the job's daemon there knows it."""
        saves = [each["saves"] for each in self.jobs(job, node)]
        return saves and all(each["replicated"] and each["durable"] and each["replicated"]["step"] > each["durable"]["step"] for each in saves)

    def jobs(self, job, node):
        return json.loads(self.call("ckpt", "status", "--json", "--socket", self.daemon(job, node)))["jobs"]

    def lose(self, node, job):
        """The node with all that runs on it, as if its power had gone; then Slurm is told."""
        self.slurmd[node].kill()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if f"SLURMD_NODENAME={node}".encode() in words and f"SLURM_JOB_ID={job}".encode() in words:
                    os.kill(int(path.parent.name), signal.SIGKILL)
        os.kill(int((self.daemon(job, node).parents[1] / "pid").read_text()), signal.SIGKILL)
        self.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def logs(self):
        files = [*sorted(self.top.glob("*.log")), *sorted(self.top.glob("*.out")), *sorted(self.top.glob("run-*/*.log")),
                 *sorted(self.top.glob("run-*/*/user/*.log"))]
        return "".join(f"---- {path.relative_to(self.top)}\n{path.read_text(errors='replace')[-1500:]}\n" for path in files)

    def end_keepers(self):
        """What the epilog leaves to end a daemon later: each leads a session of its own."""
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if any(word.startswith(bytes(self.top / "run-")) for word in words):
                    os.killpg(int(path.parent.name), signal.SIGKILL)

    def close(self):
        with contextlib.suppress(OSError, subprocess.SubprocessError, Failure):
            self.call("scancel", "--full", "--signal=KILL", "--user=root", code=None)
            self.call("scancel", "--user=root", code=None)
            until(lambda: not self.call("squeue", "-h", code=None).strip(), "all jobs end", 20)
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pid in (path.read_text() for path in self.top.glob("run-*/*/pid")):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(pid), 9)
        self.end_keepers()
        shutil.rmtree(self.top, ignore_errors=True)


@contextlib.contextmanager
def slurm(nodes, **options):
    it = Slurm(nodes, **options)
    try:
        it.start()
        yield it
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}\n{it.logs()}") from error
    finally:
        it.close()


def final(text):
    """The last line that ckpt-train ended with."""
    found = re.findall(r"final step=\d+ loss=\S+ params=\w+", text)
    expect(found, "no training ended:", text[-2000:])
    return found[-1]
