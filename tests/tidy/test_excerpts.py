"""The code that docs/tutorial/training-loop.md and the pages of docs/howto/ show is code that is compiled: each block stands, line by line, in the
file that was named last before it. A line of "…" in a block stands for lines that are left out. Blocks that begin with four spaces are commands."""

import re

import tidy

PAGE = "docs/tutorial/training-loop.md"
FILE = re.compile(r"`((?:docs/examples|trainer)/[\w/]+\.[ch])`")


def stripped(text):
    return "\n".join(line.strip() for line in text.strip("\n").split("\n"))


def blocks(text):
    """(line, file named last or None, block); a block is of lines that begin with a tab."""
    named, block, first = None, [], 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("\t"):
            first = first if block else number
            block.append(line)
            continue
        if block:
            yield first, named, "\n".join(block)
            block = []
        named = (FILE.findall(line) or [named])[-1]


def adjoining(text):
    """Lines of something else right before or behind a block: one that has lost its tab."""
    lines = text.split("\n")
    for number, (line, next_) in enumerate(zip(lines, lines[1:]), 1):
        if line and next_ and line.startswith("\t") != next_.startswith("\t"):
            yield number + (not next_.startswith("\t"))


def check_page(root, page):
    name = page.relative_to(root)
    problems = [f"{name}:{number}: without a tab beside a block" for number in sorted(set(adjoining(page.read_text())))]
    for number, named, block in blocks(page.read_text()):
        if not named or not (root / named).is_file():
            problems.append(f"{name}:{number}: of no file: {named}")
            continue
        lines = f"\n{stripped((root / named).read_text())}\n"
        for part in stripped(block).split("\n…\n"):
            if f"\n{part}\n" not in lines:
                problems.append(f"{name}:{number}: not in {named}: {part[:60]!r}")
    return problems


def check(root):
    return [problem for page in [root / PAGE, *sorted(root.glob("docs/howto/*.md"))] for problem in check_page(root, page)]


def found(root):
    n = len(list(blocks((root / PAGE).read_text())))
    return [] if n >= 10 else [f"{PAGE} has {n} blocks of code"]


PLANTED = {
    PAGE: "\tof_nobody();\n\n`docs/examples/a.c`:\n\n\tone();\n\ttwo();\n\t…\n\tlast();\n\nand\n\n\tone();\n\t…\n\tthree();\n\n`trainer/b.c`:\n\n\tone();\n\n"
          "`trainer/c.h`\n\n\tlast();\n",
    "docs/examples/a.c": "void f(void)\n{\n\tif (x) {\n\t\tone();\n\t\ttwo();\n\t}\n\tlast();\n\tthree(1);\n}\n",
    "docs/howto/lost.md": "`docs/examples/a.c`:\n\n\tone();\ntwo();\n",
    "trainer/b.c": "\tone(); /* more */\n",
    "docs/howto/do.md": "`trainer/b.c`:\n\n\ttwo();\n",
}

tidy.report([
    ("planted code that is nowhere is found", tidy.finds(check, PLANTED, [":1: of no file", "a.c: 'three();'", "b.c: 'one();'", "c.h", "do.md:3: not in trainer/b.c", "lost.md:4: without a tab"])),
    ("there is code to be looked at", found(tidy.ROOT)),
    ("what the pages show is in their files", check(tidy.ROOT)),
])
