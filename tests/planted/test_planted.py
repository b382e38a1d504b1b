"""Bugs planted on purpose, each a patch of this folder: applied to a copy of the tree (build/planted), built, and the test that its head
names must fail. Before that the same test must pass without the patch. Nightly; `test_planted.py PATCH...` runs some at once.
timeout: 900

The head of a patch:
    Planted: what is wrong
    Caught-by: sim test_save              the program of a simulation
    Caught-by: unit store verify*/*       tests of a unit program
    Caught-by: crash test_failed          a script over daemon and ranks
    Caught-by: integration test_parking   a script over nodes that are only their net, or over the programs
    Caught-by: loss test_pairs            two pairs of each kind"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TREE = pathlib.Path(os.environ.get("CKPT_PLANTED_TREE", ROOT / "build" / "planted"))
PROGRAMS = TREE / "build" / "asan" / "bin"
SECONDS = 400


class Patch:
    def __init__(self, path):
        self.path, text = path, path.read_text()
        self.title = re.search(r"^Planted: (.*)$", text, re.M).group(1)
        self.test = re.search(r"^Caught-by: (.*)$", text, re.M).group(1)


def tracked():
    return subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.split("\n")[:-1]


def copy_tree():
    """Only what differs is touched, so that little is built."""
    for name in tracked():
        source, target = ROOT / name, TREE / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def run(*command, seconds=SECONDS, **more):
    """Exit status and output; no status after the deadline."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, **more)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")


def must(*command, **more):
    code, output = run(*command, seconds=1800, **more)
    if code != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {output[-2000:]}")


def apply(patch, *options):
    # Not a repository's: it must not look for the index of the one around it.
    must("git", "apply", *options, patch.path, env=dict(os.environ, GIT_CEILING_DIRECTORIES=str(TREE.parent), GIT_DIR="/nonexistent"))


def command_of(test):
    """The targets to build, and what to run."""
    kind, noun, *pattern = test.split()
    if kind == "crash":
        return ["ckptd", "ckpt", "drive", "puppet", "make_store", "forget"], ["python3", TREE / "tests" / "run.py", f"{kind}/{noun}"]
    if kind == "integration":
        script, = (TREE / "tests" / kind).rglob(f"{noun}.py")
        return ["net_node", "ckptd", "ckpt", "ckpt-train"], ["env", f"CKPT_BUILD={PROGRAMS}", f"PYTHONPATH={TREE}/tests/lib", "python3", script]
    if kind == "loss":
        return ["ckptd", "actor"], ["env", f"CKPT_BUILD={PROGRAMS}", "CKPT_PAIRS=84", "python3", TREE / "tests" / kind / f"{noun}.py"]
    program = f"{kind}_{noun.removeprefix('test_')}"
    return [program], [PROGRAMS / program] + [word for p in pattern for word in ("--filter", p, "--ascii")]


def try_test(test):
    """None: passed; else how it failed."""
    targets, command = command_of(test)
    must("cmake", "--build", TREE / "build" / "asan", "-j", os.cpu_count(), "--target", *targets)
    prefix = ["setarch", "-R"] if shutil.which("setarch") else []
    env = dict(os.environ, ASAN_OPTIONS="detect_stack_use_after_return=0", LSAN_OPTIONS="exitcode=0")
    env.pop("CKPT_NIGHTLY", None)
    code, output = run(*prefix, *command, env=env)
    if code == 0:
        return None
    if code is None:
        return f"not done within {SECONDS} s"
    lines = [line for line in output.splitlines() if re.search(r"Assertion|seed \d+ event|ERROR: |\[FAIL\]|CRASH|# Failure|FAIL |^# seed", line)]
    return (lines or output.splitlines() or ["?"])[0].strip()[:200]


def catch(patch):
    apply(patch)
    try:
        return try_test(patch.test)
    finally:
        apply(patch, "-R")


def main():
    patches = [Patch(path) for path in sorted(ROOT.glob("tests/planted/*.patch"))]
    if sys.argv[1:]:
        patches = [patch for patch in patches if any(word in patch.path.name for word in sys.argv[1:])]
    elif not os.environ.get("CKPT_NIGHTLY"):
        print("a copy of the tree is built for each planted bug: nightly")
        return 77
    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    if not (TREE / "build" / "asan" / "build.ninja").exists():
        must("cmake", "--preset", "asan")
    failed = n = 0
    for test in sorted({patch.test for patch in patches}):
        n, why = n + 1, try_test(test)
        failed += why is not None
        print(f"{'not ok' if why else 'ok'} {n} - without a planted bug: {test}{f' fails: {why}' if why else ''}", flush=True)
    for patch in patches:
        n, how = n + 1, catch(patch)
        failed += how is None
        print(f"# {how}")
        print(f"{'ok' if how else 'not ok'} {n} - {patch.path.stem}: {patch.title}: {'caught' if how else 'NOT caught'} by {patch.test}",
              flush=True)
    print(f"1..{n}")
    return 1 if failed else 0


sys.exit(main())
