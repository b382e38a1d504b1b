"""Runs the tests and counts their cases; scripts/test calls it. How to write a test of each kind: docs/development.md.

Three protocols, by what the test prints:
  Criterion   a unit program; each of its tests is a case, read from the TAP file that Criterion writes
  TAP         "ok N - name", "not ok N - name", "ok N - name # SKIP reason" on stdout; each line is a case
  exit code   anything else is one case: 0 passed, 77 skipped (the last line is the reason), else failed

Tests run side by side, in two lanes for each core, four at most, since they wait for a good part of their time, and in more while the
processors wait (tests/lanes.py). Those that say that they need long ("timeout: SECONDS" near their top) begin first, so that no lane is left with one at the end; one that says "alone: WHY" runs after
the others, by itself.
A sanitizer report, a fault in the kernel's log, a process or (by a unit program) a file left behind, a skip without a reason and a test that ran
nothing are failures."""

import argparse
import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lanes import Lanes

SKIP_CODE = 77
NOT_CHOSEN = "test was skipped"  # by Criterion
DEFAULT_TIMEOUT = 600
UNIT_TIMEOUT = 1200
NIGHTLY_FACTOR = 15
KILL_LIMIT = 10
PR_SET_CHILD_SUBREAPER = 36

WHY_LINES, WHY_MAX = 5, 600  # of what a case says of its failure, in its line
DEAREST = 12  # tests that are named at the end with the processor time that they took

# Suite: the preset whose programs it runs, and where its tests are. In the order in which they begin, among those that need as long.
SUITES = {
    "tidy": ("release", "tests/tidy"),
    "fuzz": ("fuzz", "tests/fuzz"),
    "unit": ("asan", "tests/unit"),
    "sim": ("asan", "tests/sim"),
    "spin": ("release", "tests/spin"),
    "crash": ("asan", "tests/crash"),
    "loss": ("release", "tests/loss"),
    "integration": ("release", "tests/integration"),
    "stress": ("tsan", "tests/stress"),
    "planted": ("asan", "tests/planted"),
}


# Unit programs that run a second time with another environment: (room, name, the suites of Criterion meant, environment).
VARIANTS = [
    ("store", "store-on-threads", "disk*/*", {"CKPT_DISK_ENGINE": "threads"}),
    ("ckptd", "ckptd-on-threads", "@(commit|writer)*/*", {"CKPT_DISK_ENGINE": "threads"}),
]


# Simulations of many seeds: all of them run as installed, in a third of the time, and so many of them with sanitizers. At night all do.
SANITIZED_SEEDS = {"cluster": 150, "directory": 100, "hand_over": 3, "save": 20}


class Test:
    def __init__(self, suite, name, command, source=None, env=None, preset=None):
        self.suite, self.name, self.command, self.env = suite, name, command, env or {}
        self.preset = preset or SUITES[suite][0]
        self.timeout, self.alone = demands(source) if source else (UNIT_TIMEOUT, False)


class Case:
    """status: ok, FAIL or skip. why: one line; the reason of a skip or a failure."""

    def __init__(self, name, status, why=""):
        self.name, self.status, self.why = name, status, why


def demands(source):
    """What a test says near its top: "timeout: 900" (seconds) if it needs longer, "alone: WHY". Returns both."""
    head = source.read_text(errors="replace")[:4000]
    limit = re.search(r"^\W*timeout: (\d+)\b", head, re.M)
    return int(limit.group(1)) if limit else DEFAULT_TIMEOUT, bool(re.search(r"^\W*alone: \w", head, re.M))


def find_tests(root, suite):
    preset, folder = SUITES[suite]
    programs, here = root / "build" / preset / "bin", root / folder
    if suite == "unit":
        for room in sorted(p for p in here.glob("*") if any(p.rglob("*.c"))):
            yield Test(suite, room.name, [programs / f"unit_{room.name}"])
        for room, name, suites, env in (v for v in VARIANTS if (here / v[0]).is_dir()):
            yield Test(suite, name, [programs / f"unit_{room}", "--filter", suites], env=env)
    elif suite in ("sim", "stress"):
        for source in sorted(here.glob("test_*.c")):
            noun = source.stem.removeprefix("test_")
            seeds = SANITIZED_SEEDS.get(noun) if suite == "sim" and not os.environ.get("CKPT_NIGHTLY") else None
            if seeds:
                yield Test(suite, source.stem, [root / "build/release/bin" / f"sim_{noun}"], source, preset="release")
            more = ["1", str(seeds)] if seeds else []
            yield Test(suite, source.stem + ("-sanitized" if seeds else ""), [programs / f"{suite}_{noun}", *more], source)
    else:
        for script in sorted(p for pattern in ("test[_-]*", "*/test[_-]*") for p in here.glob(pattern) if p.is_file()):
            interpreter = {".py": ["python3"], ".sh": ["bash"]}.get(script.suffix, [])
            yield Test(suite, script.stem, interpreter + [script], script)


