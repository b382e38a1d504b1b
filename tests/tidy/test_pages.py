"""README.md and the pages of docs/ keep the rules of prose: short sentences, narrow lines, none of the words that nobody in the field uses. So do the
comments of the public headers. A page is of one kind, and docs/index.md leads to it, under the heading of that kind."""

import os
import re

import tidy

WORDS = 30  # of a sentence; an item of a list and a cell of a table end one
COLUMNS = 120  # of a line outside tables and code
HEADERS, HEADER_COLUMNS = ("libckpt/ckpt.h", "libckpt/ckpt_reader.h"), 100  # of a line of a comment, a tab being 8
GLOSSARY, GLOSSARY_LINES = "docs/reference/glossary.md", 40
INDEX = "docs/index.md"
KINDS = {"tutorial": "Learn", "howto": "Do", "reference": "Look up", "explanation": "Understand"}
OF_NO_KIND = (INDEX, "docs/development.md")
METAPHORS = re.compile(r"\b(chairs?|seat(?:s|ed)?|musters?|crews?|tenures?|reform(?:s|ed)?|haul(?:s|ed)?|salvaged?|farewells?|he|his|him|she|hers?)\b", re.I)
RULE = re.compile(r"\|(?: *:?-+:? *\|)+ *$")  # below the head of a table
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?][\"')*]*\s+")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def pages(root):
    return [path for path in (root / "README.md", *sorted(root.glob("docs/**/*.md"))) if path.is_file()]


def prose(text):
    """(line, text) of each heading, paragraph, item and cell of a table, and None in place of the text for a line of code."""
    parts, first, listed, code = [], 0, False, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        indent = len(line) - len(line.lstrip())
        item = ITEM.match(line)
        code = bool(line.strip()) and not parts and (line.startswith("\t") or indent >= (8 if listed and item else 4))
        begins = not line.strip() or code or item or line[0] in "#|"
        if begins and parts:
            yield first, " ".join(parts)
            parts = []
        if code:
            yield number, None
        elif line.startswith("|"):
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        elif line.strip():
            listed = bool(item) or (listed and indent > 0)
            first = first if parts else number
            parts.append(line[len(item[0]):] if item else line.lstrip("# "))


def plain(text):
    """Without markup and code."""
    return LINK.sub(r"\1", re.sub(r"`[^`]*`", "`", text))


def long_in(number, part):
    for sentence in END.split(plain(part)):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > WORDS:
            yield f"{number}: a sentence of {len(words)} words: {' '.join(words[:6])} …"


def long_sentences(text):
    for number, part in prose(text):
        yield from long_in(number, part or "")


def wide_lines(text):
    code = {number for number, part in prose(text) if part is None}
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and number not in code and not line.startswith(("|", "!")):
            yield f"{number}: {len(line)} columns"


def stray_rows(text):
    """Rows before which no head of a table stands: a blank line ends a table, and what follows is shown as it is written."""
    inside, lines = False, ["", *text.split("\n"), ""]
    for number, line in enumerate(lines[1:-1], 1):
        row = line.startswith("|")
        inside = row and (inside or bool(RULE.match(lines[number + 1])))
        if row and not inside:
            yield f"{number}: a row outside a table"


def metaphors(text):
    for number, part in prose(text):
        for word in METAPHORS.findall(plain(part or "")):
            yield f"{number}: the word {word}"


def comments(text):
    """(line, text) of each paragraph and entry in the comments of a header; an entry begins after a tab, or with "- "."""
    for comment in re.finditer(r"/\*.*?\*/", text, re.S):
        first = text.count("\n", 0, comment.start()) + 1
        lines = [re.sub(r"^\s*/?\*(?: (?=\S))?", "", line).removesuffix("*/") for line in comment[0].split("\n")]
        for number, line in enumerate(lines):
            if number and line.strip() and not re.match(r"\t\S|- ", line) and lines[number - 1].strip():
                lines[number] = f"{lines[number - 1]} {line.strip()}"
                lines[number - 1] = ""
        yield from ((first + number, line.strip()) for number, line in enumerate(lines) if line.strip())


def check_header(root, name):
    text = (root / name).read_text()
    problems = [f"{name}:{found}" for number, part in comments(text) for found in long_in(number, part)]
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        inside = inside or line.lstrip().startswith("/*")
        if inside and len(line.expandtabs(8)) > HEADER_COLUMNS:
            problems.append(f"{name}:{number}: {len(line.expandtabs(8))} columns")
        inside = inside and "*/" not in line
    return problems


def check_headers(root):
    return [problem for name in HEADERS if (root / name).is_file() for problem in check_header(root, name)]


