"""No two static libraries that one program links define one global symbol, nor do two members of one library. A linker takes the first that it
meets and says nothing: half of a program may then call a function that it never meant. Reads the builds that are there (build/*/build.ninja)."""

import collections
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

import tidy

TREES = tidy.programs().parent.parent
GLOBAL = "TDBRCGS"  # of nm; a weak symbol may be defined twice


def linked(tree):
    """The sets of archives, of the build itself, that its programs and libraries link."""
    lines = re.findall(r"^  LINK_LIBRARIES = (.*)$", (tree / "build.ninja").read_text(), re.M)
    found = {frozenset(word for word in line.split() if word.endswith(".a") and not word.startswith("/")) for line in lines}
    return {archives for archives in found if archives}


def defined(archive):
    """symbol → the members that define it."""
    members = collections.defaultdict(list)
    for line in tidy.output_of("nm", "-A", "-g", "--defined-only", archive).splitlines():
        where, _, rest = line.rpartition(":")
        _, kind, symbol = rest.split()
        if kind in GLOBAL:
            members[symbol].append(where.rpartition(":")[2])
    return members


def check(tree):
    programs = linked(tree)
    symbols = {name: defined(tree / name) for name in sorted(frozenset().union(*programs)) if (tree / name).exists()}
    problems = [f"{symbol}: in {' and '.join(members)} of {name}" for name, found in symbols.items()
                for symbol, members in found.items() if len(members) > 1]
    pairs = {pair for archives in programs for pair in itertools.combinations(sorted(archives & symbols.keys()), 2)}
    problems += [f"{symbol}: in {one} and in {other}" for one, other in sorted(pairs) for symbol in symbols[one].keys() & symbols[other].keys()]
    return sorted(problems)


def planted():
    """Two libraries of one program with a symbol each that the other has too, one weak; a third that no program links with them."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        tidy.plant(tree, {
            "a.c": "int twice(void) { return 1; }\n__attribute__((weak)) int weak(void) { return 1; }\nstatic int own;\nint *a(void) { return &own; }\n",
            "b.c": "int twice(void) { return 2; }\n__attribute__((weak)) int weak(void) { return 2; }\nstatic int own;\nint *b(void) { return &own; }\n",
            "c.c": "int twice(void) { return 3; }\nint inside(void) { return 3; }\n",
            "d.c": "int inside(void) { return 4; }\n",
            "build.ninja": "  LINK_LIBRARIES = a.a  -lm  /usr/lib/x.a  b.a\n  LINK_LIBRARIES = c.a\n  LINK_LIBRARIES = -ldl\n",
        })
        for name in "abcd":
            subprocess.run(["cc", "-c", "-o", tree / f"{name}.o", tree / f"{name}.c"], check=True)
        for library, members in (("a", "a"), ("b", "b"), ("c", "cd")):
            subprocess.run(["ar", "rcs", tree / f"{library}.a", *(tree / f"{name}.o" for name in members)], check=True)
        found = check(tree)
    expected = ["inside: in c.o and d.o of c.a", "twice: in a.a and in b.a"]
    return [] if found == expected else [f"expected {expected}, found {found}"]


def built(tree):
    return any((tree / name).exists() for archives in linked(tree) for name in archives)


trees = sorted(path.parent for path in TREES.glob("*/build.ninja") if built(path.parent))
if not trees:
    sys.exit(f"no build below {TREES}: scripts/build makes it")
tidy.report([
    ("planted symbols are found", planted()),
    *((f"{tree.name}: each symbol of a program is in one of its libraries", check(tree)) for tree in trees),
])
