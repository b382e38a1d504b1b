"""The rooms of ckptd: who may include whom, downwards only. A room is a folder; its headers are its face to the rooms above, but for *_private.h.
`daemon.h` and `job/job.h` are records that many rooms share: their sources may include them, their headers name them by a forward declaration."""

import os
import re

import tidy

# From the ground up: a room, and the rooms below that it may include.
ROOMS = {
    "coordinator": (),
    "runtime": (),
    "service": ("runtime",),
    "cluster": ("runtime",),
    "catalog": ("runtime",),
    "arena": ("runtime",),
    "checkpoint": ("runtime", "arena"),
    "replication": ("runtime", "cluster", "arena"),
    "participant": ("runtime", "coordinator", "cluster", "catalog", "replication"),
    "save": ("runtime", "catalog", "arena", "checkpoint", "replication", "participant"),
    "restore": ("runtime", "service", "coordinator", "cluster", "catalog", "arena", "replication", "participant", "save"),
    "job": ("runtime", "service", "coordinator", "cluster", "catalog", "arena", "checkpoint", "replication", "participant", "save", "restore"),
    "control": ("runtime", "coordinator", "cluster", "catalog", "checkpoint", "replication", "participant", "job"),
    "upkeep": ("runtime", "catalog", "checkpoint", "save", "restore", "job", "control"),
    "observe": ("runtime", "coordinator", "cluster", "checkpoint", "replication", "save", "restore", "job", "control"),
    "clients": ("runtime", "cluster", "participant", "save", "job", "control", "observe"),
    "dispatch": ("runtime", "cluster", "replication", "participant", "save", "restore", "job", "control", "clients"),
    "system": ("runtime", "service", "arena"),
    "": ("*",),
}

# Shared records, and the rooms from which on sources may include them.
RECORDS = {"daemon.h": "participant", "job/job.h": "participant"}


def room_of(name):
    return name.split("/")[0] if "/" in name else ""


def resolve(ckptd, name, header):
    """The included file of ckptd, looked for as the compiler does; None: it is of another part."""
    for path in (os.path.normpath(os.path.join(os.path.dirname(name), header)), header):
        if (ckptd / path).is_file():
            return path
    return None


def is_record(name, target):
    order = list(ROOMS)
    return target in RECORDS and name.endswith((".c", "_private.h")) and order.index(room_of(name)) >= order.index(RECORDS[target])


def problem_of(name, target):
    room, other = room_of(name), room_of(target)
    if room == other or "*" in ROOMS[room] or is_record(name, target):
        return None
    if other not in ROOMS[room]:
        return f"{room}/ may not include {target}"
    return f"{target} is private to {other}/" if target.endswith("_private.h") else None


def uphill(root):
    """(file, line, problem) of each include that breaks the table."""
    ckptd, found = root / "ckptd", []
    for path in tidy.sources(ckptd, ".c", ".h"):
        name = str(path.relative_to(ckptd))
        if room_of(name) not in ROOMS:
            found.append((name, 1, "the folder is no room of the table"))
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            header = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            target = header and resolve(ckptd, name, header[1])
            problem = target and problem_of(name, target)
            if problem:
                found.append((name, number, problem))
    return found


def check(root):
    return [f"ckptd/{name}:{number}: {problem}" for name, number, problem in uphill(root)]


def check_table():
    """Downwards only: a room names rooms that stand before it."""
    order = list(ROOMS)
    return [f"{room} may include {other}, which is not below it" for n, room in enumerate(order) for other in ROOMS[room]
            if other != "*" and other not in order[:n]]


PLANTED = {
    "ckptd/daemon.h": "",
    "ckptd/main.c": '#include "daemon.h"\n#include "job/job.h"\n#include "save/saves_private.h"\n',
    "ckptd/job/job.h": '#include "save/saves.h"\n#include "daemon.h"\n',
    "ckptd/save/saves.h": '#include "runtime/loop.h"\n',
    "ckptd/save/saves_private.h": '#include "saves.h"\n',
    "ckptd/save/saves.c": '#include "saves_private.h"\n#include "job/job.h"\n#include "job/barriers.h"\n#include "base/err.h"\n',
    "ckptd/job/barriers.h": "",
    "ckptd/job/barriers.c": '#include "save/saves_private.h"\n#include "../save/saves.h"\n#include "../control/host.h"\n',
    "ckptd/control/host.h": "",
    "ckptd/runtime/loop.h": "",
    "ckptd/runtime/loop.c": '#include "daemon.h"\n',
    "ckptd/attic/thing.c": "",
}
EXPECTED = ["ckptd/job/job.h:2: job/ may not include daemon.h", "ckptd/save/saves.c:3: save/ may not include job/barriers.h",
            "ckptd/job/barriers.c:1: save/saves_private.h is private", "ckptd/job/barriers.c:3: job/ may not include control/host.h",
            "ckptd/runtime/loop.c:1: runtime/ may not include daemon.h", "ckptd/attic/thing.c:1: the folder is no room"]

if __name__ == "__main__":
    tidy.report([
        ("planted includes that run uphill are found", tidy.finds(check, PLANTED, EXPECTED)),
        ("the table runs downwards only", check_table()),
        ("no include of ckptd runs uphill", check(tidy.ROOT)),
    ])
