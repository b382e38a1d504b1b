"""Calls that this code base does without: unbounded copies, hidden shells, hidden state, waits without a deadline, and
assertions with side effects."""

import re

import tidy

BANNED = {
    "strcpy": "copies without a bound",
    "strcat": "copies without a bound",
    "stpcpy": "copies without a bound",
    "strncpy": "may leave out the NUL",
    "sprintf": "writes without a bound",
    "vsprintf": "writes without a bound",
    "gets": "reads without a bound",
    "strtok": "keeps hidden state",
    "atoi": "cannot report an error",
    "atol": "cannot report an error",
    "atoll": "cannot report an error",
    "atof": "cannot report an error",
    "system": "runs a shell",
    "popen": "runs a shell",
    "alloca": "overruns the stack",
    "tmpnam": "races",
    "tempnam": "races",
    "mktemp": "races",
    "localtime": "is not thread-safe: localtime_r",
    "gmtime": "is not thread-safe: gmtime_r",
    "rand": "has hidden state",
    "srand": "has hidden state",
}
# Waits that nobody can wake.
BANNED_OUTSIDE_TESTS = {"sleep": "waits without a deadline", "usleep": "waits without a deadline"}

# Who reads the environment meanwhile, be it for the time zone of a line in the log, may crash.
ENVIRONMENT = {"setenv", "unsetenv", "putenv", "clearenv"}
WITH_ONE_THREAD = {
    "ckptd/cluster/net/rail.c": "net_environment(), first thing in main.c",
    "ckptd/system/spawn.c": "between fork and exec, of a process without threads",
    "trainer/cuda/platform_cuda.c": "before there is a session",
}

SIDE_EFFECT = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")


def assertion_argument(code, start):
    depth = 0
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return code[start:at]
    return ""


def check_file(name, code):
    banned = dict(BANNED)
    if not name.startswith("tests/"):
        banned.update(BANNED_OUTSIDE_TESTS)
    for found in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code):
        word, line = found.group(1), code.count("\n", 0, found.start()) + 1
        if word in banned:
            yield f"{name}:{line}: {word}() {banned[word]}"
        if word in ENVIRONMENT and name not in WITH_ONE_THREAD and not name.startswith("tests/"):
            yield f"{name}:{line}: {word}() while others may read the environment"
        if word == "assert" and SIDE_EFFECT.search(assertion_argument(code, found.end() - 1)):
            yield f"{name}:{line}: assert() with a side effect"


def check(root):
    problems = []
    for path in tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp"):
        problems += check_file(str(path.relative_to(root)), tidy.code_of(path))
    return problems


PLANTED = {
    "cli/bad.c": 'strcpy(a, b);\nx = atoi (s); /* system(x) */\n// popen(x)\nputs("gets(");\nassert(n++ < 3);\n'
                 'assert(a == b && c <= d);\nassert(f(a = 1));\nsleep(1);\nmy_sleep(1);\nops->system(x);\nclock_sleep (2);\nsetenv(a, b, 1);\n',
    "tests/good.c": "usleep(10);\nsetenv(a, b, 1);\n",
    "tests/bad.h": "snprintf(a, 2, b);\nsprintf(a, b);\n",
}
EXPECTED = [
    "cli/bad.c:1: strcpy", "cli/bad.c:2: atoi", "cli/bad.c:5: assert", "cli/bad.c:7: assert", "cli/bad.c:8: sleep",
    "cli/bad.c:12: setenv",
    "tests/bad.h:2: sprintf",
]

tidy.report([
    ("a planted call is found", tidy.finds(check, PLANTED, EXPECTED)),
    ("no banned call", check(tidy.ROOT)),
])