def check_prose(root):
    problems = []
    for page in pages(root):
        text, name = page.read_text(), str(page.relative_to(root))
        problems += [f"{name}:{found}" for check in (long_sentences, wide_lines, stray_rows, metaphors) for found in check(text)]
        if name == GLOSSARY and len(text.splitlines()) > GLOSSARY_LINES:
            problems.append(f"{name}: {len(text.splitlines())} lines")
    return problems


def linked(root, page):
    """The pages that this one links to, by their names."""
    found = (os.path.normpath(page.parent / to.partition("#")[0]) for _, to in LINK.findall(page.read_text()) if to.partition("#")[0])
    return [os.path.relpath(path, root) for path in found if path.endswith(".md")]


def check_places(root):
    problems, there = [], {str(page.relative_to(root)) for page in pages(root)} - {"README.md"}
    reached, ways = set(), [INDEX]
    while ways:
        name = ways.pop()
        if name in there and name not in reached:
            reached.add(name)
            ways += linked(root, root / name)
    for name in sorted(there):
        parts = name.split("/")
        if name not in OF_NO_KIND and (len(parts) != 3 or parts[1] not in KINDS):
            problems.append(f"{name}: of no kind: {', '.join(KINDS)}")
        elif name not in reached:
            problems.append(f"{name}: no way leads here from {INDEX}")
    heading = ""
    for number, line in enumerate((root / INDEX).read_text().split("\n"), 1):
        heading = line[3:] if line.startswith("## ") else heading
        for _, to in LINK.findall(line):
            kind = to.split("/")[0]
            if kind in KINDS and heading and heading != KINDS[kind]:
                problems.append(f"{INDEX}:{number}: {to} stands under {heading}")
    return problems


LONG, HEADER = "a " * 20, HEADERS[0]
PLANTED = {
    "README.md": f"# A title\n\nFirst {LONG}\n{LONG}end. Short.\n\n    {LONG}{LONG} code, he said\n\n| {LONG} | {LONG} |\n| --- | :-: |\n| a | b |\n\n| outside | b |\n\n- {LONG}\n- {LONG}\n\n{LONG}. {LONG}\n\n"
                 f"1. Item\n\n        {LONG}{LONG} code\n\n   more {LONG}{LONG}\n",
    INDEX: f"[one](a.md) {'w' * 140}\n\n    {'w' * 140}\n\nHe takes a seat, `his` chairman; the heading of a theme.\n",
    GLOSSARY: "word\n\n" * 21,
    "docs/howto/a.md": f"`{LONG * 2}`\n[{LONG}]({'x' * 20}) said, e.g.\n`{LONG}` b. ckptd {LONG}\n",
}
COMMENTS = {
    HEADER: f"/* A header. {LONG}\n * {LONG} end.\n *\n *\tone    {LONG}\n *\t       {LONG}\n *\ttwo    {LONG}\n *\n * - {LONG}\n * - {LONG} */\n"
            f"int {'f' * 100}(void); /* fine */\n\t/* {'w' * 90} */\n/* {'w' * 93}\n * {'w' * 98} */\n",
}
PLACES = {
    "README.md": "", INDEX: "[a](howto/a.md) [c](c.md)\n\n## Learn\n\n- [b](howto/b.md)\n", "docs/howto/a.md": "[r](../reference/r.md#x)\n", "docs/howto/b.md": "",
    "docs/reference/r.md": "", "docs/c.md": "", "docs/explanation/alone.md": "[a](../howto/a.md)\n", "docs/development.md": "",
}

tidy.report([
    ("planted prose against the rules is found", tidy.finds(check_prose, PLANTED, [
        "README.md:3: a sentence of 42 words", "README.md:23: a sentence of 41", "README.md:12: a row outside", f"{INDEX}:1: 152 columns", "the word He", "the word seat", f"{GLOSSARY}: 42 lines"])),
    ("planted pages out of place are found", tidy.finds(check_places, PLACES, [
        "index.md:5: howto/b.md stands under Learn", "docs/c.md: of no kind", "alone.md: no way", "development.md: no way"])),
    ("planted comments against the rules are found", tidy.finds(check_headers, COMMENTS, [
        f"{HEADER}:2: a sentence of 41", f"{HEADER}:5: a sentence of 41", f"{HEADER}:11: 104 columns", f"{HEADER}:13: 104 columns"])),
    ("the pages keep the rules of prose", check_prose(tidy.ROOT)),
    ("the comments of the public headers keep them, too", check_headers(tidy.ROOT)),
    ("every page has its kind, and a way leads to it", check_places(tidy.ROOT)),
])
