"""Every file and folder of this tree that a page names by its path, as `ckptd/save/saves.h`, is there. NOUN, NAME and ROOM stand for any."""

import re

import tidy

FOLDERS = "bench|ckptd|cli|cmake|docs|kernels|libckpt|packaging|scripts|tests|trainer"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./-]*\w/?)`")
ANY = re.compile(r"NOUN|NAME|ROOM")


def pages(root):
    return [path for path in (root / "README.md", *sorted(root.glob("docs/**/*.md"))) if path.is_file()]


def check(root):
    problems = []
    for page in pages(root):
        for number, line in enumerate(page.read_text().split("\n"), 1):
            problems += [f"{page.relative_to(root)}:{number}: there is no {name}"
                         for name in NAMED.findall(line) if not ANY.search(name) and not (root / name).exists()]
    return problems


PLANTED = {
    "ckptd/save/saves.h": "", "README.md": "`ckptd/save/saves.h`, `ckptd/save/`, `ckptd/save/saves.c`\n",
    "docs/howto/page.md": "`tests/run.py` and `https://example.org/tests/x`, `scripts/test SUITE`, `tests/sim/test_NOUN.c`\n",
}

tidy.report([
    ("a planted name of a file that is gone is found", tidy.finds(check, PLANTED, ["README.md:1: there is no ckptd/save/saves.c", "page.md:1: there is no tests/run.py"])),
    ("every file that a page names is there", check(tidy.ROOT)),
])
