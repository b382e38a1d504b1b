"""The rooms of ckptd: who may include whom, downwards only. A room is a folder, and its room.h is its face: whatever is outside includes that alone. At
its top stands what the room is for, what it may know (the same as in the table here), and its invariants. `daemon.h` is for
the top alone: main.c and what stands beside it."""

import os
import re

import tidy

# From the ground up: a room, and the rooms below that it may include.
ROOMS = {
    "coordinator": (),
    "runtime": (),
    "machine": ("runtime",),
    "service": ("runtime",),
    "cluster": ("runtime",),
    "registry": ("runtime",),
    "catalog": ("runtime",),
    "arena": ("runtime",),
    "checkpoint": ("runtime", "arena"),
    "replication": ("runtime", "cluster", "arena"),
    "participant": ("coordinator", "cluster", "replication"),
    "save": ("runtime", "catalog", "arena", "checkpoint", "replication", "participant"),
    "restore": ("runtime", "service", "coordinator", "cluster", "catalog", "arena", "checkpoint", "replication", "participant", "save"),
    "job": ("runtime", "machine", "service", "coordinator", "cluster", "catalog", "arena", "checkpoint", "replication", "participant", "save", "restore"),
    "control": ("runtime", "machine", "coordinator", "cluster", "registry", "catalog", "checkpoint", "replication", "participant", "job"),
    "upkeep": ("runtime", "catalog", "checkpoint", "save", "restore", "job", "control"),
    "faults": ("runtime", "catalog", "arena", "checkpoint", "replication", "save", "job"),
    "observe": ("runtime", "machine", "faults", "coordinator", "cluster", "checkpoint", "replication", "save", "restore", "job", "control"),
    "clients": ("runtime", "faults", "cluster", "checkpoint", "replication", "participant", "save", "job", "control", "observe"),
    "dispatch": ("runtime", "machine", "cluster", "replication", "participant", "save", "restore", "job", "control", "clients"),
    "system": ("runtime", "service", "arena"),
    "": ("*",),
}

FACE = "room.h"
FACE_LINES = 6  # of its comment


def room_of(name):
    return name.split("/")[0] if "/" in name else ""


def resolve(ckptd, name, header):
    """The included file of ckptd, looked for as the compiler does; None: it is of another part."""
    for path in (os.path.normpath(os.path.join(os.path.dirname(name), header)), header):
        if (ckptd / path).is_file():
            return path
    return None


def problem_of(name, target):
    room, other = room_of(name), room_of(target)
    if room == other:
        return None
    if other not in ROOMS[room] and "*" not in ROOMS[room]:
        return f"{room}/ may not include {target}"
    return f"{target} is private to {other}/" if other and target != f"{other}/{FACE}" else None


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


def face_problem(path, room):
    """The head of a face: "Room NAME: what for", "May know: the rooms of the table", "Invariants: …"."""
    if not path.is_file():
        return "there is no room.h"
    head = re.match(r"/\* (.*?) \*/\n", path.read_text(), re.S)
    lines = head[1].split("\n") if head else []
    text = " ".join(line.removeprefix(" * ") for line in lines)
    found = re.fullmatch(rf"Room {room}: (.+\.) May know: (.+?)\. Invariants: (.+\.)", text)
    if not found:
        return "its head does not say: Room, May know, Invariants"
    if found[2] != (", ".join(ROOMS[room]) or "no other room"):
        return f"it says that it may know {found[2]}, the table says: {', '.join(ROOMS[room]) or 'no other room'}"
    return f"its head has {len(lines)} lines, {FACE_LINES} at most" if len(lines) > FACE_LINES else None


def check_faces(root):
    rooms = [room for room in ROOMS if room and (root / "ckptd" / room).is_dir()]
    problems = ((room, face_problem(root / "ckptd" / room / FACE, room)) for room in rooms)
    problems = [f"ckptd/{room}/{FACE}: {problem}" for room, problem in problems if problem]
    return problems + [f"ckptd/{room}: it has no CMakeLists.txt" for room in rooms if not (root / "ckptd" / room / "CMakeLists.txt").is_file()]