def environment(root, test, tmp, reports):
    programs = root / "build" / test.preset / "bin"
    env = dict(os.environ, TMPDIR=str(tmp), CKPT_BUILD=str(programs), PATH=f"{programs}:{os.environ['PATH']}")
    env["PYTHONPATH"] = f"{root}/tests/lib"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["CKPT_DEVICE"] = "host"  # of ckpt-train, also where there are GPUs
    env["CKPT_CONFIG"] = "/dev/null"  # not what the machine or its user has decided
    why_not = root / "build" / "venv" / "why-not"
    env.pop("CKPT_PYTHON", None)
    if why_not.exists():
        env["CKPT_PYTHON_WHY"] = why_not.read_text().strip()
    else:
        env["CKPT_PYTHON"] = str(root / "build" / "venv" / "bin" / "python")
    torch = root / "build" / "venv-torch"
    if env.get("CKPT_TORCH") or env.get("CKPT_NIGHTLY"):
        env["CKPT_TORCH_ALL"] = "1"
    if env.get("CKPT_TORCH") in (None, "", "1"):
        env["CKPT_TORCH"] = str(torch / "bin" / "python") if (torch / "made-from").exists() else ""
    frameworks = root / "build" / "venv-frameworks"
    if (frameworks / "made-from").exists():
        env.setdefault("CKPT_FRAMEWORKS", str(frameworks / "bin" / "python"))
    if env.get("CKPT_NIGHTLY"):
        env["CKPT_UNIT_TIMEOUT"] = "900"
    log = f"log_path={reports}/report"
    if test.suite == "unit":
        env["LSAN_OPTIONS"] = "exitcode=0"  # the report counts, unless it is Criterion's: see foreign()
    # Not use after return: GCC 12 does not keep the alignment of variables in the frames that detect it (GCC bug 110027), and
    # cache lines are aligned to 64 bytes here.
    env["ASAN_OPTIONS"] = f"{log}:detect_leaks=1:detect_stack_use_after_return=0"
    env["UBSAN_OPTIONS"] = f"{log}:print_stacktrace=1"
    env["TSAN_OPTIONS"] = f"{log}:second_deadlock_stack=1:suppressions={root / 'tests/tsan.supp'}"
    return env


def fixed_addresses():
    """Sanitizers of GCC 12 and 13 do not start where the kernel randomises addresses by more than 28 bits."""
    try:
        bits = int(pathlib.Path("/proc/sys/vm/mmap_rnd_bits").read_text())
    except OSError:
        return []
    prefix = ["setarch", "-R"]
    if bits <= 28 or not shutil.which("setarch"):
        return []
    return prefix if subprocess.run(prefix + ["true"], capture_output=True).returncode == 0 else []


def children():
    """Our child processes, those included that lost their parent: we are the subreaper."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        name, fields = stat[stat.find("(") + 1:stat.rfind(")")], stat[stat.rfind(")") + 2:].split()
        if int(fields[1]) == os.getpid():
            found.append((int(entry), name, fields[0]))
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_strays(grace):
    """Waits for what the test left running, then kills it. Returns the names of those killed."""
    killed, limit = {}, time.monotonic() + grace
    while True:
        reap()
        left = [(pid, name) for pid, name, state in children() if state != "Z"]
        if not left or time.monotonic() > limit + KILL_LIMIT:
            return sorted(killed.values())
        if time.monotonic() > limit:
            for pid, name in left:
                killed[pid] = name
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def execute(test, command, env, tmp):
    """Returns (exit status or None after the deadline, output, names of strays)."""
    log = tmp / "output"
    limit = test.timeout * (NIGHTLY_FACTOR if env.get("CKPT_NIGHTLY") else 1)
    with open(log, "wb") as out:
        try:
            child = subprocess.Popen([str(word) for word in command], env=env, cwd=tmp / "tmp", start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        except OSError as error:
            return 127, f"cannot start: {error}\n", []
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    strays = end_strays(2 if status is not None else 0)
    return status, log.read_text(errors="replace"), strays if status is not None else []


def read_criterion(path):
    """Cases of Criterion's TAP file, and the number that it planned."""
    text = path.read_text(errors="replace") if path.exists() else ""
    plan = sum(map(int, re.findall(r"^1\.\.(\d+)$", text, re.M)))
    cases = []
    for bad, name, words, more in re.findall(r"^(not )?ok - (\S+)[ \t]*(.*)((?:\n .*)*)", text, re.M):
        skip = re.match(r"# SKIP\s*(.*)", words)
        failure = re.search(r"^  - (.*?)(?: \|\+\n\s*(.*))?$", more, re.M)
        why = skip.group(1) if skip else re.sub(r"^\(\d.*\)$", "", words)
        if bad and failure and not why:
            why = " ".join(filter(None, failure.groups()))
        cases.append(Case(name, "FAIL" if bad else "skip" if skip else "ok", why))
    return cases, plan


