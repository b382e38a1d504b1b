"""docs/howto/set-up-a-cluster.md, typed on nodes that are addresses of this machine: from a roster to a job that goes on after a lost rank. What stands in for ssh
runs the command here, as a user of that node would."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from launcher import BIN, ENVIRONMENT, TRAIN, Run, environment_of, final
from loopback_cluster import free_port
from pages import HOWTO, at, commands
from tap import Cases, Failure, equal, expect, has, until

FOREVER = 1000000
PAGE = "set-up-a-cluster.md"
cases = Cases()


class Site:
    """The page's nodes. Each has its own folder for sockets."""

    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.places = {"/etc/ckpt": self.top, "/ckpt": self.top / "store"}
        text = (HOWTO / PAGE).read_text()
        self.nodes = dict(re.findall(r"^ +(\w+) (10\.\S+:\d+) rack=", text, re.M))
        hosts = {place: f"127.79.0.{number}" for number, place in enumerate(self.nodes.values(), 1)}
        lines = re.search(r"^ +# /etc/ckpt/nodes\n((?: +\S+ 10\..*\n)+)", text, re.M).group(1)
        (self.top / "nodes").write_text(at(lines, {place: f"{host}:{free_port(host)}" for place, host in hosts.items()}))
        self.daemons = {}
        self.shell = self.top / "ssh"
        self.shell.write_text(f'#!/bin/sh\nXDG_RUNTIME_DIR={self.top}/$1; export XDG_RUNTIME_DIR\nshift\nexec sh -c "$*"\n')
        self.shell.chmod(0o700)

    def environment(self, node):
        return {**ENVIRONMENT, "XDG_RUNTIME_DIR": str(self.top / node), "PATH": f"{BIN}:{os.environ['PATH']}"}

    def log(self, node):
        return (self.top / f"{node}.log").read_text()

    def start(self, node, command):
        (self.top / node).mkdir(mode=0o700)
        with open(self.top / f"{node}.log", "wb") as log:
            self.daemons[node] = subprocess.Popen(["sh", "-c", "exec " + at(command, {**self.places, "gpu1": node})], env=self.environment(node), stdin=subprocess.DEVNULL,
                                                  stdout=log, stderr=log)

    def close(self):
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            daemon.wait(60)


@contextlib.contextmanager
def site():
    it = Site()
    try:
        yield it
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}\n" + "".join(f"---- {node}\n{it.log(node)[-2000:]}" for node in it.daemons)) from error
    finally:
        it.close()


@cases.case("from the roster to a job over two nodes that goes on from memory after a lost rank")
def _():
    with site() as s:
        key, start = (next(c for c in commands(PAGE) if word in c) for word in ("cluster.key", "--node gpu1"))
        subprocess.run(at(key, s.places), shell=True, check=True)
        equal((s.top / "cluster.key").stat().st_mode & 0o077, 0)
        equal(list(s.nodes), ["gpu1", "gpu2", "gpu3"])
        for node in s.nodes:
            s.start(node, start)
        for node in s.nodes:
            until(lambda node=node: all(f"node {other} is there" in s.log(node) for other in s.nodes if other != node), f"{node} finds the others")
        has(s.log("gpu1"), "node 1 of 3 in the cluster of", "copies between nodes are sealed", f"listens on {s.top}/gpu1/ckptd.sock")
        (line,) = re.findall(r"`(ckpt run --nodes gpu1,gpu2 .*)`", (HOWTO / "start-a-job.md").read_text())
        words = at(line, {"ckpt run ": "", "-n 8": "-n 1", "./train": f"{TRAIN} --steps {FOREVER}"}).split()
        run = Run(*words, CKPT_REMOTE_SHELL=str(s.shell), PATH=s.environment("gpu1")["PATH"])
        run.until("something is durable", lambda: "durable" in s.log("gpu1"))
        status = subprocess.run([BIN / "ckpt", "status"], env=s.environment("gpu2"), capture_output=True, text=True, timeout=60)
        has(status.stdout, "job gpt: running, world size 2")
        pids = subprocess.run(["pgrep", "-f", f"^{TRAIN} --steps {FOREVER}"], capture_output=True, text=True).stdout.split()
        mine = [int(pid) for pid in pids if f"XDG_RUNTIME_DIR={s.top}/gpu2".encode() in environment_of(pid)]
        equal(len(mine), 1, "ranks of gpu2")
        os.kill(mine[0], signal.SIGKILL)
        run.until_err("2 ranks go on from memory")
        run.child.send_signal(signal.SIGTERM)
        run.wait()
        last = final(run.err() + run.out())
        step = int(re.search(r"step=(\d+)", last).group(1))
        equal(last, final(Run("-n", 2, "--", TRAIN, "--steps", step).wait().out()))
        expect(list((s.top / "store" / "gpt").glob(f"step-{step:012}.*")), "no last checkpoint")


sys.exit(cases.end())
