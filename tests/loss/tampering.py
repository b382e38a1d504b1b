"""What another release of ckpt, or somebody else, may have left in a store."""

import ctypes
import json

from tap import expect

SEAL = 44  # bytes: ,"root":"<32 hexadecimal digits>"} LF


class Digest(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def digest(data):
    """Of metadata, as docs/reference/format.md has it: XXH3-128, in its canonical form."""
    xxhash = ctypes.CDLL("libxxhash.so.0")
    xxhash.XXH3_128bits.restype = Digest
    xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found = xxhash.XXH3_128bits(data, len(data))
    return f"{found.high:016x}{found.low:016x}"


def read(path):
    data = path.read_bytes()
    body, seal = data[:-SEAL], data[-SEAL:]
    expect(seal == f',"root":"{digest(body)}"}}\n'.encode(), f"{path} is not sealed")
    document = json.loads(data)
    del document["root"]
    return document


def write(path, document):
    """The bytes that were written, with a seal of their own."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    data = body + f',"root":"{digest(body)}"}}\n'.encode()
    path.write_bytes(data)
    return data


def checkpoints(job):
    """The committed ones, oldest first."""
    return sorted((path.parent for path in job.glob("step-*/MANIFEST.json")), key=lambda path: (path.name.split(".e")[1], path.name))


def older(store, job):
    """As releases have written them that did not tell how a run began."""
    for path in checkpoints(store / job):
        manifest = read(path / "MANIFEST.json")
        for node in manifest["nodes"]:
            document = read(path / node["file"])
            document.pop("began", None)
            data = write(path / node["file"], document)
            node.update(size=len(data), digest=digest(data))
        manifest.pop("began", None)
        write(path / "MANIFEST.json", manifest)


def newer(store, job):
    """The newest as a release will write it that this one cannot read."""
    for path in checkpoints(store / job)[-1:]:
        manifest = read(path / "MANIFEST.json")
        manifest["version"] = 2
        write(path / "MANIFEST.json", manifest)


STRANGE = ("notes.txt", "{job}/README", "{job}/step-of-mine/data", "{job}/.nfs0001", "backup/step-000000000005.e0001/MANIFEST.json", "old/x")


def strange(store, job):
    for name in STRANGE:
        path = store / name.format(job=job)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")


def check_strange(store, job):
    for name in STRANGE:
        path = store / name.format(job=job)
        expect(path.exists() and path.read_text() == "mine", f"{path} is not what it was")
