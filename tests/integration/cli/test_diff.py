"""ckpt diff: what has changed is found whatever the layout, in every type, and nothing that is equal is read."""

import random
import shutil
import sys

from offline import CORRUPT, DIFFERENT, FAILED, NO_REPO, USAGE, case, cases, ckpt, data, equal, flip, has, make, packages, top

packages("numpy")
import numpy  # noqa: E402

import handmade_safetensors  # noqa: E402

repo = top / "repo"


def put(step, tensors, where=repo):
    folder = top / f"import-{step}"
    shutil.rmtree(folder, ignore_errors=True)
    handmade_safetensors.write(folder / "model.safetensors", tensors)
    ckpt("import", folder, "--format", "hf", "--repo", where, "--step", step, "--epoch", 1)


def diff(a, b, *options, where=repo, code=DIFFERENT):
    document = data("diff", a, b, "--repo", where, *options, code=code)
    return document, {t["name"]: t for t in document["tensors"]}


def f32(*values):
    return ("F32", numpy.array(values, "f4"))


@case("equal checkpoints: exit code 0, and no data is read")
def _():
    make(top / "same", 1, "--world", 4)
    make(top / "same", 2, "--world", 4)
    document, tensors = diff(1, 2, where=top / "same", code=0)
    equal((document["different"], document["bytes_read"], tensors, document["unchanged"]), (False, 0, {}, 12))
    has(ckpt("diff", 1, 2, "--repo", top / "same")[0], "12 unchanged", "0 B of")


@case("one element of many: only its leaf is read; value, place and ratio are told")
def _():
    a = numpy.arange(400 * 1000, dtype="f4").reshape(400, 1000) + 1
    b = a.copy()
    b[123, 45] += 0.5
    put(10, {"w": ("F32", a), "same": f32(1, 2)})
    put(11, {"w": ("F32", b), "same": f32(1, 2)})
    document, tensors = diff(10, 11)
    equal(document["bytes_read"], 2 * 65536)
    w = tensors["w"]
    equal((w["state"], w["elements"], w["first"], w["max_abs"]["at"]), ("changed", 1, [123, 45], [123, 45]))
    equal((w["max_abs"]["value"], w["max_abs"]["a"], w["max_abs"]["b"]), (0.5, float(a[123, 45]), float(b[123, 45])))
    equal(abs(w["max_rel"]["value"] - 0.5 / b[123, 45]) < 1e-12, True)
    equal(set(tensors), {"w"})
    has(ckpt("diff", 10, 11, "--repo", repo, code=DIFFERENT)[0], "[123, 45]", "1 changed", "1 unchanged")


@case("every type: the largest difference is that of numpy")
def _():
    rng = numpy.random.default_rng(1)
    one, two = {}, {}
    for name in ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "F64", "I64", "U64"):
        kind = numpy.dtype(handmade_safetensors.NUMPY[name])
        raw = [rng.integers(0, 256, 600 * kind.itemsize, "u1") for _ in range(2)]
        pair = [numpy.frombuffer((r & 1 if name == "BOOL" else r).tobytes(), kind) for r in raw]
        one[name], two[name] = ((name, p) for p in pair)
    put(20, one)
    put(21, two)
    _, tensors = diff(20, 21)
    for name, t in tensors.items():
        a, b = (numpy.array(x[name][1]) for x in (one, two))
        changed = a.view(f"u{a.itemsize}") != b.view(f"u{a.itemsize}")
        equal(t["elements"], int(changed.sum()), name)
        if name.startswith("F"):
            finite = numpy.isfinite(a) & numpy.isfinite(b)
            equal((t["nan"], t["inf"]), ({"a": int(numpy.isnan(a[changed]).sum()), "b": int(numpy.isnan(b[changed]).sum())},
                                         {"a": int(numpy.isinf(a[changed]).sum()), "b": int(numpy.isinf(b[changed]).sum())}), name)
            with numpy.errstate(all="ignore"):
                apart = numpy.where(finite, abs(a.astype("f8") - b.astype("f8")), 0)
            due, at = min(float(apart.max()), sys.float_info.max), int(apart.argmax())
        else:
            apart = [abs(int(x) - int(y)) for x, y in zip(a, b)]
            due, at = float(max(apart)), apart.index(max(apart))
        equal(t["max_abs"]["value"], due, name)
        if name not in ("F64", "I64", "U64"):  # where doubles cannot tell, the place may be that of an equal one
            equal(t["max_abs"]["at"], [at], name)


