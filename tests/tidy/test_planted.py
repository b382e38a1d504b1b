"""Every planted bug (tests/planted) still applies to the sources, and says what it is and which test must catch it. Whether that test
does is what tests/planted/test_planted.py tries at night."""

import re
import subprocess

import tidy

PATCH = "Planted: {}\nCaught-by: {}\n\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-{}\n+two\n"
LEAST = 24


def check(root):
    problems = []
    for path in sorted(root.glob("tests/planted/*.patch")):
        name, text = path.relative_to(root), path.read_text()
        if not re.match(r"Planted: \S.*\nCaught-by: ((sim|crash|loss) test_\w+|unit \w+ \S+)\n\n--- a/", text):
            problems.append(f"{name}: the head does not say what is planted and what must catch it")
        done = subprocess.run(["patch", "-p1", "--dry-run", "--force", "--fuzz=0", "-i", str(path)], cwd=root, capture_output=True, text=True)
        if done.returncode:
            problems.append(f"{name}: does not apply: {done.stdout.splitlines()[-1] if done.stdout else done.stderr}")
    return problems


PLANTED = {
    "x.c": "one\n", "tests/planted/1.patch": PATCH.format("good", "sim test_save", "one"),
    "tests/planted/2.patch": PATCH.format("late", "sim test_save", "three"), "tests/planted/3.patch": PATCH.format("nameless", "", "one"),
}

count = len(list(tidy.ROOT.glob("tests/planted/*.patch")))
tidy.report([
    ("a planted patch that does not apply is found", tidy.finds(check, PLANTED, ["2.patch: does not apply", "3.patch: the head"])),
    (f"{LEAST} bugs are planted at least, and all apply", check(tidy.ROOT) + ([f"only {count}"] if count < LEAST else [])),
])
