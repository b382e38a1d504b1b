#!/usr/bin/env python3
"""bench/memory.py [--mib N] [--world N] [--saves N] [--dir DIR] [--programs DIR] [--check]

Resident memory of ckptd beyond the arenas: its anonymous pages and those of files (its program and libraries), which leaves out shared
memory, and of that it has the arenas alone; looked at every 10 ms while ranks save to memory and to storage with read-back, and after
each of the saves.                                                                                     floor: at most 64 MiB
"""
import re
import sys
import threading

import node as nodes

FLOOR_MIB = 64


def beyond_arenas(pid):
    """MiB, now."""
    with open(f"/proc/{pid}/status") as file:
        kib = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB", file.read(), re.M))
    return (int(kib["RssAnon"]) + int(kib["RssFile"])) / 1024


def check_shared(pid):
    """Arenas are the only shared memory that is left out."""
    with open(f"/proc/{pid}/maps") as file:
        other = [line for line in file if re.search(r"^\S+ ..-?.s", line) and not re.search(r"/memfd:ckpt|io_uring|\.sqlite", line)]
    if other:
        raise nodes.Failed(f"shared mappings that are no arenas: {other}")


def measure(args):
    """(MiB at rest before the first save, after each save, at the most)"""
    with nodes.Node(args.programs, args.dir, args.world, ["--mib", str(args.mib)], verify=True) as node:
        pid, done, seen, after = node.daemon.pid, threading.Event(), [], []
        before = beyond_arenas(pid)

        def watch():
            while not done.wait(0.01):
                seen.append(beyond_arenas(pid))
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for step in range(1, args.saves + 1):
                node.save(step, "storage" if step % 2 else "memory")
                node.settle()  # storage: read back as well
                after.append(beyond_arenas(pid))
        finally:
            done.set()
            watcher.join()
        check_shared(pid)
        return before, after, max(seen)


def main():
    args = nodes.options(mib=1024, world=4, saves=6).parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    before, after, most = measure(args)
    print(f"{args.mib} MiB over {args.world} ranks: before the first save {before:.1f} MiB, after a save {nodes.median(after, digits=1)}, "
          f"at the most {most:.1f}")
    if most > FLOOR_MIB:
        print(f"above {FLOOR_MIB} MiB")
    return 1 if most > FLOOR_MIB and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
