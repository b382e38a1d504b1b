#!/usr/bin/env python3
"""scripts/docs makes a site of all pages, in which every link leads somewhere; a page with a link that does not is refused."""

import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

from tap import Cases, equal, expect

ROOT = pathlib.Path(__file__).resolve().parents[3]
if not shutil.which("sphinx-build"):
    print("there is no sphinx-build here: scripts/deps installs it")
    sys.exit(77)
top = pathlib.Path(tempfile.mkdtemp())


def build(tree, out):
    return subprocess.run([tree / "scripts/docs", out], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)


class Page(html.parser.HTMLParser):
    """What it points to, and what can be pointed to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.links += [named[name] for name in ("href", "src") if named.get(name)]
        self.anchors |= {named[name] for name in ("id", "name") if named.get(name)}


def dead(pages):
    for path, page in pages.items():
        for link in page.links:
            to = urllib.parse.urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = pathlib.Path(os.path.normpath(path.parent / urllib.parse.unquote(to.path))) if to.path else path
            if not target.exists() or (to.fragment and target in pages and to.fragment not in pages[target].anchors):
                yield f"{path.name}: {link}"


def whole():
    done = build(ROOT, top / "site")
    equal(done.returncode, 0, done.stdout)
    pages = {path: Page(path) for path in (top / "site").rglob("*.html")}
    written = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    missing = written - {str(path.relative_to(top / "site").with_suffix("")) for path in pages}
    expect(len(written) > 20 and not missing, "not in the site:", missing)
    equal(list(dead(pages)), [])
    expect("Glossary" in (top / "site/searchindex.js").read_text(), "the glossary cannot be searched for")


def refused():
    for folder in ("docs", "scripts"):
        shutil.copytree(ROOT / folder, top / "tree" / folder)
    with open(top / "tree/docs/reference/glossary.md", "a") as page:
        page.write("\n[nowhere](no-such-page.md)\n")
    done = build(top / "tree", top / "broken")
    expect(done.returncode != 0 and "no-such-page" in done.stdout, done)


cases = Cases()
cases.run("every page is in the site, and every link leads somewhere", whole)
cases.run("a link that leads nowhere is refused", refused)
code = cases.end()
shutil.rmtree(top)
sys.exit(code)
