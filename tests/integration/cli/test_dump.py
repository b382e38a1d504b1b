"""ckpt dump: whole tensors, put together from pieces of every shape; numpy reads what is written."""

import io
import os
import random
import subprocess
import sys

from offline import BIN, CORRUPT, FAILED, NO_REPO, OK, USAGE, case, cases, ckpt, data, equal, flip, has, make, packages, run, top

packages("numpy")
import numpy  # noqa: E402

import handmade_safetensors  # noqa: E402

repo = top / "repo"
make(repo, 1, "--world", 4, "--rows", 130, "--cols", 96)
ckpt("restore", 1, "--to", top / "whole", "--repo", repo)
truth = {}
for path in (top / "whole").glob("*.safetensors"):
    truth.update(handmade_safetensors.read(path)[0])


def dump(name, *options, code=OK):
    return run("dump", 1, name, "--repo", repo, *options, code=code)


def load(name, *options):
    return numpy.load(io.BytesIO(dump(name, *options)[0]), allow_pickle=False)


def array(name):
    dtype, shape, raw = truth[name]
    return numpy.frombuffer(raw, handmade_safetensors.NUMPY.get(dtype, f"<u{handmade_safetensors.SIZES[dtype]}")).reshape(shape)


@case("every tensor is what restore writes, raw and for numpy")
def _():
    for name, (dtype, shape, raw) in truth.items():
        equal(dump(name, "--format", "raw")[0], raw, name)
        one = load(name, "--format", "npy")
        equal((list(one.shape), one.tobytes()), (shape, raw), name)
        if dtype in handmade_safetensors.NUMPY:
            equal(one.dtype, numpy.dtype(handmade_safetensors.NUMPY[dtype]), name)
    equal(dump("loader")[0], truth["loader"][2], "blobs are raw by default")
    equal(dump("bias")[0][:6], b"\x93NUMPY", "tensors are npy by default")


@case("every type has a place in numpy; BF16 and F8 become whole numbers, and that is said")
def _():
    tensors = {name: (name, [3], bytes(range(3 * size))) for name, size in handmade_safetensors.SIZES.items() if name != "BOOL"}
    handmade_safetensors.write(top / "types" / "model.safetensors", tensors)
    ckpt("import", top / "types", "--format", "hf", "--repo", top / "types-repo")
    for name, (_, _, raw) in tensors.items():
        out, err = run("dump", "latest", name, "--repo", top / "types-repo")
        one = numpy.load(io.BytesIO(out))
        equal((one.tobytes(), one.dtype), (raw, numpy.dtype(handmade_safetensors.NUMPY.get(name, f"<u{handmade_safetensors.SIZES[name]}"))), name)
        equal("numpy has no type" in err, name not in handmade_safetensors.NUMPY, err)
    equal(run("dump", "latest", "BF16", "--repo", top / "types-repo", "-q")[1], "")


@case("slices are those of numpy")
def _():
    draw = random.Random(3)
    w = array("colwise")
    for text, part in ((":", w), ("3", w[3]), ("-1,:", w[-1]), ("2:5", w[2:5]), (":,7", w[:, 7]), ("5:,:-90", w[5:, :-90]),
                       ("4:4", w[4:4]), ("-3:-1, 95:", w[-3:-1, 95:]), ("0,0", w[0, 0])):
        one = load("colwise", f"--slice={text}")
        equal((one.shape, one.tobytes()), (part.shape, part.tobytes()), text)
    for _ in range(20):
        r, c = sorted(draw.choices(range(131), k=2)), sorted(draw.choices(range(97), k=2))
        part = array("moment")[r[0]:r[1], c[0]:c[1]]
        one = load("moment", f"--slice={r[0]}:{r[1]},{c[0]}:{c[1]}")
        equal((one.shape, one.tobytes()), (part.shape, part.tobytes()), (r, c))
    for text in ("131", "0:200", "5:3", "1,2,3", "x", "1:2:3", "", ",", "--1", "-200", "99999999999999999999"):
        equal(dump("colwise", f"--slice={text}", code=USAGE)[0], b"", text)


@case("FILE appears complete or not at all; what is no file is written in place")
def _():
    out = top / "out.npy"
    out.write_text("old")
    document = data("dump", 1, "rowwise", "--repo", repo, "--output", out)
    equal((document["tensor"], document["dtype"], document["shape"], document["format"]), ("rowwise", "F32", [130, 96], "npy"))
    equal(numpy.load(out).tobytes(), truth["rowwise"][2])
    mask = os.umask(0o022)
    os.umask(mask)
    equal(out.stat().st_mode & 0o777, 0o666 & ~mask)
    dump("rowwise", "--output", "/dev/null")
    equal(dump("loader", "--output", "-")[0], truth["loader"][2])
    has(dump("loader", "--output", top / "none" / "x", code=FAILED)[1], "cannot create")
    has(dump("loader", "--json", code=USAGE)[1], "--output")
    equal(sorted(p.name for p in top.glob("out*")), ["out.npy"])


@case("damage: nothing of it is written, exit code 21")
def _():
    bad = top / "bad"
    make(bad, 1, "--world", 2)
    flip(next((bad / "main" / "step-000000000001.e0001").glob("*-00001-of*.optimizer.safetensors")), 4096 + 100)
    has(run("dump", 1, "moment", "--repo", bad, "--output", top / "bad.npy", code=CORRUPT)[1], "moment")
    equal(sorted(p.name for p in top.glob("bad.npy*")), [])
    run("dump", 1, "moment", "--slice", "0:2", "--repo", bad)


@case("a reader that goes away is no error; a tensor that is not there is")
def _():
    first = subprocess.run(f"{BIN}/ckpt dump 1 moment --repo {repo} | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}",
                           shell=True, executable="/bin/bash", capture_output=True, text=True)
    equal((first.returncode, first.stderr), (0, ""))
    has(dump("nothing", code=FAILED)[1], "no tensor nothing")
    dump("moment", "--format", "hdf5", code=USAGE)
    run("dump", 1, "moment", "--repo", top / "none", code=NO_REPO)


sys.exit(cases.end())
