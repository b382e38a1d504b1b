"""No source file above 500 lines: that is where a reader gets lost. The public header is the manual of its calls as well, with a line for each
error: there the lines of code count."""

import re

import tidy

LINES_MAX, MANUAL = 500, "libckpt/ckpt.h"


def check(root):
    problems = []
    for path in tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp"):
        name, text = str(path.relative_to(root)), path.read_text(errors="replace")
        lines = len((re.sub(r"^\s*/\*.*?\*/\n", "", text, flags=re.S | re.M) if name == MANUAL else text).splitlines())
        if lines > LINES_MAX:
            problems.append(f"{name}: {lines} lines, {LINES_MAX} at most")
    return problems


COMMENT = "/*" + "\n" * 500 + "*/\n"
PLANTED = {"cli/long.c": "\n" * 501, "cli/full.c": "\n" * 500, "cli/talks.c": COMMENT, MANUAL: COMMENT + "int f(void);\n"}

tidy.report([
    ("a planted long file is found", tidy.finds(check, PLANTED, ["cli/long.c: 501", "cli/talks.c: 501"])),
    ("a public header with 501 lines of code is found", tidy.finds(check, {MANUAL: COMMENT + "int f(void);\n" * 501}, ["ckpt.h: 501"])),
    ("no file is too long", check(tidy.ROOT)),
])
