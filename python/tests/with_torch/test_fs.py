"""Checkpoints through fsspec: what there is, each byte of it, and that nothing writes."""

import time

import fsspec
import numpy
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.numpy import load
from torch.distributed.checkpoint import FsspecWriter
from torch.distributed.checkpoint.api import CheckpointException

import ckpt

STATE = {"a": numpy.arange(24, dtype="f4").reshape(4, 6), "b/c": numpy.arange(7, dtype="i8"), "empty": numpy.zeros((0, 3), "f8")}


@pytest.fixture(scope="module")
def fs(service):
    ends = time.monotonic() + 60
    with ckpt.Session("files", service.socket, world=1, timeout=max(1, ends - time.monotonic())) as s:
        for name, array in STATE.items():
            s.register(name, array)
        s.register_sized_blob("note", 100)
        s.join()
        for step in (5, 9):
            STATE["a"][0, 0] = step
            s.set_blob("note", f"step {step}".encode())
            snapshot = s.begin(step)
            snapshot.fence()
            snapshot.wait(ckpt.DURABLE)
    return fsspec.filesystem("ckpt", store=service.store)


def test_what_there_is(fs):
    assert fs.ls("", detail=False) == ["files"]
    steps = fs.ls("files", detail=False)
    assert len(steps) == 2 and all(s.startswith("files/step-") for s in steps)
    names = {f["name"]: f for f in fs.ls("ckpt://files/latest")}
    assert set(names) == {f"files/latest/{n}" for n in ("checkpoint.safetensors", "note", *STATE)}
    assert names["files/latest/a"]["shape"] == (4, 6) and names["files/latest/a"]["dtype"] == "F32" and names["files/latest/a"]["size"] == 96
    assert fs.isdir("files/9") and fs.isfile("files/9/b/c") and not fs.exists("files/7") and not fs.exists("files/9/d") and not fs.exists("others")


def test_each_byte(fs, service):
    assert fs.cat("files/latest/b/c") == STATE["b/c"].tobytes() and fs.cat("files/5/empty") == b""
    assert fs.cat("files/5/note") == b"step 5" and fs.cat("files/9/note") == b"step 9"
    with fs.open("files/5/a", block_size=5) as f:
        first = numpy.frombuffer(f.read(), "f4")
        assert first[0] == 5 and (first[1:] == STATE["a"].reshape(-1)[1:]).all()
        f.seek(8)
        assert f.read(4) == STATE["a"].tobytes()[8:12]
    with fsspec.open("ckpt://files/latest/checkpoint.safetensors", store=service.store) as f:
        found = load(f.read())
    assert set(found) == set(STATE) and all(numpy.array_equal(found[n], STATE[n]) for n in STATE)


def test_a_damaged_byte_is_found(service, tmp_path):
    with ckpt.Session("hurt", service.socket, world=1, timeout=60) as s:
        s.register("a", numpy.ones(4096, "f4"))
        s.join()
        snapshot = s.begin(1)
        snapshot.fence()
        snapshot.wait(ckpt.DURABLE)
    path = next(p for p in (service.store / "hurt").rglob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(ckpt.Damaged):
        fsspec.filesystem("ckpt", store=service.store).cat("hurt/1/a")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_nothing_writes(fs):
    for call in (lambda: fs.open("files/9/a", "wb"), lambda: fs.mkdir("files/10"), lambda: fs.rm_file("files/9/a"), lambda: fs.pipe("x/1/a", b"x")):
        with pytest.raises(OSError, match="ckpt:// is only read"):
            call()
    with pytest.raises(CheckpointException, match="ckpt:// is only read"):
        dcp.save({"a": torch.zeros(2)}, storage_writer=FsspecWriter("ckpt://files/10", store=fs.store), no_dist=True)
