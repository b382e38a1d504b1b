"""Sources as clang-format 14 leaves them (scripts/fmt). Other versions disagree in details, hence skip."""

import re
import subprocess

import tidy

VERSION = "14"


def version():
    try:
        return re.search(r"version (\d+)", tidy.output_of("clang-format", "--version")).group(1)
    except OSError:
        return "none"


def check(root):
    files = tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp")
    style = f"--style=file:{tidy.ROOT}/.clang-format"
    done = subprocess.run(["clang-format", style, "--dry-run", "-Werror", *map(str, files)], capture_output=True, text=True)
    bad = sorted(set(re.findall(r"^(/\S+?):\d+:\d+: error", done.stderr, re.M)))
    if done.returncode and not bad:
        return [done.stderr]
    return [f"{path.removeprefix(str(root) + '/')}: scripts/fmt would change it" for path in bad]


PLANTED = {
    "cli/bad.c": "int main(void)\n{\n  return 0;\n}\n",
    "cli/good.c": "int main(void)\n{\n\treturn 0;\n}\n",
}

if version() != VERSION:
    tidy.skip(f"needs clang-format {VERSION}, found {version()}")
tidy.report([
    ("a planted bad indent is found", tidy.finds(check, PLANTED, ["cli/bad.c"])),
    ("every source is formatted", check(tidy.ROOT)),
])