@case("types that numpy lacks: BF16 and the variants of F8")
def _():
    def bits(name, *values):
        return (name, [len(values)], b"".join(v.to_bytes(handmade_safetensors.SIZES[name], "little") for v in values))
    put(30, {"bf": bits("BF16", 0x3f80, 0x4000, 0), "e4": bits("F8_E4M3", 0x38, 0x7f, 0x01), "e5": bits("F8_E5M2", 0x3c, 0x7c, 1),
             "e8": bits("F8_E8M0", 127, 255), "f4": bits("F8_E4M3FNUZ", 0x40, 0x80), "f5": bits("F8_E5M2FNUZ", 0x40, 0)})
    put(31, {"bf": bits("BF16", 0x3fc0, 0x4000, 0x7fc0), "e4": bits("F8_E4M3", 0x40, 0x00, 0x02), "e5": bits("F8_E5M2", 0x40, 0, 2),
             "e8": bits("F8_E8M0", 129, 127), "f4": bits("F8_E4M3FNUZ", 0x48, 0), "f5": bits("F8_E5M2FNUZ", 0x44, 0x80)})
    _, t = diff(30, 31)
    equal([t[n]["max_abs"]["value"] for n in ("bf", "e4", "e5", "e8", "f4", "f5")], [0.5, 1, 1, 3, 1, 1])
    equal((t["bf"]["nan"], t["bf"]["first_odd"]), ({"a": 0, "b": 1}, [2]))
    equal((t["e4"]["nan"]["a"], t["e5"]["inf"]["a"], t["e8"]["nan"]["a"], t["f4"]["nan"]["a"], t["f5"]["nan"]["b"]), (1, 1, 1, 1, 1))
    equal((t["e5"]["max_rel"]["at"], t["e5"]["max_abs"]["at"]), ([0], [0]))


@case("NaN and infinity: counted, placed, and kept out of the extremes")
def _():
    inf, nan = float("inf"), float("nan")
    put(40, {"w": f32(1, nan, 3, inf, 0), "n": f32(nan, nan), "z": f32(0)})
    put(41, {"w": f32(1, 2, nan, 4, 0.25), "n": f32(nan, nan), "z": f32(-0.0)})
    _, t = diff(40, 41)
    w = t["w"]
    equal((w["elements"], w["nan"], w["inf"], w["first_odd"]), (4, {"a": 1, "b": 1}, {"a": 1, "b": 0}, [2]))
    equal((w["max_abs"]["value"], w["max_abs"]["at"], w["max_rel"]["value"]), (0.25, [4], 1.0))
    equal("n" in t, False, "NaNs of the same bits are alike")
    equal((t["z"]["elements"], t["z"]["max_abs"]["value"]), (1, 0.0))


@case("added, removed, retyped, blobs; patterns and the summary")
def _():
    put(50, {"a": f32(1), "gone": f32(1), "t": f32(1, 2), "s": f32(1, 2)})
    put(51, {"a": f32(1), "new": f32(1), "t": ("F16", numpy.array([1, 2], "f2")), "s": ("F32", numpy.array([[1, 2]], "f4"))})
    document, t = diff(50, 51)
    equal({n: x["state"] for n, x in t.items()}, {"gone": "removed", "new": "added", "t": "retyped", "s": "retyped"})
    equal((document["added"], document["removed"], document["retyped"], document["unchanged"]), (1, 1, 2, 1))
    equal(diff(50, 51, "--tensor", "a", code=0)[0]["unchanged"], 1)
    equal(set(diff(50, 51, "--tensor", "g*", "--tensor", "n*")[1]), {"gone", "new"})
    equal(diff(50, 51, "--summary")[1], {})
    equal(len(ckpt("diff", 50, 51, "--summary", "--repo", repo, code=DIFFERENT)[0].splitlines()), 1)
    has(ckpt("diff", 50, 51, "--tensor", "zz", "--repo", repo, code=FAILED)[1], "--tensor")


