"""No source file above 500 lines: that is where a reader gets lost."""

import tidy

LINES_MAX = 500


def check(root):
    problems = []
    for path in tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp"):
        lines = len(path.read_text(errors="replace").splitlines())
        if lines > LINES_MAX:
            problems.append(f"{path.relative_to(root)}: {lines} lines, {LINES_MAX} at most")
    return problems


PLANTED = {"cli/long.c": "\n" * 501, "cli/full.c": "\n" * 500}

tidy.report([
    ("a planted long file is found", tidy.finds(check, PLANTED, ["cli/long.c: 501"])),
    ("no file is too long", check(tidy.ROOT)),
])
