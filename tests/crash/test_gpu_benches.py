"""The benches of GPUs (bench/gpu_*.c) over a fake of the runtime and the emulator of kernels, at a tiny size. Nothing that they print is a figure;
what they do is looked at: they fill the device, use the streams that they name, make equally many steps with and without a save, verify what was
captured, print a row as soon as it is measured, and end with an error where the device does."""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tap import BIN, DEADLINE, Cases, equal, expect, has

VALUES, SECONDS = 512, 0
STEPS, ROUNDS, STREAMS = 20, 9, 16
SAVES = 3
BANNER = "emulated: this is no GPU, and no time below says anything about one"

cases = Cases()


def environment(**more):
    env = {**os.environ, **more}
    # They end as programs do, with all that they have.
    env["ASAN_OPTIONS"] = f"{env.get('ASAN_OPTIONS', '')}:detect_leaks=0"
    return env


def bench(noun, *args, prefix=(), **env):
    """(exit status, its lines, those of the fake among them where it was asked)"""
    command = [*prefix, BIN / f"emulated_gpu_{noun}", *args]
    done = subprocess.run([str(word) for word in command], env=environment(**env), text=True, timeout=DEADLINE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.splitlines()


def capture(*args, **env):
    env = {"EMULATED_PLACES": "1,1", **env}
    return bench("capture", *(args or (0.001, 20, VALUES, SECONDS)), **env)


def rows(lines):
    return [line.split("\t")[1:] for line in lines if line.startswith("emulated, no figure\t")]


def is_no_figure(lines):
    """scripts/gpu-check takes lines that begin with figure or times."""
    equal(sum(line == BANNER for line in lines), 1, "the banner")
    for line in lines:
        expect(not re.match(r"\s*(figure|times)\b", line), "taken for a figure:", line)
        expect("\tyes\t" not in line and "\tNO\t" not in line, "a floor reached or missed:", line)


def steps_of(lines):
    """The launches of the work, step by step: (streams, whether a capture began just before it), and all blocks that were asked for. A step launches on
    the streams 0, 1, … once each."""
    steps, blocks, captured = [], set(), False
    for line in lines:
        work = re.match(r"gpu: work on (\d+): (\d+) blocks of 256 threads", line)
        if line.startswith("gpu: capture on"):
            captured = True
        if line.startswith("emulated, no figure"):
            captured = False  # it was for another figure
        if not work:
            continue
        blocks.add(int(work[2]))
        if work[1] == "0":
            steps.append([1, captured])
            captured = False
        else:
            equal(int(work[1]), steps[-1][0], "the next stream of a step")
            steps[-1][0] += 1
    return [tuple(step) for step in steps], blocks


@cases.case("a capture is measured beside steps that fill the device, on 2 streams and on 16, with and without it equally often")
def _():
    rc, lines = capture(EMULATED_PLACES="5,3")
    expect(rc == 0, rc, lines[-5:])
    is_no_figure(lines)
    has("\n".join(lines), "gpu: blocks of 256 threads: 3")
    steps, blocks = steps_of(lines)
    equal(blocks, {15}, "blocks of each launch")
    # Beside those that are compared: two size the step, and ROUNDS look at the fence.
    due = {(n, captured): count for n in (2, STREAMS) for captured, count in ((False, STEPS + 2), (True, STEPS + ROUNDS))}
    equal(collections.Counter(steps), due, "steps")
    for n in (2, STREAMS):
        turns = [captured for streams, captured in steps if streams == n][2:2 + 2 * STEPS]
        equal(turns, [False, True] * STEPS, f"turns on {n} streams")
    expect(all(line == "gpu: capture on 0" for line in lines if line.startswith("gpu: capture")), "captures on the training's stream")


@cases.case("each row is printed as soon as it is measured, with the blocks that fill the device")
def _():
    rc, lines = capture(EMULATED_PLACES="2,2")
    expect(rc == 0, rc, lines[-5:])
    due = [*((f"{what} tensors that {how}", 0) for how in ("stand apart", "adjoin") for what in ("host time of begin, p50, 20", "capture of")),
           *((f"step with a capture, digests included, {n} streams: {q}", n) for n in (2, STREAMS) for q in ("p50", "p95"))]
    due[6:6] = [("wait of the stream at the fence, 2 streams: p50", 2)]
    due.append((f"wait of the stream at the fence, {STREAMS} streams: p50", STREAMS))
    found, widest = [], 0
    for line in lines:
        work = re.match(r"gpu: work on (\d+):", line)
        widest = max(widest, int(work[1]) + 1) if work else widest
        if line.startswith("emulated, no figure\t"):
            found.append((line.split("\t")[1], widest))
    equal(len(found), len(due), "rows")
    for (name, streams), (is_, seen) in zip(due, found):
        expect(is_.startswith(name), is_, "is not", name)
        equal(seen, streams, f"streams that worked before {name}")
    for row in rows(lines):
        equal(row[3], "no GPU", "whether the floor was reached")
        if row[0].startswith("step"):
            has(row[4], f"{STEPS} steps alone", "4 blocks fill the GPU")


@cases.case("the digest kernel and a restore are measured and verified")
def _():
    for noun, args, more, names in (
            ("digest", (0.001,), {}, ["digest kernel", "digest kernel, memory at an odd multiple of 2"]),
            ("restore", (0.001, 7), {"EMULATED_KERNELS": "1"}, ["restore to the device, verified, out of memory"])):
        rc, lines = bench(noun, *args, **more)
        expect(rc == 0, noun, rc, lines[-5:])
        is_no_figure(lines)
        equal([row[0] for row in rows(lines)], names, noun)


@cases.case("bytes or digests that are wrong are found, and give no figure")
def _():
    wrong = [("capture", (0.001, 20, VALUES, SECONDS), "short", "capture: other bytes than those of the GPU"),
             ("capture", (0.001, 20, VALUES, SECONDS), "digest", "capture: the GPU's digest of leaf"),
             ("digest", (0.001,), "digest", "the GPU's digest of leaf"),
             ("restore", (0.001, 7), "short", "the arena: other bytes")]
    for noun, args, failure, said in wrong:
        rc, lines = bench(noun, *args, EMULATED_FAIL=failure)
        expect(rc == 1 and said in "\n".join(lines), noun, failure, rc, lines[-5:])
        equal(rows(lines), [], f"{noun} {failure}")


@cases.case("a device that has no place for a block, or that dies, ends a bench with its sentence, at whatever call it is")
def _():
    rc, lines = capture(EMULATED_FAIL="places")
    expect(rc == 1, rc, lines[-5:])
    has(lines[-1], "no place")
    points = [("capture", (0.001, 20, 256, SECONDS), f"{what}:{n}") for what, ns in (("call", (1, 30, 400)), ("op", (1, 200, 700)))
              for n in ns]
    points += [("digest", (0.001,), f"call:{n}") for n in (2, 20, 60)] + [("restore", (0.001, 7), f"op:{n}") for n in (3, 40)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda point: bench(point[0], *point[1], EMULATED_FAIL=point[2]), points))
    for point, (rc, lines) in zip(points, ends):
        expect(rc == 1, point, rc, lines[-5:])
        has("\n".join(lines[-3:]), "(injected)")


