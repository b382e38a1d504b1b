"""tests/unit/libckpt/test_arguments.c has rows for every function of ckpt.map, and each code that a row expects of a function stands in its comment
in ckpt.h or among those of every function."""

import re

import tidy


def rows(table):
    """(function, code) of REFUSES, REFUSES_WITHOUT, REFUSES_TO_OPEN and RETURNS; what a helper of the table calls counts for its rows."""
    helpers = {"TENSOR": "ckpt_register_tensor", "PIECE": "ckpt_register_tensor", "open_with": "ckpt_open"}
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", table, flags=re.S))
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    found = set()
    for kind, body in re.findall(r"(REFUSES\w*|RETURNS)(\(.*?\);)", text):
        name = re.match(r"\(+(\w+)", body).group(1)
        code = re.search(r", (-E\w+), \"\"", body)
        found.add((helpers.get(name, name), code.group(1) if code and kind != "RETURNS" else None))
    return found


def mapped(version_map):
    text = re.sub(r"/\*.*?\*/", "", version_map, flags=re.S)
    return set(re.findall(r"\b(ckpt_\w+);", text))


def documented(header):
    """Of each function the codes of the comment before it; those of the head's comment under ""."""
    codes, comment = {"": set(re.findall(r"-E[A-Z0-9]+", header[: header.index("#ifndef")]))}, ""
    for note, name in re.findall(r"(/\*.*?\*/)|^[\w *]*?\b(ckpt_\w+)\([^;{]*\);", header, flags=re.S | re.M):
        comment = note or comment
        if name:
            codes[name] = set(re.findall(r"-E[A-Z0-9]+", comment))
    return codes


def check(table, version_map, header):
    have, codes = rows(table), documented(header)
    problems = [f"{name}: no row" for name in sorted(mapped(version_map) - {name for name, _ in have})]
    return problems + [f"{name}: {code} is not in ckpt.h" for name, code in sorted((n, c) for n, c in have if c)
                       if code not in codes[""] | codes.get(name, set())]


def planted():
    header = "/* -EINVAL */\n#ifndef X\n/* -EEXIST one */\nint ckpt_a(int x);\n/* -EBUSY */\nint ckpt_b(\n\tint y);\nint ckpt_c(void);\n"
    table = ('REFUSES(ckpt_a(1), -EEXIST, "ckpt_x(), -ENOENT");\nREFUSES(ckpt_b(1,\n\t2), -EINVAL, "b");\n'
             'REFUSES_WITHOUT(ckpt_b(NULL), -ENODEV, "n");\n/* RETURNS(ckpt_c(), 0); */\n')
    found = check(table, "{ global: ckpt_a; ckpt_b; ckpt_c; };", header)
    expected = ["ckpt_c: no row", "ckpt_b: -ENODEV is not in ckpt.h"]
    return [] if found == expected else [f"expected {expected}, found {found}"]


read = {name: (tidy.ROOT / name).read_text() for name in ("tests/unit/libckpt/test_arguments.c", "libckpt/ckpt.map", "libckpt/ckpt.h")}
tidy.report([
    ("a planted gap is found", planted()),
    ("every function has rows, and its codes are documented", check(*read.values())),
])
