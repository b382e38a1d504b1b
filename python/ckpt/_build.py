"""_build.py OUT.c HEADER...: writes the module that calls the libraries. What it declares is what the headers say."""

import pathlib
import re
import sys

import cffi


def declarations(header: str) -> str:
    """A public header as cffi reads it: without comments and the preprocessor; constants that are macros by name."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    constants = re.findall(r"^#define (CKPT_(?:LATEST\w*|VERSION_\w+)) ", text, re.M)
    text = re.sub(r"^[ \t]*#.*?(?<!\\)\n", "", text, flags=re.S | re.M)
    text = re.sub(r'extern "C" \{|^\}\n', lambda m: "", text, flags=re.M)
    return "".join(f"#define {name} ...\n" for name in constants) + text


def main(out: str, *headers: str) -> None:
    ffi = cffi.FFI()
    for header in headers:
        ffi.cdef(declarations(pathlib.Path(header).read_text()))
    ffi.set_source("ckpt._ckpt", "".join(f'#include "{pathlib.Path(header).name}"\n' for header in headers))
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
