"""Comments of the sources keep their width in headers, where a reader looks first, and name the node, the rank or the user: nobody is \"he\" there."""

import re

import tidy

COLUMNS = 140  # of a line of a header that has a comment, a tab being 8
WHERE = ("libckpt/", "kernels/", "ckptd/", "cli/", "trainer/", "bench/")
HEADERS, SOURCES = (".h", ".cuh"), (".c", ".h", ".cu", ".cuh", ".cpp")
HE = re.compile(r"\b(he|his|him|himself|she|her|hers|herself)\b", re.I)
TEXT_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)


def comments(text):
    """(number of its first line, text) of each comment."""
    for found in TEXT_OR_COMMENT.finditer(text):
        if found[0][0] == "/":
            yield text.count("\n", 0, found.start()) + 1, found[0]


def wide(text):
    lines = text.split("\n")
    with_comments = {first + n for first, comment in comments(text) for n in range(comment.count("\n") + 1)}
    for number in sorted(with_comments):
        columns = len(lines[number - 1].expandtabs(8))
        if columns > COLUMNS:
            yield f"{number}: {columns} columns"


def persons(text):
    for first, comment in comments(text):
        for word in HE.finditer(comment):
            yield f"{first + comment.count(chr(10), 0, word.start())}: the word {word[0]}"


def check(root):
    problems = []
    for path in tidy.sources(root, *SOURCES):
        name, text = str(path.relative_to(root)), path.read_text(errors="replace")
        if name.startswith(WHERE):
            problems += [f"{name}:{found}" for found in persons(text)]
        if name.startswith(WHERE) and path.suffix in HEADERS:
            problems += [f"{name}:{found}" for found in wide(text)]
    return problems


PLANTED = {
    "ckptd/save/saves.h": f"/* {'w' * 137} */\n/* first\n * {'w' * 140} */\n\tint a; /* {'w' * 130} */\n{'int ' * 40};\n/* {'w' * 134} */\nchar *s = \"/* {'w' * 150}\";\n",
    "ckptd/save/saves.c": f"/* {'w' * 150}\n * tells him */\nint f(void); // His own\nchar *s = \"he said\"; /* the other, there */\n",
    "tests/unit/ckptd/test_users.c": "/* what ann has is hers */\n",
}
EXPECTED = ["saves.h:1: 143 columns", "saves.h:3: 146 columns", "saves.h:4: 151 columns", "saves.c:2: the word him", "saves.c:3: the word His"]

tidy.report([
    ("planted comments that are too wide, or of a he, are found", tidy.finds(check, PLANTED, EXPECTED)),
    ("no comment is", check(tidy.ROOT)),
])
