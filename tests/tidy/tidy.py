"""What the tidy tests share. A check takes a root folder and returns its problems, one line each. Before it looks at this
tree it must find what is planted in a small tree of its own: a check that cannot fail says nothing."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def sources(root, *suffixes):
    """Files below root with these suffixes, build folders left out."""
    found = (path for path in root.rglob("*") if path.suffix in suffixes and path.is_file())
    return sorted(path for path in found if path.relative_to(root).parts[0] not in ("build", ".git"))


def code_of(path):
    """The text without comments, and with the contents of strings blanked; lines keep their numbers."""
    def blank(match):
        text = match.group(0)
        if text[0] == "/":
            return re.sub(r"[^\n]", " ", text)
        return text[0] + re.sub(r"[^\n]", " ", text[1:-1]) + text[-1]

    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, path.read_text(errors="replace"), flags=re.S)


def plant(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def finds(check, files, expected):
    """What is wrong with the check: it must name each of the expected words, and find nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        plant(root, files)
        problems = check(root)
    wrong = [f"planted, not found: {word}" for word in expected if not any(word in line for line in problems)]
    if len(problems) != len(expected):
        wrong.append(f"{len(expected)} problems planted, found: {problems}")
    return wrong


def report(cases):
    """cases: (name, problems). Prints TAP, why before what, and ends the program."""
    for number, (name, problems) in enumerate(cases, 1):
        for line in problems:
            print(f"# {line}")
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
    print(f"1..{len(cases)}")
    sys.exit(any(problems for _, problems in cases))


def programs():
    """Where the build has put them; not all need be there."""
    if "CKPT_BUILD" not in os.environ:
        skip("CKPT_BUILD does not name the programs")
    return pathlib.Path(os.environ["CKPT_BUILD"])


def skip(reason):
    print(reason)
    sys.exit(77)


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
