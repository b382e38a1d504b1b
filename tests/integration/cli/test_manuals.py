"""Manual pages and completions: made with the build, installed, clean by groff's warnings, and complete: every command, option,
exit code and function that there is has its place."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from offline import BIN, case, cases, data, equal, has, top

TREE = pathlib.Path(__file__).resolve().parents[3]
BUILD = BIN.parent
PAGES = BUILD / "man"
table = data("help")
if not PAGES.exists():
    print(f"{PAGES} is not there: the build makes it where it finds Python")
    sys.exit(77)


def shown(path):
    """The page as a reader sees it, without emphasis, words separated by one blank."""
    done = subprocess.run(["groff", "-ww", "-man", "-K", "utf8", "-T", "utf8", "-P-cbou", "-rLL=200n", path], capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""), path.name)
    return re.sub(r"\s+", " ", done.stdout.replace("‐", "-").replace("−", "-"))


def page(name, section):
    return PAGES / f"man{section}" / f"{name}.{section}"


@case("all pages are clean by groff")
def _():
    if not shutil.which("groff"):
        return "groff is not installed"
    pages = sorted(PAGES.glob("man*/*"))
    equal(len(pages) > 40, True, len(pages))
    for path in pages:
        text = shown(path)
        has(text, "NAME", path.stem)
        bad = re.search(r"\*\*\w[^*]*\*\*|`|\\f|\|---", text) if path.suffix != ".5" else None
        equal(bad and text[bad.start() - 40:bad.end() + 40], None, f"{path.name} has markup left")


@case("a page with a mistake would be seen")
def _():
    if not shutil.which("groff"):
        return "groff is not installed"
    broken = top / "broken.1"
    broken.write_text(page("ckpt", 1).read_text() + ".nosuchmacro\n\\f")
    done = subprocess.run(["groff", "-ww", "-z", "-man", broken], capture_output=True, text=True)
    has(done.stderr, "nosuchmacro")


@case("section 1: every command has a page with every option and exit code")
def _():
    if not shutil.which("groff"):
        return "groff is not installed"
    whole = shown(page("ckpt", 1))
    for command in table["commands"]:
        has(whole, f"ckpt-{command['name']}(1)", command["summary"][1:])
        text = shown(page(f"ckpt-{command['name']}", 1))
        has(text, f"ckpt {command['name']} [options]", command["summary"])
        named = command["options"] + table["general_options"] + (table["repository_options"] if command["repository"] else [])
        for option in named:
            has(text, f"--{option['name']}" + (f" {option['value']} " if option["value"] else " ") + re.sub(r"\s+", " ", option["help"])[0].upper())
    for code in table["exit_codes"]:
        has(whole, f"{code['code']} {code['name']}: {code['text']}")
    pages = {p.name for p in (PAGES / "man1").iterdir()}
    equal(pages, {"ckpt.1"} | {f"ckpt-{c['name']}.1" for c in table["commands"]})


LIBRARIES = {"libckpt": "ckpt", "libckptreader": "ckpt_reader"}


@case("section 3: every function that a library exports has a page with its prototype")
def _():
    exported = {stem: set(re.findall(r"\b(ckpt_\w+);", (TREE / "libckpt" / f"{stem}.map").read_text())) for stem in LIBRARIES.values()}
    equal({p.stem for p in (PAGES / "man3").iterdir()}, set().union(*exported.values(), LIBRARIES))
    for stem, names in exported.items():
        header = re.sub(r"\s+", " ", (TREE / "libckpt" / f"{stem}.h").read_text())
        for name in names:
            source = page(name, 3).read_text()
            has(source, f"#include <{stem}.h>")
            prototype = re.search(r"\\fB([^\n]*\b" + name + r"\([^\n]*;)\\fR", source)
            has(header, prototype.group(1).replace("\\-", "-"))
            equal(len(source.split(".SH DESCRIPTION")[1].split(".SH")[0].strip()) > 20, True, f"{name} says nothing")


@case("section 3: each error has a line of its own in the header, and an item under ERRORS")
def _():
    line = r"^ \*\t(-E[A-Z0-9]+(?:, -E[A-Z0-9]+)*)  "
    for library, stem in LIBRARIES.items():
        header = (TREE / "libckpt" / f"{stem}.h").read_text()
        listing = 0
        for comment, name in re.findall(r"(/\*(?:(?!\*/).)*\*/)\n(?!typedef)[\w *]*?\b(ckpt_\w+)\([^;{]*\);", header, re.S):
            lines = re.findall(line, comment, re.M)
            errors = page(name, 3).read_text().replace("\\-", "-").partition(".SH ERRORS")[2].partition(".SH")[0]
            equal(re.findall(r"^\.TP\n\\fB(.*)\\fR", errors, re.M), lines, name)
            listing += len(lines) > 0
        equal(listing > (12 if stem == "ckpt" else 3), True, listing)
        common = re.findall(line, header[:header.index("#ifndef")], re.M)
        equal("-EINVAL" in common, True, common)
        overview = page(library, 3).read_text().replace("\\-", "-")
        equal([f".TP\n\\fB{code}\\fR" in overview for code in common], [True] * len(common), common)


@case("sections 5 and 8 hold what docs/ say")
def _():
    if not shutil.which("groff"):
        return "groff is not installed"
    daemon = shown(page("ckptd", 8))
    helped = subprocess.run([BIN / "ckptd", "--help"], capture_output=True, text=True).stdout
    settings = json.loads(subprocess.run([BIN / "ckpt", "config", "--json"], capture_output=True, text=True).stdout)["settings"]
    keys = {s["key"] for s in settings}
    equal(len(keys) > 5, True, keys)
    manual = shown(page("ckpt.conf", 5))
    has(manual, *keys)
    for option in re.findall(r"^  --([a-z-]+)", helped, re.M):
        equal(f"--{option}" in manual or f"--{option}" in daemon or option in keys, True, f"--{option} is in neither page")
    has(shown(page("ckpt-format", 5)), "CKPTXXH1", "leaf digest", "MANIFEST.json")


@case("cmake --install puts pages and completions where they belong")
def _():
    prefix = top / "prefix"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    share = prefix / "share"
    installed = {str(p.relative_to(share / "man")) for p in (share / "man").rglob("*") if p.is_file()}
    equal(installed, {str(p.relative_to(PAGES)) for p in PAGES.rglob("*.[1-8]")})
    for place, shell in (("bash-completion/completions/ckpt", "bash"), ("zsh/site-functions/_ckpt", "zsh"),
                         ("fish/vendor_completions.d/ckpt.fish", "fish")):
        equal((share / place).read_text(), data("completion", shell)["text"], place)


@case("the pages are those of the program that was built")
def _():
    equal(json.loads((PAGES / "help.json").read_text()), table)
    again = top / "again"
    subprocess.run([sys.executable, TREE / "scripts" / "manuals.py", PAGES / "help.json", TREE, again], check=True)
    equal({str(p.relative_to(again)): p.read_text() for p in again.rglob("*.[1-8]")},
          {str(p.relative_to(PAGES)): p.read_text() for p in PAGES.rglob("*.[1-8]")})


sys.exit(cases.end())