@cases.case("an argument that is no number, or too little state, is refused by name")
def _():
    for args, said in (((0.001, "many"), "TENSORS is a number"), (("-1",), "GIB is a number"), ((0.001, 5000), "are too few for 5000 tensors")):
        rc, lines = capture(*args)
        expect(rc in (1, 2), args, rc)
        has(lines[-1], said)


def under_run(folder, noun, *args, **env):
    prefix = [BIN / "ckpt", "run", "--store", f"{folder}/store", "-n", 1, "--"]
    return bench(noun, *args, prefix=prefix, **env)


@cases.case("saves of a training loop: the state changes before each, and steps with and without one are equally many")
def _():
    with tempfile.TemporaryDirectory() as folder:
        rc, lines = under_run(folder, "save", 0.001, SAVES, VALUES, SECONDS, CKPT_KEEP_LAST=str(SAVES + 1))
        expect(rc == 0, rc, lines[-20:])
        written = {path.parent.name: path.stat().st_nlink for path in pathlib.Path(folder).glob("store/*/step-*/rank-*.safetensors")}
    is_no_figure(lines)
    equal(len(written), SAVES + 1, "checkpoints")
    equal(set(written.values()), {1}, "links to a file of the state: what had not changed was not written")
    steps = re.findall(r"(\d+) steps alone", "\n".join(" ".join(row) for row in rows(lines)))
    equal(len(set(steps)), 1, "steps")
    # Those of the first save are not counted, nor are the two that size a step and the five whose median is a step's own time.
    works = [line for line in lines if line.startswith("gpu: work on 1:")]
    filled = lines.index(next(line for line in reversed(lines) if line == "gpu: capture on 0"))
    expect(filled and len(works) >= 2 * int(steps[0]) + 7, len(works), steps)
    has("\n".join(lines), "emulated, no time\tblocked", "emulated, no time\tdurable")


@cases.case("a restore out of storage is verified")
def _():
    with tempfile.TemporaryDirectory() as folder:
        rc, lines = under_run(folder, "stored", 0.001)
    expect(rc == 0, rc, lines[-20:])
    is_no_figure(lines)
    has("\n".join(lines), *(f"emulated, no time\t{name}" for name in ("bytes", "restored", "early", "copied")))


sys.exit(cases.end())
