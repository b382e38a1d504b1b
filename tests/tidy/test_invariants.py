"""The invariants at the head of tests/sim/test_cluster.c are, by their numbers and words, those of docs/explanation/invariants.md."""

import re

import tidy

TEST, PAGE = "tests/sim/test_cluster.c", "docs/explanation/invariants.md"
ITEM = re.compile(r"^(\d+)\. +(.*?)(?=^\d+\. |^\S|^$|\Z)", re.M | re.S)


def items(text):
    return {number: " ".join(words.replace("*", "").replace("`", "").split()) for number, words in ITEM.findall(text)}


def of_test(root):
    head = re.match(r"/\*.*?\*/", (root / TEST).read_text(), re.S)[0]
    return items(re.sub(r"^ \*(?:  (?=\d+\. |   ))? ?", "", head, flags=re.M))


def check(root):
    here, there = of_test(root), items((root / PAGE).read_text())
    if not there:
        return [f"{PAGE} has no invariants"]
    return [f"invariant {n}: {TEST} says {here.get(n)!r}, {PAGE} {there.get(n)!r}" for n in sorted(here | there, key=int) if here.get(n) != there.get(n)]


PLANTED = {
    TEST: "/* A test.\n *\n * What must hold:\n *  1. One. It holds\n *     for all.\n *  2. Two.\n *  3. Three.\n *  5. Five.\n * Usage: 6. words\n */\n/*  4. No. */\n",
    PAGE: "# Page\n\n1. **One.** It `holds` for\n   all.\n2. **Two.** Not quite.\n4. **Four.**\n5. **Five.**\n\nText.\n",
}

tidy.report([
    ("planted differences are found", tidy.finds(check, PLANTED, ["invariant 2", "invariant 3", "invariant 4"])),
    ("the page and the test say the same", check(tidy.ROOT)),
])