def foreign(report):
    """Criterion 2.4 leaks small objects of its own, at random. Its frames also stand in the stack of every leak of a test: whose leak it is says
    the innermost frame that is Criterion's or ours."""
    if "LeakSanitizer" not in report or re.search(r"ERROR: AddressSanitizer|runtime error", report):
        return False
    stacks = re.findall(r"^(?:Direct|Indirect) leak of .*\n((?: +#\d+ .*\n?)*)", report, re.M)
    stacks = [re.sub(r".*libsanitizer.*\n", "", stack) for stack in stacks]
    whose = [re.search(r"lib(?:criterion|nanomsg|git2)\.so|\.\./|/bin/unit_|/libckpt", stack) for stack in stacks]
    return bool(stacks) and all(found and found.group(0).endswith(".so") for found in whose)


def told(folder, output):
    """What sanitizers have said: in files; of leaks also in the output, which a process does that has lost its file. One that ended before it said
    anything leaves an empty file."""
    reports = [path.read_text(errors="replace") for path in sorted(folder.iterdir())]
    return [report for report in reports if report], re.findall(r"^==\d+==ERROR: LeakSanitizer.*?^SUMMARY: .*\n", output, re.M | re.S)


def left_behind(tmp):
    """What a unit program leaves in its folder for temporary files, where each of its cases has come to its end."""
    names = sorted(path.name for path in tmp.iterdir())
    return [Case("files", "FAIL", f"left files behind: {' '.join(names)}"[:WHY_MAX])] if names else []


def cause_of(report):
    """The line of a sanitizer's report that names the cause."""
    found = re.search(r"\w+: (\w+Sanitizer: .*)|^(.*: runtime error: .*)", report, re.M)
    return (found.group(1) or found.group(2)).strip() if found else report.strip().partition("\n")[0]


def explain(cases, reports, output):
    """Says of Criterion's tests that died without a word what a report says of them. It is of the test whose function stands in its stack."""
    reports = [report for report in reports if "LeakSanitizer" not in report] + re.findall(r"^.*: runtime error: .*\n(?:\s+#\d.*\n)*", output, re.M)
    functions = {case.name: case.name.replace("::", "_") + "_impl" for case in cases}
    nobodys = [report for report in reports if not any(name in report for name in functions.values())]
    for case in (case for case in cases if case.status == "FAIL" and case.name and not case.why):
        own = [report for report in reports if re.search(rf"\b{re.escape(functions[case.name])}\b", report)]
        if own:
            case.why = cause_of(own[0])
        else:
            case.why = f"perhaps {cause_of(nobodys[0])}" if nobodys else "it ended in the middle, and nothing says why"


def ended(status):
    return f"killed by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"exit status {status}"


def read_tap(output):
    """Cases, and the number that was planned. Why one failed is said by the comments right before it."""
    cases, plan, said = [], None, []
    for line in output.splitlines():
        if found := re.match(r"1\.\.(\d+)\s*(?:# SKIP\s*(.*))?$", line):
            plan = int(found.group(1))
            if plan == 0 and found.group(2) is not None:
                return [Case("all", "skip", found.group(2))], None
        elif found := re.match(r"(not )?ok \d+(?: - | )?([^#]*)(?:# SKIP\s*(.*))?$", line):
            status = "FAIL" if found.group(1) else "skip" if found.group(3) is not None else "ok"
            why = " | ".join(said[:WHY_LINES])[:WHY_MAX] if status == "FAIL" else found.group(3) or ""
            cases.append(Case(found.group(2).strip(), status, why))
        said = said + [line[1:].strip()] if line.startswith("#") else []
    return cases, plan


