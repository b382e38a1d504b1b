#!/usr/bin/env python3
"""bench/idle.py [--nodes N…] [--seconds N] [--dir DIR] [--programs DIR] [--check]

What daemons cost that have nothing to do: N nodes of one cluster on addresses of loopback, with the settings that they have by default, a roster
file and no job. Of all together the processor time; of each, the most that one has: memory, descriptors, sessions with other nodes, and connections: a
session that nobody uses has none; of one the wake-ups. Floors, at 64 nodes: 5% of one core for all together, 24 MiB each.
"""
import contextlib
import os
import statistics
import sys
import tempfile
import time

import node as nodes

FLOORS_AT, FLOOR_PERCENT, FLOOR_MIB = 64, 5.0, 24.0
PEER_TIMEOUT = "1s"  # the default; tests take more
SETTLE_S = 30  # after all have met: what a beginning costs is not measured, and sessions that nobody uses are parked


def tasks(pid):
    return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]


def processor_s(pid):
    """Of all its threads, as the scheduler counts: by the tick, short turns go uncounted."""
    total = 0
    for task in tasks(pid):
        with open(f"{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def wakes(pid):
    total = 0
    for task in tasks(pid):
        with open(f"{task}/status") as file:
            total += next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return total


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def descriptors(pid):
    """What each is. One may be closed meanwhile."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/{pid}/fd/{fd}")


def connections(pid):
    """Over TCP, that are set up."""
    with open(f"/proc/{pid}/net/tcp") as file:
        set_up = {f"socket:[{line.split()[9]}]" for line in file if line.split()[3] == "01"}
    return sum(descriptor in set_up for descriptor in descriptors(pid))


def sessions(daemon):
    return sum(node["up"] for node in daemon.status()["cluster"]["nodes"]) - 1  # itself counts as up


def measure(args, count):
    """{figure: value}"""
    import loopback_cluster
    names = [f"n{i}" for i in range(count)]
    with loopback_cluster.loopback_cluster(names, **{name: ("--peer-timeout", PEER_TIMEOUT) for name in names}) as daemons:
        pids = [daemon.process.pid for daemon in daemons.values()]
        time.sleep(SETTLE_S)
        before = [(processor_s(pid), wakes(pid)) for pid in pids]
        begun = time.monotonic()
        time.sleep(args.seconds)
        took = time.monotonic() - begun
        after = [(processor_s(pid), wakes(pid)) for pid in pids]
        used = [a[0] - b[0] for a, b in zip(after, before)]
        return {"percent": 100 * sum(used) / took, "mib": max(map(resident_mib, pids)),
                "descriptors": max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
                "connections": max(map(connections, pids)),
                "sessions": max(map(sessions, daemons.values())),
                "wakes": statistics.median((a[1] - b[1]) / took for a, b in zip(after, before))}


def main():
    parser = nodes.options(seconds=20)
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 16, 32, 64])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.abspath(args.dir)) as home:
        os.environ.update(CKPT_BUILD=os.path.abspath(args.programs), CKPT_CONFIG="/dev/null", TMPDIR=home)
        return compare(args)


def compare(args):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    missed = False
    for count in args.nodes:
        found = measure(args, count)
        missed |= count == FLOORS_AT and (found["percent"] > FLOOR_PERCENT or found["mib"] > FLOOR_MIB)
        print(f"{count:3} nodes: {found['percent']:6.1f}% of a core for all, {found['mib']:.1f} MiB, {found['descriptors']} descriptors, "
              f"{found['sessions']} sessions, {found['connections']} connections, {found['wakes']:.0f} wake-ups a second each", flush=True)
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
