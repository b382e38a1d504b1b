#!/usr/bin/env python3
"""bench/memory.py [--mib N] [--tensors N] [--world N] [--saves N] [--dir DIR] [--programs DIR] [--check]

Resident memory of ckptd beyond the arenas: its anonymous pages and those of files (its program and libraries), which leaves out shared
memory, and of that it has the arenas alone; looked at every 10 ms while ranks save to memory and to storage with read-back, after
each of the saves, and while the ranks restore from storage.                                            floor: at most 64 MiB
"""
import re
import sys
import threading

import node as nodes

FLOOR_MIB = 64
KEPT = 5  # memory saves after which no slot holds the step on storage any more


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


def most(pid, work):
    """MiB at the most while work() runs."""
    done, seen = threading.Event(), []

    def watch():
        while not done.wait(0.01):
            seen.append(beyond_arenas(pid))
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return max(seen)


def measure(args):
    """(MiB at rest before the first save, after each save, at the most while saves go on, and while ranks restore from storage)"""
    options = ["--mib", str(args.mib), "--tensors", str(args.tensors), "--columns"]
    with nodes.Node(args.programs, args.dir, args.world, options, verify=True) as node:
        pid, after = node.daemon.pid, []
        before = beyond_arenas(pid)

        def save():
            for step in range(1, args.saves + 1):
                node.save(step, "storage" if step % 2 else "memory")
                node.settle()  # storage: read back as well
                after.append(beyond_arenas(pid))

        def restore():
            if node.restore(1)["source"] != "storage":
                raise nodes.Failed("step 1 did not come from storage")
        saving = most(pid, save)
        for step in range(args.saves + 1, args.saves + 1 + KEPT):
            node.save(step, "memory")
        restoring = most(pid, restore)
        check_shared(pid)
        return before, after, saving, restoring


def main():
    args = nodes.options(mib=1024, tensors=32, world=4, saves=6).parse_args()
    print(f"machine: {nodes.machine(args.dir)}")
    before, after, saving, restoring = measure(args)
    print(f"{args.mib} MiB in {args.tensors} tensors over {args.world} ranks: before the first save {before:.1f} MiB, "
          f"after a save {nodes.median(after, digits=1)}, at the most {saving:.1f}, restoring {restoring:.1f}")
    above = max(saving, restoring) > FLOOR_MIB
    if above:
        print(f"above {FLOOR_MIB} MiB")
    return 1 if above and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