def judge(test, status, output, tap):
    """The cases of a test that ended by itself."""
    if test.suite == "unit":
        cases, plan = read_criterion(tap)
        # Those that the filter of a variant leaves out; a test that skips itself says why.
        chosen = [case for case in cases if case.why != NOT_CHOSEN]
        plan, cases = plan - len(cases) + len(chosen), chosen
        if not cases:
            return [Case("", "FAIL", f"no test ran ({ended(status)})")]
    else:
        cases, plan = read_tap(output)
        if not cases:
            lines = output.strip().splitlines()
            outcome = {0: "ok", SKIP_CODE: "skip"}.get(status, "FAIL")
            why = (lines[-1] if lines else "") if outcome == "skip" else ended(status)
            return [Case("", outcome, "" if outcome == "ok" else why)]
    if plan is not None and plan != len(cases):
        cases.append(Case("plan", "FAIL", f"{plan} cases planned, {len(cases)} reported"))
    if status and not any(case.status == "FAIL" for case in cases):
        cases.append(Case("exit", "FAIL", f"{ended(status)} although no case failed"))
    return cases


def run(root, test, prefix):
    """Returns (cases, all that is to be shown if one failed)."""
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-"))
    try:
        (tmp / "tmp").mkdir()
        (tmp / "reports").mkdir()
        env = environment(root, test, tmp / "tmp", tmp / "reports") | test.env
        options = ["--ascii", f"--tap={tmp}/tap"] if test.suite == "unit" else []
        status, output, strays = execute(test, prefix + test.command + options, env, tmp)
        if status is None:
            cases = [Case("", "FAIL", "ran past its deadline")]
        else:
            cases = judge(test, status, output, tmp / "tap")
        if strays:
            cases.append(Case("strays", "FAIL", f"left processes behind: {' '.join(strays)}"))
        for case in cases:
            if case.status == "skip" and not case.why:
                case.status, case.why = "FAIL", "skipped without a reason"
        reports, leaks = told(tmp / "reports", output)
        if test.suite == "unit":
            reports = [report for report in reports if not foreign(report)]
            leaks = [leak for leak in leaks if not foreign(leak)]
            explain(cases, reports, output)
            cases += left_behind(tmp / "tmp") if all(case.status == "ok" for case in cases) else []
        failed = any(case.status == "FAIL" for case in cases)
        # A report of a failed case is that failure's explanation; a leak, or a report that nothing noticed, is one more.
        leaking = sum("LeakSanitizer" in text for text in reports + leaks)
        if leaking or (reports and not failed):
            cases.append(Case("sanitizer", "FAIL", f"{leaking or len(reports)} reports of the sanitizer"))
        details = output + "".join(reports)
        if test.suite == "unit" and (tmp / "tap").exists():
            details += "".join(re.findall(r"^not ok.*\n(?: .*\n)*", (tmp / "tap").read_text(errors="replace"), re.M))
        return cases, details
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


def show(test, cases, details, seconds, busy):
    bad = [case for case in cases if case.status == "FAIL"]
    name = f"{test.suite}/{test.name}"
    count = f" {len(cases)} cases" if len(cases) > 1 else ""
    word = "FAIL" if bad else "skip" if all(case.status == "skip" for case in cases) else "ok"
    print(f"{word:4} {name}{count} ({seconds:.1f} s, processor {busy:.1f} s)")
    for case in cases:
        if case.status != "ok":
            print(f"     {case.status} {case.name or test.name}: {case.why}")
    if bad:
        print(f"---- output of {name}\n{details.rstrip()}\n---- end of {name}")
    sys.stdout.flush()


def show_taken(taken, seconds):
    """Of the processors, by test: where a run that is too long can be made shorter."""
    busy, cores = sum(taken.values()), len(os.sched_getaffinity(0))
    print("\nprocessor time: " + ", ".join(f"{name} {taken[name]:.0f} s" for name in sorted(taken, key=taken.get, reverse=True)[:DEAREST]))
    print(f"after {seconds:.0f} s, in which the {cores} processors were busy for {busy:.0f} s ({100 * busy / cores / max(seconds, 1e-3):.0f} %):")


def show_failures(failures):
    """Once more, at the end, where whoever sees the last lines of a long log alone finds them."""
    for name, case in failures:
        print(f"FAIL {name} {case.name}: {case.why}")


