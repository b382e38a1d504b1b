"""tests/unit/libckpt/test_arguments.c has rows for every function of ckpt.map, and each code that a row expects of a function stands in its comment
in ckpt.h or among those of every function. Each code that is listed there has a row, in that table, in test_errors.c or in test_blob.c, that asks for its
sentence. The same rows and codes for the reader's header."""

import re

import tidy

# What takes more than the process of a test has.
BEYOND = {("ckpt_open", "-ENFILE")}


def rows(table):
    """(function, code) of REFUSES, REFUSES_WITHOUT, REFUSES_IN_WHY, REFUSES_TO_OPEN and RETURNS. A helper VERB_MORE, or a macro, counts for what it
    calls."""
    helpers = {"TENSOR": "ckpt_register_tensor", "PIECE": "ckpt_register_tensor", "put": "ckpt_register_tensor", "open_with": "ckpt_open",
               "OPEN": "ckpt_reader_open", "READ": "ckpt_reader_read"}
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", table, flags=re.S))
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    found = set()
    for kind, body in re.findall(r"(REFUSES\w*|RETURNS)(\(.*?\);)", text):
        name = re.match(r"\(+(\w+)", body).group(1)
        code = re.search(r", (-E\w+), \"\"", body)
        called = helpers.get(name, name if name.startswith("ckpt_") else f"ckpt_{name.split('_')[0]}")
        found.add((called, code.group(1) if code and kind != "RETURNS" else None))
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


def listed(header):
    """(function, code) of the lists in comments; "" for that of every function."""
    found, comment = set(), header[: header.index("#ifndef")]
    for note, name in [("", ""), *re.findall(r"(/\*.*?\*/)|^[\w *]*?\b(ckpt_\w+)\([^;{]*\);", header, flags=re.S | re.M)]:
        if note:
            comment = note
        else:
            lists = re.findall(r"^ \*\t(-E[A-Z0-9]+(?:, -E[A-Z0-9]+)*) ", comment, flags=re.M)
            found |= {(name, code) for codes in lists for code in codes.split(", ")}
            comment = ""
    return found


def check_sentences(rows_, header):
    """What is listed for every function is asked of one of them."""
    asked = rows_ | {("", code) for _, code in rows_}
    return [f"{name or 'any function'}: nothing asks for the sentence of {code}" for name, code in sorted(listed(header) - asked - BEYOND)]


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
    lists = ("/*\n *\t-EINVAL  wrong\n *\t-EIO     lost\n */\n#ifndef X\n/* One\n *\n *\t-EEXIST          there\n *\t-EMFILE, -EBUSY  no\n *"
             "\t                 -ENOENT too */\nint ckpt_a(int x);\nint ckpt_b(\n\tint y);\n")
    found += check_sentences(rows('REFUSES_IN_WHY(a_logged(), -EEXIST, "x");\nREFUSES(ckpt_b(1), -EINVAL, "x");\n'), lists)
    expected = ["ckpt_c: no row", "ckpt_b: -ENODEV is not in ckpt.h", "any function: nothing asks for the sentence of -EIO",
                "ckpt_a: nothing asks for the sentence of -EBUSY", "ckpt_a: nothing asks for the sentence of -EMFILE"]
    return [] if found == expected else [f"expected {expected}, found {found}"]


def read(name):
    return (tidy.ROOT / name).read_text()


def check_library(table, version_map, header):
    return check(read(table), read(version_map), read(header))


arguments, errors, blob = (read(f"tests/unit/libckpt/test_{name}.c") for name in ("arguments", "errors", "blob"))
header = read("libckpt/ckpt.h")
tidy.report([
    ("a planted gap is found", planted()),
    ("every function has rows, and its codes are documented", check(arguments, read("libckpt/ckpt.map"), header)),
    ("the sentence of every listed code is asked for", check_sentences(rows(arguments) | rows(errors) | rows(blob), header)),
    ("so has every function of the reader",
     check_library("tests/unit/reader/test_arguments.c", "libckpt/ckpt_reader.map", "libckpt/ckpt_reader.h")),
])
