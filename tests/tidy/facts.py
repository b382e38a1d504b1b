#!/usr/bin/env python3
"""facts.py REVISION: what the pages of a revision name and no page names now, in three lists: options, variables, functions, codes, settings and files
in code; quantities with their unit; links to other sites. What is listed was renamed, has changed, or was lost: look at each."""

import re
import subprocess
import sys

import tidy

NAME = re.compile(r"--[a-z][a-z-]+|CKPT_[A-Z_]+|ckptd?_[a-z_]+|-E[A-Z]+|[a-z]+-[a-z-]+|[A-Z_]{5,}|[a-z_]+\.(?:json|py|sh|md|c|h)\b")
QUANTITY = re.compile(r"\b\d[\d.,]*\s(?:ns|us|µs|ms|s|minutes|hours|days|bytes|B|KiB|MiB|GiB|TiB|nodes|ranks|tensors|files|connections|slots)\b")
LINK = re.compile(r"https?://[^\s)>`]+")
HEADER = "libckpt/ckpt.h"  # the manual of its calls


def git(*words):
    return subprocess.run(["git", "-C", tidy.ROOT, *words], check=True, capture_output=True, text=True).stdout


def pages(revision):
    names = [name for name in git("ls-tree", "-r", "--name-only", revision).split("\n") if name.endswith(".md") or name == HEADER]
    return "\n".join(git("show", f"{revision}:{name}") for name in names)


def pages_now():
    return "\n".join((tidy.ROOT / name).read_text() for name in git("ls-files", "*.md", HEADER).split())


def named(text):
    """The three kinds of facts, each a set."""
    code = "\n".join(re.findall(r"`([^`\n]+)`", text))
    flat = re.sub(r"\s+", " ", text)
    return {"names": set(NAME.findall(code)), "quantities": set(QUANTITY.findall(flat)), "links": set(LINK.findall(text))}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    now = pages_now()
    flat = re.sub(r"\s+", " ", now)
    for kind, facts in named(pages(sys.argv[1])).items():
        gone = sorted(fact for fact in facts if fact not in flat)
        print(f"{kind}: {len(facts)} then, {len(gone)} of them on no page now: {', '.join(gone) or '-'}")


main()
