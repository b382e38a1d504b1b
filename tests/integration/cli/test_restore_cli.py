"""ckpt restore: what it writes opens in the upstream safetensors package and holds the bytes that were saved, at every world
size; damage is walked back over; nothing that looks complete is left by a restore that did not complete."""

import fcntl
import json
import os
import signal
import subprocess
import sys

from offline import CANCELLED, CORRUPT, FAILED, LOCKED, NO_REPO, NONE_RESTORABLE, OK, PARTIAL, case, cases, equal, packages, top
from tap import BIN

packages("numpy", "safetensors")
import numpy
import safetensors

SIZES = {"U8": 1, "BF16": 2, "F32": 4, "F64": 8, "I64": 8}
repo = top / "repo"


def make(where, *args):
    subprocess.run([BIN / "make_store", where, *map(str, args)], check=True, stdout=subprocess.DEVNULL)


def command(*args, root=repo):
    return [BIN / "ckpt", "restore", "--repo", str(root), *map(str, args)]


def restore(*args, root=repo, code=OK):
    done = subprocess.run(command(*args, root=root), capture_output=True, text=True)
    equal(done.returncode, code, f"exit code ({done.stderr.strip()})")
    return done


def pieces_of(path):
    """(tensor, dtype, global shape, box or flat start, raw elements) of every entry, by the upstream package's reader."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    where = json.loads(json.loads(data[8:8 + size])["__metadata__"]["ckpt.pieces"])
    for name, entry in safetensors.deserialize(data):
        piece, itemsize = where[name], SIZES[entry["dtype"]]
        raw = numpy.frombuffer(bytes(entry["data"]), numpy.uint8).reshape(*entry["shape"], itemsize)
        yield piece["tensor"], entry["dtype"], piece["shape"], piece.get("offset"), piece.get("start"), raw


def tensors_of(folder):
    """All tensors of the files of a folder, put together from their pieces, every element exactly once."""
    whole, seen = {}, {}
    for path in sorted(folder.glob("*.safetensors")):
        for tensor, dtype, shape, offset, start, raw in pieces_of(path):
            values = whole.setdefault(tensor, (dtype, numpy.zeros((*shape, SIZES[dtype]), numpy.uint8)))[1]
            count = seen.setdefault(tensor, numpy.zeros(shape, numpy.uint8))
            if offset is None:
                values.reshape(-1, SIZES[dtype])[start:start + len(raw)] = raw
                count.reshape(-1)[start:start + len(raw)] += 1
            else:
                box = tuple(slice(o, o + n) for o, n in zip(offset, raw.shape[:-1]))
                values[box] = raw
                count[box] += 1
    for tensor, count in seen.items():
        equal(bool((count == 1).all()), True, f"{tensor} is complete")
    return {tensor: (dtype, values.shape[:-1], values.tobytes()) for tensor, (dtype, values) in whole.items()}


def saved(step, root=repo):
    return tensors_of(root / "main" / f"step-{step:012d}.e0001")


def damage(root, step, pattern="*.params.safetensors"):
    """Flips a bit in the middle of a data file; returns its name."""
    path = sorted((root / "main" / f"step-{step:012d}.e0001").glob(pattern))[1]
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))
    return path.name


def beside(folder):
    return sorted(p.name for p in folder.iterdir())


make(repo, 10, 20, "--world", 4, "--rows", 1001, "--cols", 300)


@case("4 ranks into 1 file per group of whole tensors")
def whole():
    to = top / "whole"
    done = restore("20", "--to", to)
    equal(beside(to), ["optimizer.safetensors", "params.safetensors"])
    equal(tensors_of(to), saved(20))
    equal(len(tensors_of(to)), 12)
    equal("step-000000000020.e0001" in done.stdout, True)
    for path in to.iterdir():
        for tensor, _, shape, offset, _, raw in pieces_of(path):
            equal((list(raw.shape[:-1]), offset), (shape, [0] * len(shape)), tensor)


@case("4 ranks into 3 and 8: rows in balanced parts")
def ranks():
    for world in (3, 8):
        to = top / f"world{world}"
        restore("latest", "--to", to, "--world", world)
        equal(tensors_of(to), saved(20))
        equal(len(beside(to)), 2 * world)
        for rank in range(world):
            path = to / f"rank-{rank:05d}-of-{world:05d}.params.safetensors"
            rows = [raw.shape[0] for tensor, _, _, _, _, raw in pieces_of(path) if tensor == "colwise"]
            equal(rows, [1001 * (rank + 1) // world - 1001 * rank // world])


@case("a checkpoint of several nodes")
def nodes():
    root, to = top / "nodes", top / "from-nodes"
    make(root, 10, "--world", 4, "--nodes", 2)
    restore("latest", "--to", to, root=root)
    equal(tensors_of(to), saved(10, root))


@case("groups above --max-file are split, with an index")
def parts():
    to = top / "parts"
    restore("20", "--to", to, "--max-file", 1 << 20)
    index = json.loads((to / "params.safetensors.index.json").read_text())
    equal(tensors_of(to), saved(20))
    held = {tensor: path.name for path in to.glob("params-*.safetensors") for tensor, *_ in pieces_of(path)}
    equal(index["weight_map"], held)
    total = sum(len(raw.tobytes()) for path in to.glob("params-*") for *_, raw in pieces_of(path))
    equal(index["metadata"]["total_size"], total)
    names = sorted(set(held.values()))
    equal(names, [f"params-{k:05d}-of-{len(names):05d}.safetensors" for k in range(1, len(names) + 1)])
    equal((to / "optimizer.safetensors.index.json").exists(), (to / "optimizer.safetensors").exists() is False)


@case("--group and --tensor choose")
def choice():
    restore("20", "--to", top / "group", "--group", "optimizer")
    equal(set(tensors_of(top / "group")), {"moment"})
    restore("20", "--to", top / "glob", "--tensor", "*wise", "--tensor", "rng@*")
    equal(set(tensors_of(top / "glob")), {"rowwise", "colwise", "rng@00000", "rng@00001", "rng@00002", "rng@00003"})
    done = restore("20", "--to", top / "nothing", "--tensor", "no such", code=FAILED)
    equal("--tensor" in done.stderr, True, done.stderr)
    equal((top / "nothing").exists(), False)


@case("--json")
def json_report():
    done = restore("20", "--to", top / "json", "--json")
    report = json.loads(done.stdout)
    size = sum(path.stat().st_size for path in (top / "json").iterdir())
    equal({key: report[key] for key in ("schema", "command", "job", "step", "epoch", "tensors", "files", "bytes")},
          {"schema": 1, "command": "restore", "job": "main", "step": 20, "epoch": 1, "tensors": 12, "files": 2, "bytes": size})
    equal(report["passed_over"], [])


@case("latest walks back over a damaged checkpoint and says why")
def walk_back():
    root, to = top / "damaged", top / "older"
    make(root, 10, 20, 30, "--world", 2)
    name = damage(root, 30)
    (root / "main/step-000000000020.e0001/MANIFEST.json").write_text("{}")
    done = restore("latest", "--to", to, "--json", root=root, code=PARTIAL)
    lines = [line for line in done.stderr.splitlines() if "passed over" in line]
    equal(len(lines), 2, done.stderr)
    equal(all(word in lines[0] for word in ("step-000000000030.e0001", name, "tensor ", "bytes ")), True, lines[0])
    equal(all(word in lines[1] for word in ("step-000000000020.e0001", "MANIFEST.json")), True, lines[1])
    report = json.loads(done.stdout)
    equal((report["step"], [entry["step"] for entry in report["passed_over"]]), (10, [30, 20]))
    equal(tensors_of(to), saved(10, root))
    done = restore("30", "--to", top / "named", root=root, code=CORRUPT)
    equal(name in done.stderr, True, done.stderr)
    equal((top / "named").exists(), False)


@case("latest of only damaged checkpoints, and of none")
def none_left():
    root = top / "ruined"
    make(root, 10, "--world", 2)
    damage(root, 10)
    place = top / "place"
    place.mkdir()
    restore("latest", "--to", place / "out", root=root, code=NONE_RESTORABLE)
    equal(beside(place), [])
    make(top / "empty", 10, "--partial")
    restore("latest", "--to", place / "out", root=top / "empty", code=NONE_RESTORABLE)
    restore("latest", "--to", place / "out", root=top / "no such repository", code=NO_REPO)
    equal(beside(place), [])


@case("--to: an empty directory is taken, anything else is refused and left alone")
def target():
    full, empty, file = top / "full", top / "vacant", top / "file"
    full.mkdir()
    empty.mkdir()
    (full / "mine").write_text("precious")
    file.write_text("precious")
    for to in (full, file, top / "no such" / "out"):
        done = restore("20", "--to", to, code=FAILED)
        equal(str(to.parent if "no such" in str(to) else to) in done.stderr, True, done.stderr)
    equal((beside(full), file.read_text()), (["mine"], "precious"))
    restore("20", "--to", f"{empty}/")
    equal(tensors_of(empty), saved(20))


@case("--to within a repository is refused, also by a link to it, and leaves nothing there")
def within():
    (top / "to-job").symlink_to(repo / "main")
    before = sorted(repo.rglob("*"))
    for to in (repo / "out", repo / "main" / "out", repo / "main" / "step-000000000020.e0001" / "out", top / "to-job" / "out"):
        done = restore("20", "--to", to, code=FAILED)
        equal(f"{to} is within a repository" in done.stderr, True, done.stderr)
    equal(sorted(repo.rglob("*")), before)


@case("a second restore into the same place is told so")
def locked():
    staging = top / ".busy.ckpt-restore"
    staging.mkdir()
    handle = os.open(staging, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    restore("20", "--to", top / "busy", code=LOCKED)
    os.close(handle)
    (staging / "left over").write_text("by a killed run")
    restore("20", "--to", top / "busy")
    equal((beside(top / "busy"), staging.exists()), (["optimizer.safetensors", "params.safetensors"], False))


def interrupted(place, number):
    """Sends the signal while files are being written; the exit status, or None when the restore was faster every time."""
    for attempt in range(20):
        to = place / f"out{attempt}"
        child = subprocess.Popen(command("10", "--to", to, root=top / "large"), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        staging = place / f".out{attempt}.ckpt-restore"
        while child.poll() is None and not any(staging.glob("*")):
            pass
        child.send_signal(number)
        if child.wait(60) != OK:
            return child.returncode, to
    return None, None


@case("a killed restore leaves nothing that looks complete, and the next one clears up")
def killed():
    make(top / "large", 10, "--world", 4, "--rows", 100000, "--cols", 100)
    place = top / "killed"
    place.mkdir()
    status, to = interrupted(place, signal.SIGKILL)
    equal(status, -signal.SIGKILL)
    equal((to.exists(), (place / f".{to.name}.ckpt-restore").exists()), (False, True))
    restore("10", "--to", to, root=top / "large")
    equal(tensors_of(to), saved(10, top / "large"))
    equal((place / f".{to.name}.ckpt-restore").exists(), False)


@case("an interrupted restore removes what it wrote")
def cancelled():
    place = top / "interrupted"
    place.mkdir()
    status, to = interrupted(place, signal.SIGINT)
    equal(status, CANCELLED)
    equal((to.exists(), (place / f".{to.name}.ckpt-restore").exists()), (False, False))


@case("without room nothing is begun, and both sizes are told")
def no_room():
    place = top / "small"
    place.mkdir()
    script = f'mount -t tmpfs -o size=1m none "{place}" || exit 77; "$@"; echo "code $?"; ls -A "{place}"'
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", *command("20", "--to", place / "out")],
                          capture_output=True, text=True)
    if "code" not in done.stdout:
        return f"no private mounts here: {(done.stderr.strip().splitlines() or ['unshare failed'])[-1]}"
    equal(done.stdout.strip(), f"code {FAILED}", done.stderr)
    size = sum(path.stat().st_size for path in (top / "whole").iterdir())
    equal(f"{size} bytes" in done.stderr and "1048576 bytes" in done.stderr, True, done.stderr)


sys.exit(cases.end())
