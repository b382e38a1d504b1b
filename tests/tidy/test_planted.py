"""Every planted bug (tests/planted) still applies to the sources, says what it is and which test must catch it, which is there, and has its row in
the page. Whether that test does is what tests/planted/test_planted.py tries at night."""

import fnmatch
import re
import subprocess

import tidy

PATCH = "Planted: {}\nCaught-by: {}\n\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-{}\n+two\n"
PAGE = "docs/explanation/reliability.md"
LEAST = 24


def is_there(root, caught_by):
    """Whether such a test exists: a program or script by its name, cases of a unit program by their pattern."""
    suite, name, *pattern = caught_by.split()
    if suite != "unit":
        return any(list((root / "tests" / suite).rglob(f"{name}{ending}")) for ending in (".c", ".py"))
    cases = (case for path in (root / "tests/unit" / name).rglob("*.c")
             for case in re.findall(r"^Test\((\w+), (\w+)", path.read_text(), re.M))
    return any(fnmatch.fnmatch("/".join(case), pattern[0]) for case in cases)


def unlisted(root):
    """Patches without a row of the page, rows without a patch, and a number of bugs that is another."""
    text = (root / PAGE).read_text()
    patches = {path.name.split("-")[0].removesuffix(".patch") for path in root.glob("tests/planted/*.patch")}
    rows, said = set(re.findall(r"^\| `(\d+)` ", text, re.M)), re.search(r"^Each of the (\d+) bugs", text, re.M)
    problems = [f"{PAGE}: bug {name} is {'not listed' if name in patches else 'listed, and nowhere'}" for name in sorted(patches ^ rows)]
    if not said or int(said[1]) != len(patches):
        problems.append(f"{PAGE}: of {said[1] if said else 'no'} bugs, and there are {len(patches)}")
    return problems


def check(root):
    problems = unlisted(root)
    for path in sorted(root.glob("tests/planted/*.patch")):
        name, text = path.relative_to(root), path.read_text()
        head = re.match(r"Planted: \S.*\nCaught-by: ((?:sim|crash|loss|integration) test_\w+|unit \w+ \S+)\n\n--- a/", text)
        if not head:
            problems.append(f"{name}: the head does not say what is planted and what must catch it")
        elif not is_there(root, head.group(1)):
            problems.append(f"{name}: there is no test {head.group(1)}")
        done = subprocess.run(["patch", "-p1", "--dry-run", "--force", "--fuzz=0", "-i", str(path)], cwd=root, capture_output=True, text=True)
        if done.returncode:
            problems.append(f"{name}: does not apply: {done.stdout.splitlines()[-1] if done.stdout else done.stderr}")
    return problems


PLANTED = {
    "x.c": "one\n", "tests/sim/test_save.c": "", "tests/unit/ckptd/save/test_x.c": "Test(saves, newest)\n{\n}\n",
    "tests/planted/1.patch": PATCH.format("good", "sim test_save", "one"),
    "tests/planted/2.patch": PATCH.format("late", "sim test_save", "three"), "tests/planted/3.patch": PATCH.format("nameless", "", "one"),
    "tests/planted/4.patch": PATCH.format("good", "unit ckptd save*/*", "one"),
    "tests/planted/5.patch": PATCH.format("renamed", "unit ckptd site*/*", "one"),
    "tests/planted/6.patch": PATCH.format("gone", "crash test_gone", "one"),
    PAGE: "Each of the 5 bugs\n\n| `1` | a |\n| `2` | b |\n| `3` | c |\n| `4` | d |\n| `5` | e |\n| `7` | g |\n",
}

count = len(list(tidy.ROOT.glob("tests/planted/*.patch")))
tidy.report([
    ("a planted patch that does not apply, or is not listed, is found", tidy.finds(check, PLANTED, ["bug 6 is not listed", "bug 7 is listed, and nowhere", "of 5 bugs, and there are 6", "2.patch: does not apply", "3.patch: the head", "5.patch: there is no", "6.patch: there is no"])),
    (f"{LEAST} bugs are planted at least, and all apply and are listed", check(tidy.ROOT) + ([f"only {count}"] if count < LEAST else [])),
])
