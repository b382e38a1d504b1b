"""Safetensors files written by hand, of any type and with any metadata: what packages refuse to write, tests must."""

import json
import struct

import numpy

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "I16": 2, "U16": 2,
         "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}
NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4", "F32": "<f4",
         "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8"}


def write(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)} or {name: (dtype, array)}."""
    header, body = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, *rest) in tensors.items():
        shape, raw = rest if len(rest) == 2 else (list(numpy.shape(rest[0])), numpy.ascontiguousarray(rest[0]).astype(NUMPY[dtype]).tobytes())
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read(path):
    """{name: (dtype, shape, bytes)} and the metadata."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__", {})
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in header.items()}, metadata
