#!/usr/bin/env python3
"""bench/detect.py [--runs N] [--nodes N] [--programs DIR] [--check]

From the end of a node until every other daemon has said that it is lost. The nodes are namespaces joined by a bridge (tests/lib/cluster.py), their
ckptd is idle, peer-timeout is the default. Needs root. Floor: 1 s.

    power    its cable is pulled: nobody says anything any more
    killed   SIGKILL to everything in it; its kernel closes the connections
    stopped  SIGSTOP to its daemon
"""
import json
import os
import signal
import statistics
import sys
import time
from datetime import datetime, timezone

import node as nodes

FLOOR_S = 1.0
REST_S = 2  # after all have met: until then each asks each, which two that look after a node go on to do


def stop(node):
    node.process.send_signal(signal.SIGSTOP)


def end_stopped(node):
    node.process.send_signal(signal.SIGCONT)


def restart(node):
    node.start()


WAYS = {"power": (lambda node: node.unplug(), lambda node: node.plug()), "killed": (lambda node: node.strike(), restart),
        "stopped": (stop, end_stopped)}


def when_lost(node, name, since):
    """The time that the daemon wrote beside it, of the first such line."""
    for line in node.said(since).splitlines():
        entry = json.loads(line)
        if f"node {name} is lost" in entry["text"]:
            return datetime.strptime(entry["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
    return None


def measure(args):
    """{way: seconds of every loss}"""
    os.environ.update(CKPT_BUILD=os.path.abspath(args.programs), CKPT_LOG_FORMAT="json", CKPT_CONFIG="/dev/null")
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
    import cluster
    reason = cluster.why_not()
    if reason:
        raise nodes.Failed(reason)
    found = {way: [] for way in WAYS}
    with cluster.cluster([f"n{i}" for i in range(args.nodes)], store=False) as net:
        net.start()
        for run in range(args.runs):
            for way, (end, back) in WAYS.items():
                node = net.nodes[run % args.nodes]
                time.sleep(REST_S)
                others, marks = net.others(node), {other: len(other.text()) for other in net.nodes}
                begun = time.time()
                end(node)
                for other in others:
                    other.until_said(f"node {node.name} is lost", marks[other])
                found[way].append(max(when_lost(other, node.name, marks[other]) for other in others) - begun)
                back(node)
                net.meet()
    return found


def main():
    args = nodes.options(runs=20, nodes=3).parse_args()
    print(f"machine: {nodes.machine(args.dir)}; load {os.getloadavg()[0]:.1f}")
    missed = False
    for way, values in measure(args).items():
        missed |= statistics.median(values) > FLOOR_S
        print(f"{way:8} {nodes.median(values, digits=3)} s")
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
