"""The package declares what the headers say, and types that hold."""

import pathlib
import re
import sys

import ckpt
from ckpt._ckpt import ffi, lib

TREE = pathlib.Path(__file__).resolve().parents[2]


def test_everything_that_the_libraries_export_is_declared():
    for name in ("ckpt.map", "ckpt_reader.map"):
        exported = set(re.findall(r"\b(ckpt_\w+);", (TREE / "libckpt" / name).read_text()))
        assert exported <= set(dir(lib)), exported - set(dir(lib))


def test_a_method_for_each_call():
    source = "".join(p.read_text() for p in [*(TREE / "python" / "ckpt").glob("*.py"), TREE / "python" / "register.c"])
    exported = {n for m in ("ckpt.map", "ckpt_reader.map") for n in re.findall(r"\b(ckpt_\w+);", (TREE / "libckpt" / m).read_text())}
    unused = {n for n in exported if not re.search(rf"\b(lib\.|return ){n}\b", source)}
    assert unused <= {"ckpt_range_boxes", "ckpt_register_blob", "ckpt_collective_enter", "ckpt_reader_version"}, unused


def test_element_types_are_those_of_the_header():
    names = re.search(r"typedef enum ckpt_dtype \{(.*?)\}", (TREE / "libckpt" / "ckpt.h").read_text(), re.S)[1]
    listed = re.findall(r"CKPT_(\w+)", re.sub(r"/\*.*?\*/", "", names))
    assert tuple(listed) == ckpt.memory.NAMES
    assert [getattr(lib, f"CKPT_{n}") for n in listed] == list(range(1, len(listed) + 1))


def test_numbers_that_are_macros_are_those_of_the_header():
    assert (ckpt.LATEST, ckpt.LATEST_HEALTHY) == (2**64 - 1, 2**64 - 2)
    assert ffi.sizeof("ckpt_options") > 0 and sys.version_info >= (3, 11)