class KernelLog:
    """What the kernel says from now on; nothing where it may not be read."""

    def __init__(self):
        try:
            self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.file, 0, os.SEEK_END)
        except OSError:
            self.file = None

    def lines(self):
        while self.file is not None:
            try:
                record = os.read(self.file, 8192)
            except BrokenPipeError:
                continue  # the oldest were overwritten
            except OSError:
                return
            yield record.decode(errors="replace").partition(";")[2].partition("\n")[0]


def faults(root, log):
    """Our programs that died of a fault without a word: of a daemon without a sanitizer its test may only see that something came late."""
    names = {path.name[:15] for path in (root / "build/release/bin").glob("*")}
    for line in log.lines():
        found = re.match(r"(?:traps: )?(\S+)\[\d+\]:? (?:segfault|general protection|trap)", line)
        if found and found.group(1) in names:
            yield Case(found.group(1), "FAIL", line)


def begin_worker(shared):
    """Of what a test leaves behind its own worker hears, and no other."""
    global lanes
    lanes = shared
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def busy_seconds():
    """Of processors, by all that this lane started and that has been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_timed(root, test, prefix):
    with lanes.entered():
        begin, busy = time.monotonic(), busy_seconds()
        cases, details = run(root, test, prefix)
        return test, cases, details, time.monotonic() - begin, busy_seconds() - busy


def names_of(test):
    """By which a test is called for; the part of a simulation with sanitizers comes with it."""
    whole = test.name.removesuffix("-sanitized")
    return {test.name, test.name.removeprefix("test_"), whole, whole.removeprefix("test_")}


def wanted_tests(root, wanted):
    suite, _, name = wanted.partition("/")
    return [test for test in find_tests(root, suite) if not name or name in names_of(test)]


def run_all(root, tests, prefix, count):
    """Yields what run_timed returns, as it comes. Those that want the machine for themselves are last."""
    def submit(pool, test):
        return pool.submit(run_timed, root, test, prefix if test.preset != "release" else [])

    context = multiprocessing.get_context("fork")
    for alone in (False, True):
        chosen = sorted((test for test in tests if test.alone == alone), key=lambda test: -test.timeout)
        if not chosen:
            continue
        side = 1 if alone else count
        workers = 2 * side if side > 1 else 1  # of two that wait for the only lane, any may come first
        with concurrent.futures.ProcessPoolExecutor(workers, context, begin_worker, (Lanes(side, context),)) as pool:
            for done in concurrent.futures.as_completed([submit(pool, test) for test in chosen]):
                yield done.result()


def main():
    parser = argparse.ArgumentParser(description="Runs the tests.")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--lanes", type=int, default=min(4, 2 * len(os.sched_getaffinity(0))), help="tests that run side by side (%(default)s), where the processors are busy")
    parser.add_argument("wanted", nargs="*", metavar="SUITE[/NAME]", default=list(SUITES))
    args = parser.parse_args()
    root, started = args.root.resolve(), time.monotonic()
    tests, cases_of, taken, failures, log = [], {}, {}, [], KernelLog()
    for wanted in args.wanted:
        suite = wanted.partition("/")[0]
        if suite not in SUITES:
            parser.error(f"'{suite}' is not one of {', '.join(SUITES)}")
        found = wanted_tests(root, wanted)
        tests += found
        cases_of.setdefault(suite, [])
        if not found:
            cases_of[suite].append(Case("", "FAIL", "no test"))
            print(f"FAIL {wanted}: there is no such test")
    for test, cases, details, seconds, busy in run_all(root, tests, fixed_addresses(), args.lanes):
        show(test, cases, details, seconds, busy)
        taken[f"{test.suite}/{test.name}"] = busy
        cases_of[test.suite] += cases
        failures += [(f"{test.suite}/{test.name}", case) for case in cases if case.status == "FAIL"]
    if died := list(faults(root, log)):
        cases_of["kernel"] = died
        print("\n".join(f"FAIL kernel: {case.why}" for case in died))
    show_taken(taken, time.monotonic() - started)
    show_failures(failures)
    for suite, cases in cases_of.items():
        print(f"{suite}: {sum(case.status == 'ok' for case in cases)} of {len(cases)} passed")
    total = [case for cases in cases_of.values() for case in cases]
    count = {status: sum(case.status == status for case in total) for status in ("ok", "FAIL", "skip")}
    print(f"{count['ok']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
