"""libckpt.so and libckptreader.so export exactly the symbols of their maps, and each is declared in the public header, and the other way round."""

import pathlib
import re
import subprocess
import sys
import tempfile

import tidy


def exported(library):
    lines = tidy.output_of("nm", "-D", "--defined-only", library).splitlines()
    symbols = (line.split()[-1] for line in lines if line.split()[-2] in "TDBRVWiu")
    return {symbol.split("@")[0] for symbol in symbols}


def mapped(version_map):
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", version_map.read_text(), flags=re.S)
    return {name for part in re.findall(r"global:(.*?)(?:local:|\})", text, re.S) for name in re.findall(r"\w+", part)}


def declared(header):
    text = re.sub(r"/\*.*?\*/|^\s*#.*?(?<!\\)$", "", header.read_text(), flags=re.S | re.M)
    text = re.sub(r'extern "C" \{', "", text)
    text = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\}", "", text))
    return set(re.findall(r"\b(ckpt_\w+)\s*\((?!\*)", re.sub(r"typedef[^;]*;", "", text)))


def check(library, version_map, header):
    have, listed, public = exported(library), mapped(version_map), declared(header)
    problems = [f"{name}: exported, not in the map" for name in sorted(have - listed)]
    problems += [f"{name}: in the map, not exported" for name in sorted(listed - have)]
    problems += [f"{name}: in the map, not in {header.name}" for name in sorted(listed - public)]
    problems += [f"{name}: in {header.name}, not in the map" for name in sorted(public - listed)]
    return problems


def planted():
    """A library that exports one symbol too many and lacks one that its header promises."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        tidy.plant(root, {
            "a.c": "int ckpt_open(void) { return 0; }\nint ckpt_stray(void) { return 0; }\n",
            "ckpt.h": "#define CKPT_X(a) ckpt_x(a)\nextern \"C\" {\n/* ckpt_y() */\nenum a { B };\nstruct c { int (*ckpt_z)(int); };\n"
                      "int ckpt_open(void);\nint ckpt_lost(int a,\n\t\tint b);\ntypedef void ckpt_fn(int);\n}\n",
            "ckpt.map": "CKPT_0 {\n\tglobal: /* all */\n\t\tckpt_open;\n\tlocal:\n\t\t*;\n};\n",
        })
        subprocess.run(["cc", "-shared", "-fPIC", "-o", root / "a.so", root / "a.c"], check=True)
        found = check(root / "a.so", root / "ckpt.map", root / "ckpt.h")
    expected = ["ckpt_stray: exported, not in the map", "ckpt_lost: in ckpt.h, not in the map"]
    return [] if found == expected else [f"expected {expected}, found {found}"]


LIBRARIES = tidy.programs().parent / "lib"


def check_library(name, stem):
    library = LIBRARIES / name
    if not library.exists():
        sys.exit(f"{library} is not there: scripts/build makes it")
    return check(library, tidy.ROOT / "libckpt" / f"{stem}.map", tidy.ROOT / "libckpt" / f"{stem}.h")


tidy.report([
    ("a planted symbol is found", planted()),
    ("the library exports what the map and the header say", check_library("libckpt.so", "ckpt")),
    ("so does the reader", check_library("libckptreader.so", "ckpt_reader")),
])
