#!/usr/bin/env python3
"""figures.py [REVISION]: the figures of each room of the product: files, lines, functions, how long they are (lines between the braces), how
many parameters they have at most, how many rooms include it (in) and how many it includes (out). Without a revision: of the working tree."""

import collections
import os
import re
import statistics
import subprocess
import sys

import tidy

PRODUCT = ("libckpt/", "kernels/", "ckptd/", "cli/", "trainer/")
ROOTS = ("", "libckpt/", "kernels/", "ckptd/", "cli/", "trainer/")  # of include paths
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?!static_assert|#|\s|\})[^\n;={}]*?\(([^{};]*?)\)\n\{\n(.*?)^\}", re.M | re.S)


def git(*words):
    return subprocess.run(["git", "-C", tidy.ROOT, *words], check=True, capture_output=True, text=True, errors="replace").stdout


def files_of(revision):
    """{name: text} of the product's sources."""
    listed = git("ls-tree", "-r", "--name-only", revision) if revision else git("ls-files")
    names = [name for name in listed.split("\n") if name.startswith(PRODUCT) and name.endswith((".c", ".h", ".cu", ".cuh"))]
    if not revision:
        return {name: (tidy.ROOT / name).read_text(errors="replace") for name in names}
    with subprocess.Popen(["git", "-C", tidy.ROOT, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        text = {}
        for name in names:
            process.stdin.write(f"{revision}:{name}\n".encode())
            process.stdin.flush()
            size = int(process.stdout.readline().split()[2])
            text[name] = process.stdout.read(size + 1)[:-1].decode(errors="replace")
        process.stdin.close()
    return text


def targets(name, text, files):
    """The files of the product that it includes."""
    for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.M):
        for folder in (os.path.dirname(name) + "/", *ROOTS):
            path = os.path.normpath(folder + header)
            if path in files:
                yield path
                break


def functions(text):
    """(lines, parameters) of each."""
    for found in FUNCTION.finditer(COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)):
        parameters = re.sub(r"\((?:[^()]|\([^()]*\))*\)", "", found[1]).strip()  # those of a callback are not the function's
        yield found[2].count("\n"), 0 if parameters in ("", "void") else parameters.count(",") + 1


def main():
    files = files_of(sys.argv[1] if len(sys.argv) > 1 else None)
    rooms, uses, used = collections.defaultdict(list), collections.defaultdict(set), collections.defaultdict(set)
    for name, text in files.items():
        room = os.path.dirname(name)
        rooms[room].append(text)
        for other in {os.path.dirname(target) for target in targets(name, text, files)} - {room}:
            uses[room].add(other)
            used[other].add(room)
    print(f"{'room':24} files  lines  longest  functions  median  longest  parameters  in  out")
    for room, texts in sorted(rooms.items()):
        lines, found = [text.count("\n") for text in texts], [f for text in texts for f in functions(text)] or [(0, 0)]
        print(f"{room:24} {len(texts):5} {sum(lines):6} {max(lines):8} {len(found):10} {statistics.median(n for n, _ in found):7g}"
              f" {max(n for n, _ in found):8} {max(p for _, p in found):11} {len(used[room]):3} {len(uses[room]):4}")
    every = [f for text in files.values() for f in functions(text)]
    print(f"{len(files)} files, {sum(text.count(chr(10)) for text in files.values())} lines, {len(every)} functions: "
          f"{sum(n > 70 for n, _ in every)} above 70 lines, {sum(p > 6 for _, p in every)} with more than 6 parameters")


main()
