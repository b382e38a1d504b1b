"""Words that a part of this project once had for itself, and that the field does not use, are gone: from names and comments in code, and from names of
files. docs/reference/glossary.md has the words in their place. tests/tidy/test_pages.py holds the pages to the same."""

import re

import tidy

GONE = ("chair", "seat", "seated", "muster", "crew", "tenure", "haul", "salvage", "salvaged", "farewell", "reform", "reformed", "rescue", "rescued",
        "ladder", "bereft", "verdict")
WORD = re.compile(rf"(?<![a-z])({'|'.join(GONE)})s?(?![a-z])", re.I)
WHERE = ("libckpt/", "kernels/", "ckptd/", "cli/", "trainer/", "tests/", "bench/", "docs/", "scripts/")
# What the format of the store and the JSON of commands call a health mark stays as their versions promise it.
FILES = re.compile(r"\bVERDICT\.json\b|\bckpt\.verdict\b")
SELF = ("tests/tidy/test_words.py", "tests/tidy/test_pages.py")


def code(text):
    """Names and comments; what stands in strings is not ours to rename here, nor are names of files in the store."""
    return FILES.sub("", re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text))


def check(root):
    problems = []
    for path in tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp"):
        name = str(path.relative_to(root))
        if not name.startswith(WHERE):
            continue
        for number, line in enumerate(code(path.read_text(errors="replace")).split("\n"), 1):
            problems += [f"{name}:{number}: the word {word}" for word in WORD.findall(line)]
    for path in tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp", ".py", ".sh", ".md", ".patch"):
        name = str(path.relative_to(root))
        if name.startswith(WHERE) and WORD.search(path.stem):
            problems.append(f"{name}: the word {WORD.search(path.stem)[1]}")
    return [problem for problem in problems if not problem.startswith(SELF)]


PLANTED = {
    "ckptd/control/chair_hear.c": "int f(struct host *host);\n",
    "ckptd/save/saves.c": 'int seat_say(void); /* the verdict of a rank */\nchar *s = "a seat", *t = NAME_SEATS;\n/* VERDICT.json: reformat, chairman */\n',
    "tests/lib/crew.py": "",
    "elsewhere/crew.c": "int muster;\n",
}
EXPECTED = ["chair_hear.c: the word chair", "saves.c:1: the word seat", "saves.c:1: the word verdict", "saves.c:2: the word SEAT", "crew.py: the word crew"]

tidy.report([
    ("planted words are found", tidy.finds(check, PLANTED, EXPECTED)),
    ("none of them is left", check(tidy.ROOT)),
])
