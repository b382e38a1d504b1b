#!/usr/bin/env python3
"""bench/spare.py [--runs N] [--nodes N] [--model NAME] [--dir DIR] [--programs DIR] [--check] [--coordinator]

From the SIGKILL of everything on a node (its ckptd, its ckpt run and its rank) to the first new step of all ranks, a spare node having taken
the rank with its state out of the memory of another one. The nodes are daemons on this machine's loopback, one rank each, saves to memory every
2 steps, copied once; no store. The node that was killed comes back as the next spare; it is never the first, which coordinates. Floors: 2 s in
all, 1 s until the loss is noticed.

With --coordinator, who coordinates is elected in an etcd that this script starts, with a lease of 2 s, and the node that is killed is the one that
coordinates. `detect` is then the time until another one does. Floor: 4 s in all.

    detect   from the kill until the coordinator's daemon says that the node is lost
    plan     from there until the spare has been told its ranks
    fetch    from there until the spare's daemon has the state
    step     from there until the last rank has done a new step
    total    from the kill until then
    a step   an undisturbed one before the kill, with the saves: the least that `step` can take
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone

import node as nodes
from begin import percentile
from training import MODELS

FLOOR_S = {"detect": 1.0, "total": 2.0}
FLOOR_ELECTED_S = {"total": 4.0}
RECORD = "/ckpt/jobs/bench/coordinator"
ELECTED = "this node coordinates it, term"
PARTS = ("detect", "plan", "fetch", "step", "total")
SHOWN = (*PARTS, "a step")
EVERY = 2
PACE = 3  # saves over which an undisturbed step is timed


class Site:
    """A node of the cluster, and the launcher on it."""

    def __init__(self, name, daemon):
        self.name, self.daemon, self.run = name, daemon, None
        self.mark = 0

    def start(self, command, home):
        with open(os.path.join(home, f"{self.name}.err"), "ab") as err:
            self.run = subprocess.Popen([*command[:2], "--socket", str(self.daemon.socket), *command[2:]], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=err)

    def kill(self):
        self.daemon.process.kill()
        self.run.kill()

    def lines(self, pattern):
        """Time and match of each such line since the mark."""
        for line in self.daemon.text()[self.mark:].splitlines():
            entry = json.loads(line)
            if match := re.search(pattern, entry["text"]):
                at = datetime.strptime(entry["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
                yield at.timestamp(), match

    def said(self, pattern):
        """The time of the first such line since the mark."""
        return next((at for at, _ in self.lines(pattern)), None)

    def pace(self):
        """Seconds of a step, since the mark; None: too few were saved."""
        saved = [(at, int(match[1])) for at, match in self.lines(r"step (\d+) epoch \d+ replicated")]
        if len(saved) < PACE:
            return None
        return (saved[-1][0] - saved[-PACE][0]) / (saved[-1][1] - saved[-PACE][1])


class Report:
    """What the ranks report; all to one file."""

    def __init__(self, path):
        self.path, self.at, self.events = path, 0, []

    def read(self):
        if not os.path.exists(self.path):
            return
        with open(self.path) as file:
            file.seek(self.at)
            lines = file.read()
        whole = lines[:lines.rfind("\n") + 1]
        self.at += len(whole.encode())
        self.events += [json.loads(line) for line in whole.splitlines()]


def lose(victim, sites, report):
    """Seconds of each part."""
    coordinator, spare = sites[0], next(site for site in sites if site.waits)
    for site in sites:
        site.mark = len(site.daemon.text())
    report.read()
    epoch = max(e["epoch"] for e in report.events if e["event"] in ("start", "recovery"))
    killed, clock = time.time(), time.monotonic_ns()
    victim.kill()

    def entered():
        report.read()
        new = [e for e in report.events if e["event"] in ("start", "recovery") and e["epoch"] > epoch and e["first_step_ms"] is not None]
        return new if len({e["rank"] for e in new}) == len(sites) - 1 else None
    after = nodes.wait(entered, "the first new step of all", pause=0.002)
    seen = time.monotonic_ns()
    if {e["source"] for e in after} - {"memory", "peer"} or "peer" not in {e["source"] for e in after}:
        raise nodes.Failed(f"restored from {[e['source'] for e in after]}")
    # Those that stayed tell when they were at work again; when the new one was, is known by when it was read.
    stayed = [e for e in after if e["event"] == "recovery"]
    ended = max([e["noticed_ns"] + e["total_ms"] * 1e6 for e in stayed] + [seen]) - clock
    noticed = [at for at in (site.said(ELECTED) for site in sites if site is not victim) if at] or [coordinator.said(f"node {victim.name} is lost")]
    times = [killed, noticed[0], spare.said("1 ranks here, world size"), spare.said("ready in")]
    if None in times:
        raise nodes.Failed(f"the daemons have not said when: {times}")
    parts = [later - earlier for earlier, later in zip(times, times[1:])]
    return dict(zip(PARTS, [*parts, ended / 1e9 - sum(parts), ended / 1e9]))


def rounds(args, sites, home):
    report = Report(os.path.join(home, "report"))
    command = [os.path.join(args.programs, "ckpt"), "run", "--nodes", str(args.nodes), "-n", "1", "--min-ranks", str(args.nodes), "--job", "bench"]
    trainer = ["--", os.path.join(args.programs, "ckpt-train"), "--report", report.path, "--steps", "999999", "--save-memory-every", str(EVERY),
               "--save-storage-every", "0", *MODELS[args.model]]
    for site in sites:
        site.waits = site is sites[-1]
        if site.waits and args.coordinator:  # one that has ranks is to be elected
            nodes.wait(lambda: args.etcd.get(RECORD), "a coordinator")
        site.start([*command, *(["--spare"] if site.waits else []), *trainer], home)
    found = []
    for run in range(args.runs):
        # All at work, and something is replicated.
        for site in sites:
            site.mark = len(site.daemon.text())
        nodes.wait(lambda: all(site.waits or site.pace() for site in sites), "a replicated save")
        pace = next(site for site in sites if not site.waits).pace()
        at_work = [site for site in sites[0 if args.coordinator else 1:] if not site.waits]
        victim = next(site for site in sites if site.name == args.etcd.get(RECORD)) if args.coordinator else at_work[run % len(at_work)]
        found.append({**lose(victim, sites, report), "a step": pace})
        print("  " + ", ".join(f"{part} {found[-1][part]:.3f}" for part in SHOWN), flush=True)
        for site in sites:
            site.waits = site is victim
        for process in (victim.daemon.process, victim.run):
            process.wait()
        victim.daemon.start()
        victim.start([*command, "--spare", *trainer], home)
        nodes.wait(lambda: victim.said("waits for a plan"), "the new spare")
    return found, state_bytes(sites)


def state_bytes(sites):
    """That a save takes into the memory of a node."""
    return max(save["captured_bytes"] or 0 for site in sites for job in site.daemon.status()["jobs"] for save in job["saves"]["recent"])


def measure(args):
    os.environ.update(CKPT_BUILD=os.path.abspath(args.programs), CKPT_LOG_FORMAT="json", CKPT_CONFIG="/dev/null")
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
    import loopback_cluster
    home = tempfile.mkdtemp(prefix="ckpt-bench-", dir=args.dir)
    names = [f"n{i}" for i in range(args.nodes + 1)]
    cluster = loopback_cluster.Cluster(names)
    more = []
    if args.coordinator:
        import etcd
        args.etcd = etcd.Etcd("x")
        args.etcd.start()
        more = ["--registry", args.etcd.url("ckpt"), "--registry-lease", "2s"]
    sites = [Site(name, cluster.daemon(name, "--copies", 1, *more)) for name in names]
    for site in sites:  # the default, where tests are more patient
        at = site.daemon.options.index("--peer-timeout")
        del site.daemon.options[at:at + 2]
    try:
        for site in sites:
            site.daemon.start()
        nodes.wait(lambda: all(n["up"] for site in sites for n in site.daemon.status()["cluster"]["nodes"]), "the nodes that find each other")
        return rounds(args, sites, home)
    except nodes.Failed as error:
        raise nodes.Failed(f"{error}\n" + "".join(f"---- {site.name}\n{site.daemon.text()[-2000:]}" for site in sites)) from error
    finally:
        for site in sites:
            if site.run and site.run.poll() is None:
                site.run.send_signal(signal.SIGKILL)
                site.run.wait()
            site.daemon.close()
        if args.coordinator:
            args.etcd.close()
        shutil.rmtree(home, ignore_errors=True)


def main():
    parser = nodes.options(runs=20, nodes=3)
    parser.add_argument("--model", choices=MODELS, default="256 MiB")
    parser.add_argument("--coordinator", action="store_true")
    args = parser.parse_args()
    floors = FLOOR_ELECTED_S if args.coordinator else FLOOR_S
    nodes.check_memory(12 << 10)
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    found, state = measure(args)
    print(f"{args.model}: {state / 2 ** 20:.1f} MiB of state on each of {args.nodes} ranks, {len(found)} nodes lost")
    missed = False
    for part in SHOWN:
        values = [row[part] * 1e3 for row in found]
        missed |= percentile(values, 0.5) > floors.get(part, float("inf")) * 1e3
        print(f"{part:8} p50 {percentile(values, 0.5):.0f} ms, p90 {percentile(values, 0.9):.0f}, max {max(values):.0f}")
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