def check_table():
    """Downwards only: a room names rooms that stand before it."""
    order = list(ROOMS)
    return [f"{room} may include {other}, which is not below it" for n, room in enumerate(order) for other in ROOMS[room]
            if other != "*" and other not in order[:n]]


PLANTED = {
    "ckptd/daemon.h": '#include "arena/room.h"\n',
    "ckptd/main.c": '#include "daemon.h"\n#include "job/room.h"\n#include "save/saves_private.h"\n',
    "ckptd/arena/room.h": "",
    "ckptd/job/room.h": '#include "job/job.h"\n',
    "ckptd/job/job.h": '#include "save/room.h"\n#include "daemon.h"\n',
    "ckptd/save/room.h": '#include "save/saves.h"\n',
    "ckptd/save/saves.h": '#include "runtime/room.h"\n#include "runtime/loop.h"\n',
    "ckptd/save/saves_private.h": '#include "saves.h"\n',
    "ckptd/save/copies.c": '#include "job/job.h"\n#include "daemon.h"\n',
    "ckptd/save/saves.c": '#include "saves_private.h"\n#include "job/job.h"\n#include "job/room.h"\n#include "base/err.h"\n',
    "ckptd/job/rank/barriers.h": "",
    "ckptd/job/rank/barriers.c": '#include "save/saves_private.h"\n#include "../../save/saves.h"\n#include "../../control/room.h"\n',
    "ckptd/control/room.h": "",
    "ckptd/runtime/room.h": "",
    "ckptd/runtime/loop.h": "",
    "ckptd/runtime/loop.c": '#include "daemon.h"\n',
    "ckptd/attic/thing.c": "",
}
EXPECTED = ["ckptd/main.c:3: save/saves_private.h is private", "ckptd/job/job.h:2: job/ may not include daemon.h",
            "ckptd/save/saves.h:2: runtime/loop.h is private",
            "ckptd/save/saves.c:2: save/ may not include job/job.h", "ckptd/save/saves.c:3: save/ may not include job/room.h",
            "ckptd/save/copies.c:1: save/ may not include job/job.h", "ckptd/save/copies.c:2: save/ may not include daemon.h",
            "ckptd/job/rank/barriers.c:1: save/saves_private.h is private", "ckptd/job/rank/barriers.c:2: save/saves.h is private",
            "ckptd/job/rank/barriers.c:3: job/ may not include control/room.h", "ckptd/runtime/loop.c:1: runtime/ may not include daemon.h",
            "ckptd/attic/thing.c:1: the folder is no room"]

HEAD = "/* Room {}: something.\n * May know: {}.\n * Invariants: it holds. */\n"
FACES = {
    **{f"ckptd/{room}/CMakeLists.txt": "" for room in ("coordinator", "runtime", "service", "cluster", "catalog", "save")},
    "ckptd/coordinator/room.h": HEAD.format("coordinator", "no other room"),
    "ckptd/service/room.h": HEAD.format("service", "runtime"),
    "ckptd/cluster/room.h": HEAD.format("cluster", "runtime, save"),
    "ckptd/catalog/room.h": "/* Room catalog: something. */\n",
    "ckptd/save/room.h": HEAD.format("save", "runtime, catalog, arena, checkpoint, replication, participant").replace("something.", "some\n" + " * thing\n" * 7 + " * more."),
    "ckptd/arena/room.h": HEAD.format("arena", "runtime"),
}
WRONG_FACES = ["ckptd/runtime/room.h: there is no room.h", "ckptd/cluster/room.h: it says that it may know runtime, save", "ckptd/catalog/room.h: its head does not say",
               "ckptd/save/room.h: its head has 11 lines", "ckptd/arena: it has no CMakeLists.txt"]

if __name__ == "__main__":
    tidy.report([
        ("planted includes that run uphill are found", tidy.finds(check, PLANTED, EXPECTED)),
        ("planted faces that do not say what their room is are found", tidy.finds(check_faces, FACES, WRONG_FACES)),
        ("the table runs downwards only", check_table()),
        ("every room has one face, which says what it is for, what it may know and what it keeps", check_faces(tidy.ROOT)),
        ("no include of ckptd runs uphill", check(tidy.ROOT)),
    ])