@case("other numbers of ranks and other partitions are compared by content")
def _():
    where = top / "cuts"
    make(where, 1, "--world", 4)
    make(where, 2, "--world", 3)
    make(where, 3, "--world", 3, "--seed", 9)
    document, t = diff(1, 2, where=where)
    equal({n: x["state"] for n, x in t.items()}, {"rng@00003": "removed"})
    _, t = diff(1, 3, where=where)
    _, same_cut = diff(2, 3, where=where)
    for name in ("rowwise", "colwise", "moment", "embed", "bias", "scale"):
        equal(t[name], same_cut[name], name)
    # A damaged digest tree is not needed to see this: the oracle is numpy, over what restore writes.
    for step in (1, 3):
        ckpt("restore", step, "--to", top / f"whole-{step}", "--repo", where)
    a, b = (handmade_safetensors.read(top / f"whole-{s}" / "params.safetensors")[0]["colwise"] for s in (1, 3))
    a, b = (numpy.frombuffer(x[2], "<f4").reshape(x[1]) for x in (a, b))
    finite = numpy.isfinite(a) & numpy.isfinite(b)
    with numpy.errstate(all="ignore"):
        apart = numpy.where(finite, abs(a.astype("f8") - b.astype("f8")), 0)
    equal(t["colwise"]["max_abs"]["value"], float(apart.max()))
    equal(t["colwise"]["max_abs"]["at"], [int(x) for x in numpy.unravel_index(apart.argmax(), apart.shape)])


@case("random changes in random places are all found")
def _():
    draw = random.Random(7)
    a = numpy.frombuffer(draw.randbytes(4 * 300 * 1000), "<u4").reshape(300, 1000)
    for n in (1, 5, 60):
        b, places = a.copy(), {(draw.randrange(300), draw.randrange(1000)) for _ in range(n)}
        for place in places:
            b[place] ^= 1 << draw.randrange(32)
        put(60, {"w": ("U32", a)}, where=top / f"random{n}")
        put(61, {"w": ("U32", b)}, where=top / f"random{n}")
        _, t = diff(60, 61, where=top / f"random{n}")
        equal(t["w"]["elements"], len(places))
        equal(t["w"]["first"], list(min(places)))
        apart = abs(a.astype("i8") - b.astype("i8"))
        equal(t["w"]["max_abs"]["value"], float(apart.max()))


@case("damage in what is read is named and is exit code 21")
def _():
    file = next((repo / "default" / "step-000000000011.e0001").glob("*.safetensors"))
    flip(file, file.stat().st_size - 4 * (400 * 1000 - 123045))
    has(ckpt("diff", 10, 11, "--repo", repo, code=CORRUPT)[1], file.name, "tensor w", "damaged")
    flip(next((top / "cuts" / "main" / "step-000000000003.e0001").glob("*-00001-*.params.safetensors")), 4096 + 8)
    ckpt("diff", 1, 3, "--repo", top / "cuts", code=CORRUPT)


@case("wrong usage")
def _():
    ckpt("diff", 1, "--repo", repo, code=USAGE)
    ckpt("diff", 1, 2, 3, "--repo", repo, code=USAGE)
    ckpt("diff", 1, 2, "--repo", top / "none", code=NO_REPO)
    has(ckpt("diff", 10, 4711, "--repo", repo, code=FAILED)[1], "no checkpoint 4711")


sys.exit(cases.end())
