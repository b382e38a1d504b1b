"""tests/run.py itself: what it counts, and that nothing which went wrong passes. Each case is a small tree with tests."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tidy

CLOSING = re.compile(r"^\d+ passed, \d+ failed, \d+ skipped$", re.M)


def script(text):
    return f"#!/bin/sh\n{text}\n"


def criterion(tap, status=0):
    """A unit program that writes this where Criterion would write its TAP file."""
    return script(f"""for word; do case $word in --tap=*) cat >"${{word#--tap=}}" <<'END'\n{tap}\nEND\n;; esac; done
exit {status}""")


def run(files, *wanted, **more):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        tidy.plant(root, files)
        for path in root.rglob("*"):
            path.chmod(0o755)
        env = {name: value for name, value in os.environ.items() if name not in ("CKPT_NIGHTLY", "CKPT_TORCH")} | more
        return subprocess.run([sys.executable, tidy.ROOT / "tests" / "run.py", "--root", root, *wanted], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)


def case(name, files, closing, *words, wanted=("crash",), **env):
    done = run(files, *wanted, **env)
    passed, failed, skipped = closing
    line = f"{passed} passed, {failed} failed, {skipped} skipped"
    problems = []
    if done.stdout.splitlines()[-1:] != [line] or len(CLOSING.findall(done.stdout)) != 1:
        problems.append(f"expected one closing line '{line}'")
    if (done.returncode != 0) != (failed > 0):
        problems.append(f"exit status {done.returncode}")
    problems += [f"not in the output: {word}" for word in words if word not in done.stdout]
    shown = [line for line in (done.stdout + done.stderr).splitlines()] if problems else []
    return name, problems + shown


def crash(text):
    return {"tests/crash/test_a.sh": script(text)}


def unit(program):
    return {"tests/unit/base/test_a.c": "", "build/asan/bin/unit_base": program}


UNIT = ("unit",)
TORCH = {"build/venv-torch/made-from": "torch"}
# A place that both tests of a tree know.
MEET = 'HOME=$(dirname "$0")'
ALONE = f'{MEET}; mkdir $HOME/busy || exit 1; sleep 0.3; rmdir $HOME/busy'
OK, BAD, SKIP = "ok - a::b  (0.00s)", "not ok - a::c  (0.00s)\n  ---\n  - it broke", "ok - a::d  # SKIP no disk"
REPORT = 'path=${ASAN_OPTIONS#log_path=}; echo "LeakSanitizer: 10 bytes" >"${path%%:*}.1"'


def leaking(*stacks, lost=False):
    """A unit program that passes, with a report of leaks that were allocated by these frames, the innermost first. lost: its file is empty, and the
    report is in the output."""
    text = "".join(f"Direct leak of 9 byte(s) in 1 object(s) allocated from:\n" + "".join(f"    #{n} 0x7f {frame}\n" for n, frame in enumerate(stack)) + "\n"
                   for stack in stacks)
    return unit(script(f"""path=${{ASAN_OPTIONS#log_path=}}; file="${{path%%:*}}.1"; {'>"$file"; cat' if lost else 'cat >"$file"'} <<'END'
==7==ERROR: LeakSanitizer: detected memory leaks\n\n{text}SUMMARY: AddressSanitizer: 9 byte(s) leaked in 1 allocation(s).\nEND""")
                + criterion(f"1..1\n{OK}"))


INTERCEPTOR, CRITERION = "in __interceptor_calloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:77", "(/lib/x86_64-linux-gnu/libcriterion.so.3+0xda4e)"
TEST = "in a_b_impl ../../tests/unit/base/test_a.c:4"
FAILED = "not ok - a::e  (0.00s)\n  ---\n  assertions: 1\n  failures:\n  - test_a.c:11: |+\n      Assertion failed: one is 1\n  ..."
DEAD = "\n".join(f"not ok - a::{name}  (0.00s)\n  ---\n  assertions: 0\n  failures:\n  ..." for name in "fgh")
# What a sanitizer writes when a::f and a::g die; and when some thread does.
REPORTING = script("""path=${ASAN_OPTIONS#log_path=}
printf '=====\\n==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x6020\\nWRITE of size 1\\n    #0 0x55 in a_f_impl a.c:4\\n' >"${path%%:*}.7"
printf 'a.c:5:6: runtime error: signed integer overflow\\n    #0 0x55 in a_g_impl a.c:5\\n'""")
NOBODYS = script("""path=${ASAN_OPTIONS#log_path=}
printf '==7==ERROR: AddressSanitizer: SEGV on unknown address 0x0\\n    #0 0x55 in worker a.c:4\\n' >"${path%%:*}.7\"""")

# The kernel calls a program by the name that it was started by.
FAULT = {"build/release/bin/ckpt": ""} | crash(f"""{MEET}/../../build/release/bin; ln -s "$(command -v python3)" $HOME/planted-fault
$HOME/planted-fault -c 'import ctypes; ctypes.string_at(0)'; exit 0""")


def kernel_log():
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY))
        return pathlib.Path("/proc/sys/debug/exception-trace").read_text().strip() != "0"
    except OSError:
        return False


tidy.report([
    case("exit 0 passes", crash("exit 0"), (1, 0, 0)),
    case("exit 1 fails and shows its output", crash("echo details; exit 1"), (0, 1, 0), "details", "exit status 1"),
    case("death by a signal fails", crash("kill -9 $$"), (0, 1, 0), "killed by signal 9 (Killed)"),
    case("exit 77 skips with its reason", crash("echo noise; echo no disk; exit 77"), (0, 0, 1), "test_a: no disk"),
    case("a skip without a reason fails", crash("exit 77"), (0, 1, 0), "without a reason"),
    case("each TAP line is a case", crash("echo 'ok 1 - a'; echo 'not ok 2 - b'; echo 'ok 3 - c # SKIP why'; exit 1"),
         (1, 1, 1), "FAIL b", "skip c: why"),
    case("a TAP line that fails says why, once more at the end", crash("echo '# seed 4'; echo 'ok 1 - a'; echo '# it broke'; echo 'not ok 2 - b'; exit 1"),
         (1, 1, 0), "FAIL b: it broke\n", "FAIL crash/test_a b: it broke\ncrash: 1 of 2 passed\n"),
    case("a plan that was not kept fails", crash("echo 1..3; echo 'ok 1 - a'"), (1, 1, 0), "3 cases planned"),
    case("TAP that dies at the end fails", crash("echo 'ok 1 - a'; exit 3"), (1, 1, 0), "exit status 3"),
    case("what a test waits is not what it uses of a processor",
         crash("sleep 1; exec python3 -c 'import time\nwhile time.process_time() < 1.2: pass'"), (1, 0, 0), "processor 1."),
    case("what takes most of the processors is named", {"tests/crash/test_a.sh": script("exit 0"),
                                                        "tests/crash/test_b.py": "import time\nwhile time.process_time() < 0.7: pass\n"},
         (2, 0, 0), "\nprocessor time: crash/test_b 1 s, crash/test_a 0 s\n"),
    case("those that need long begin first", {"tests/crash/test_a.sh": script(f'{MEET}; test -e $HOME/b'),
                                              "tests/crash/test_b.sh": script(f"# timeout: 700\n{MEET}; touch $HOME/b")}, (2, 0, 0),
         wanted=("--lanes=1", "crash")),
    case("a late test is killed", crash("# timeout: 1\nsleep 30"), (0, 1, 0), "past its deadline"),
    case("a process left behind is a failure", crash("sleep 30 &"), (1, 1, 0), "left processes behind: sleep"),
    case("a sanitizer report is a failure", crash(REPORT), (1, 1, 0), "LeakSanitizer: 10 bytes"),
    case("a program of ours that died of a fault is a failure", FAULT, (1, 1 if kernel_log() else 0, 0),
         *(["planted-fault["] if kernel_log() else [])),
    case("a leak counts beside a failure", crash(f"{REPORT}; exit 1"), (0, 2, 0)),
    case("the folder for temporary files is private and goes", crash('test -d "$TMPDIR" && touch "$TMPDIR/x"'), (1, 0, 0)),
    case("a suite without tests fails", {}, (0, 1, 0), "no such test"),
    case("a folder may have areas, which no name has", {"tests/crash/area/test_a.sh": script("exit 0"), "tests/crash/test_b.sh": script("exit 1")},
         (1, 0, 0), "ok   crash/test_a ", wanted=("crash/a",)),
    case("a name picks one test", {**crash("exit 0"), "tests/crash/test_b.py": "raise SystemExit(1)"}, (1, 0, 0),
         wanted=("crash/a",)),
    case("Criterion's tests are cases", unit(criterion(f"1..3\n{OK}\n{BAD}\n{SKIP}", 1)), (1, 1, 1), "it broke", "a::d: no disk",
         wanted=UNIT),
    case("a Criterion test that fails says what it expected", unit(criterion(f"1..1\n{FAILED}", 1)), (0, 1, 0),
         "FAIL a::e: test_a.c:11: Assertion failed: one is 1\n", wanted=UNIT),
    case("a Criterion test that dies says what its report says", unit(REPORTING + criterion(f"1..3\n{DEAD}", 1)), (0, 3, 0),
         "FAIL a::f: AddressSanitizer: heap-use-after-free on address 0x6020\n",
         "FAIL a::g: a.c:5:6: runtime error: signed integer overflow\n",
         "FAIL a::h: it ended in the middle, and nothing says why\n", wanted=UNIT),
    case("a report of nobody's may be of a Criterion test that died", unit(NOBODYS + criterion(f"1..3\n{DEAD}", 1)), (0, 3, 0),
         "FAIL a::h: perhaps AddressSanitizer: SEGV on unknown address 0x0\n", wanted=UNIT),
    case("a Criterion program that ran nothing fails", unit(criterion("1..0")), (0, 1, 0), "no test ran", wanted=UNIT),
    case("a Criterion program that broke off fails", unit(criterion(f"1..2\n{OK}")), (1, 1, 0), "2 cases planned", wanted=UNIT),
    case("a Criterion program that died fails", unit(script("kill -11 $$")), (0, 1, 0), "no test ran", wanted=UNIT),
    case("a bad exit without a bad case fails", unit(criterion(f"1..1\n{OK}", 23)), (1, 1, 0), "exit status 23", wanted=UNIT),
    case("a leak of a Criterion test is a failure", leaking([INTERCEPTOR, TEST, CRITERION]), (1, 1, 0), "1 reports of the sanitizer", wanted=UNIT),
    case("one of Criterion's own is none", leaking([INTERCEPTOR, CRITERION], [INTERCEPTOR, CRITERION, TEST]), (1, 0, 0), wanted=UNIT),
    case("but beside one of a test it is", leaking([INTERCEPTOR, CRITERION], [INTERCEPTOR, "in SSL_new (/lib/libssl.so.3+0x1)", TEST, CRITERION]), (1, 1, 0),
         wanted=UNIT),
    case("one of Criterion's own is none in the output either", leaking([INTERCEPTOR, CRITERION], lost=True), (1, 0, 0), wanted=UNIT),
    case("one of a test is a failure there, too", leaking([INTERCEPTOR, TEST, CRITERION], lost=True), (1, 1, 0), "1 reports of the sanitizer", wanted=UNIT),
    case("a file that a unit program leaves behind is a failure", unit(script('touch "$TMPDIR/left"') + criterion(f"1..1\n{OK}")), (1, 1, 0),
         "FAIL files: left files behind: left", wanted=UNIT),
    case("where a case failed it may", unit(script('touch "$TMPDIR/left"') + criterion(f"1..2\n{OK}\n{BAD}", 1)), (1, 1, 0), wanted=UNIT),
    case("lanes run side by side, and each hears of its own strays",
         {"tests/crash/test_a.sh": script(f"{MEET}; touch $HOME/a; until test -e $HOME/b; do sleep 0.01; done; sleep 30 &"),
          "tests/crash/test_b.sh": script(f"{MEET}; touch $HOME/b; until test -e $HOME/a; do sleep 0.01; done")},
         (2, 1, 0), "left processes behind: sleep", wanted=("--lanes=2", "crash")),
    case("who wants to be alone is", {"tests/crash/test_a.sh": script("# alone: a test\n" + ALONE),
                                      "tests/crash/test_b.sh": script(ALONE)}, (2, 0, 0), wanted=("--lanes=2", "crash")),
    case("a Python with torch that is there is used", TORCH | crash('test -n "$CKPT_TORCH" && test -z "$CKPT_TORCH_ALL"'), (1, 0, 0)),
    case("all tests with torch run if somebody asks", TORCH | crash('test "${CKPT_TORCH##*/}" = python && test $CKPT_TORCH_ALL = 1'), (1, 0, 0), CKPT_TORCH="1"),
    case("a Python with torch that could not be made is none", crash('test -z "$CKPT_TORCH"'), (1, 0, 0), CKPT_TORCH="1"),
    case("a program that was not built fails", {"tests/unit/base/test_a.c": ""}, (0, 1, 0), "cannot start", wanted=UNIT),
])
