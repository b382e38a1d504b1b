"""Files that we write open in the upstream safetensors package, and files that it writes are read by our parser."""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import packages
from tap import BIN, Cases

packages.need("numpy", "safetensors")
import numpy
import safetensors
import safetensors.numpy

TOOL = BIN / "make_safetensors"
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4,
         "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}
# What the file must hold, in the order of its bytes: name, type, shape.
ODD = 'zero/größe "重み"'
TYPES = ["F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16",
         "F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"]
EXPECTED = [(f"type.{t}", t, [4, 6]) for t in TYPES] + [
    ("pieces", "F32", [2, 6]), ("pieces#2", "F32", [2, 3]), ("pieces#3", "F32", [1, 3]), ("pieces#4", "F32", [1, 2]),
    ("pieces#5", "F32", [1, 1]), (f"{ODD}#flat", "F32", [17]), (ODD, "F32", [1, 4]), ("vector", "F32", [250]),
    ("scalar", "F32", []), ("large", "BF16", [300, 1000]), ("empty", "BF16", [4, 0, 6]),
    ("empty.flat", "F8_E4M3", [4, 0, 6]), ("config", "U8", [77]), ("rng@00000", "U8", [77]), ("pieces#1", "U8", [77])]
# Where each stands in its tensor: what PyTorch's reader takes as the tensor's name, and the offsets.
OFFSETS = {"pieces": ("pieces", [0, 0]), "pieces#2": ("pieces", [2, 0]), "pieces#3": ("pieces", [2, 3]),
           "pieces#4": ("pieces", [3, 3]), "pieces#5": ("pieces", [3, 5]), f"{ODD}#flat": (f"{ODD}#flat", [3]),
           ODD: (ODD, [3, 2]), "vector": ("vector", [100])}

cases = Cases()
case = cases.case
folder = pathlib.Path(tempfile.mkdtemp())
path = folder / "ours.safetensors"
subprocess.run([TOOL, str(path)], check=True)
content = path.read_bytes()
header_size, = struct.unpack("<Q", content[:8])
header = json.loads(content[8:8 + header_size])


def size_of(dtype, shape):
    return math.prod(shape) * SIZES[dtype]


def expected_data():
    """(name, type, shape, bytes) of every entry."""
    at = 0
    for name, dtype, shape in EXPECTED:
        size = size_of(dtype, shape)
        yield name, dtype, shape, bytes((i * 131 + 7) % 256 for i in range(at, at + size))
        at += size


def equal(left, right):
    assert left == right, f"{str(left)[:200]} is not {str(right)[:200]}"


@case("the data section starts at a multiple of 4096")
def alignment():
    equal((8 + header_size) % 4096, 0)
    equal(len(content), 8 + header_size + sum(size_of(d, s) for _, d, s in EXPECTED))


@case("upstream's deserialize gives every name, type, shape and byte")
def whole():
    found = {name: (entry["dtype"], list(entry["shape"]), bytes(entry["data"]))
             for name, entry in safetensors.deserialize(content)}
    equal(sorted(found), sorted(name for name, *_ in EXPECTED))
    for name, dtype, shape, data in expected_data():
        equal(found[name][:2], (dtype, shape))
        assert found[name][2] == data, f"{name}: other bytes"


@case("upstream's safe_open gives arrays and slices")
def lazily():
    known = getattr(safetensors.numpy, "_TYPES", {})
    seen = 0
    with safetensors.safe_open(path, framework="np") as f:
        equal(sorted(f.keys()), sorted(name for name, *_ in EXPECTED))
        for name, dtype, shape, data in expected_data():
            view = f.get_slice(name)
            equal((view.get_dtype(), view.get_shape()), (dtype, shape))
            if dtype in known:
                array = f.get_tensor(name)
                equal(list(array.shape), shape)
                assert array.tobytes() == data, f"{name}: other bytes"
                seen += 1
        row = f.get_slice("type.F32")[1:2]
        equal(row.tobytes(), f.get_tensor("type.F32")[1:2].tobytes())
    assert seen > 20, f"only {seen} arrays"


@case("upstream's metadata is a map of strings")
def metadata():
    with safetensors.safe_open(path, framework="np") as f:
        found = f.metadata()
    equal(found, header["__metadata__"])
    equal((found["format"], found["DCP_VERSION"], found["ckpt.version"]), ("pt", "1.0", "1"))


@case("every entry has its sharding information; PyTorch's reader, which would leave holes, refuses it")
def sharding():
    text = header["__metadata__"]["DCP_SHARDING_INFO"]
    equal(text[0], "!")  # it would make holes of "pieces"
    info = json.loads("{" + text[1:])
    equal(sorted(info), sorted(name for name, *_ in EXPECTED))
    for name, _, shape in EXPECTED:
        equal(sorted(info[name]), ["global_shape", "logical_fqn", "saved_offsets"])
        fqn, offsets = OFFSETS.get(name, (name, [0] * len(shape)))
        equal((info[name]["logical_fqn"], info[name]["saved_offsets"]), (fqn, offsets))


@case("ckpt.pieces places every entry in its tensor")
def pieces():
    info = json.loads(header["__metadata__"]["ckpt.pieces"])
    equal(sorted(info), sorted(name for name, *_ in EXPECTED))
    equal(info["pieces#3"], {"tensor": "pieces", "shape": [4, 6], "offset": [2, 3]})
    equal(info[f"{ODD}#flat"], {"tensor": ODD, "shape": [4, 6], "start": 3})
    equal(info["scalar"], {"tensor": "scalar", "shape": [], "offset": []})
    equal(info["pieces#1"], {"tensor": "pieces#1", "shape": [77], "offset": [0]})


@case("the boxes of a tensor fit together")
def together():
    tensors = {}
    for name, _, shape in EXPECTED:
        if name.startswith("pieces") and name != "pieces#1":
            (row, column), grid = OFFSETS[name][1], tensors.setdefault("pieces", numpy.zeros((4, 6), int))
            grid[row:row + shape[0], column:column + shape[1]] += 1
    assert (tensors["pieces"] == 1).all(), tensors["pieces"]


def parse(file):
    return subprocess.run([TOOL, "--parse", str(file)], capture_output=True, text=True)


@case("our parser reads our file")
def ours():
    found = json.loads(parse(path).stdout)
    equal(found["data_at"], 8 + header_size)
    equal([entry[:3] for entry in found["entries"]], [list(entry) for entry in EXPECTED])


@case("our parser reads upstream's files")
def theirs():
    random = numpy.random.default_rng(1)
    tensors = {f"t.{i}": random.integers(0, 99, random.integers(0, 5, i % 4)).astype(dtype) for i, dtype in enumerate(
        [bool, "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "f8", "i8", "u8"] * 3)}
    tensors["größe"] = numpy.array(3.5)
    file = folder / "theirs.safetensors"
    safetensors.numpy.save_file(tensors, file, metadata={"format": "np", "note": 'a "b"'})
    size, = struct.unpack("<Q", file.read_bytes()[:8])
    upstream = json.loads(file.read_bytes()[8:8 + size])
    del upstream["__metadata__"]
    found = json.loads(parse(file).stdout)
    equal(found["data_at"], 8 + size)
    equal({name: (dtype, shape, offsets) for name, dtype, shape, offsets in found["entries"]},
          {name: (e["dtype"], e["shape"], e["data_offsets"]) for name, e in upstream.items()})


@case("our parser refuses what upstream refuses")
def damaged():
    file = folder / "small.safetensors"
    safetensors.numpy.save_file({"a": numpy.zeros((2, 3), "f4"), "b": numpy.zeros(4, "i2")}, file)
    good, refused = file.read_bytes(), 0
    for at in range(len(good) - 32):
        for bit in (0, 3, 6):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            try:
                safetensors.deserialize(bytes(bad))
                upstream = True
            except Exception:
                upstream = False
            file.write_bytes(bad)
            we = parse(file).returncode == 0
            # we are stricter: no control characters in names
            assert upstream or not we, f"byte {at} bit {bit}: we accept what upstream refuses"
            refused += not we
    assert refused > 50, f"only {refused} refused"


sys.exit(cases.end())
