"""ckpt export and import: what other programs read and write. The way out and back keeps every byte; hostile and incomplete
directories become no checkpoint."""

import errno
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys

import single_node
from offline import (BIN, CANCELLED, FAILED, LOCKED, OK, PARTIAL, USAGE, case, cases, ckpt, data, equal, flip, has, make, packages,
                     run, top)
from seccomp import forbid

packages("numpy", "safetensors")
import numpy  # noqa: E402
from safetensors import safe_open  # noqa: E402

import handmade_safetensors  # noqa: E402

repo = top / "repo"
make(repo, 1, "--world", 4, "--rows", 130, "--cols", 96)
TENSORS = {"embed", "bias", "scale", "empty", "rowwise", "colwise", "moment"}


def raw(step, name, where=repo):
    return run("dump", step, name, "--format", "raw", "--repo", where)[0]


truth = {name: raw(1, name) for name in TENSORS}


def listing(folder):
    return sorted(p.name for p in folder.iterdir())


def check(where, names=TENSORS):
    """The checkpoint is whole, and its tensors are those that were exported."""
    ckpt("verify", "latest", "--repo", where)
    equal({t["name"] for t in data("ls", "latest", "--repo", where)["tensors"]}, set(names))
    for name in names:
        equal(raw("latest", name, where), truth[name], name)


# ---- the way out

@case("hf: one file of whole tensors, which the safetensors package reads; blobs are left out, aloud")
def _():
    err = ckpt("export", 1, "--to", top / "hf", "--format", "hf", "--repo", repo)[1]
    has(err, "5 blobs", "--group params")
    equal(listing(top / "hf"), ["model.safetensors"])
    with safe_open(top / "hf" / "model.safetensors", "np") as f:
        equal(f.metadata()["format"], "pt")
        equal(set(f.keys()), TENSORS)
        for name in TENSORS - {"embed"}:  # numpy has no BF16
            equal(f.get_tensor(name).tobytes(), truth[name], name)


@case("hf: several files have an index, as transformers expects it")
def _():
    document = data("export", 1, "--to", top / "parts", "--format", "hf", "--group", "params", "--max-file", 60000, "--repo", repo)
    files = [n for n in listing(top / "parts") if n.endswith(".safetensors")]
    equal((document["format"], document["files"], document["tensors"]), ("hf", len(files), len(TENSORS) - 1))
    equal(files, [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))])
    index = json.loads((top / "parts" / "model.safetensors.index.json").read_text())
    found = {}
    for name in files:
        for tensor, (_, _, bytes_) in handmade_safetensors.read(top / "parts" / name)[0].items():
            equal(index["weight_map"][tensor], name)
            found[tensor] = bytes_
    equal(found, {n: b for n, b in truth.items() if n != "moment"})
    equal(index["metadata"]["total_size"], sum(len(b) for b in found.values()))
    equal(len(files) > 1, True)


@case("dcp-hf: shards by the names and metadata of PyTorch's HuggingFaceStorageWriter")
def _():
    for world, options in ((4, []), (3, ["--world", 3])):
        to = top / f"dcp{world}"
        ckpt("export", 1, "--to", to, "--format", "dcp-hf", "--repo", repo, *options)
        equal(listing(to), [f"shard-{r + 1:05}-model-00001-of-00001.safetensors" for r in range(world)])
        reached, whole = {}, {}
        for path in sorted(to.iterdir()):
            entries, metadata = handmade_safetensors.read(path)
            sharding = json.loads(metadata["DCP_SHARDING_INFO"])
            equal(metadata["DCP_VERSION"], "1.0")
            equal(set(sharding), set(entries), "an entry without it makes the reader fail")
            for name, (dtype, shape, bytes_) in entries.items():
                offsets = sharding[name]["saved_offsets"]
                equal(len(offsets), len(shape), name)
                # What that reader does: the size of a tensor is as far as its chunks reach; here they are rows, in order.
                reached[name] = [max(a, o + s) for a, o, s in zip(reached.get(name, [0] * len(shape)), offsets, shape)]
                whole[name] = whole.get(name, b"") + bytes_
        equal(whole, truth)
        equal(reached, {t["name"]: t["shape"] for t in data("ls", 1, "--repo", repo)["tensors"] if t["name"] in TENSORS})


@case("safetensors: the same files as restore")
def _():
    for options in ([], ["--world", 3], ["--max-file", 60000]):
        shutil.rmtree(top / "plain", ignore_errors=True)
        shutil.rmtree(top / "restored", ignore_errors=True)
        ckpt("export", 1, "--to", top / "plain", "--format", "safetensors", "--repo", repo, *options)
        ckpt("restore", 1, "--to", top / "restored", "--repo", repo, *options)
        equal({p.name: p.read_bytes() for p in (top / "plain").iterdir()}, {p.name: p.read_bytes() for p in (top / "restored").iterdir()})


@case("export: usage, damage and an older checkpoint in place of the newest")
def _():
    to = top / "none"
    ckpt("export", 1, "--to", to, "--repo", repo, code=USAGE)
    ckpt("export", 1, "--to", to, "--format", "onnx", "--repo", repo, code=USAGE)
    ckpt("export", 1, "--to", to, "--format", "hf", "--world", 2, "--repo", repo, code=USAGE)
    ckpt("export", 1, "--format", "hf", "--repo", repo, code=USAGE)
    bad = top / "bad"
    make(bad, 1)
    make(bad, 2)
    flip(next((bad / "main" / "step-000000000002.e0001").glob("*-00001-*.optimizer.safetensors")), 5000)
    has(ckpt("export", 2, "--to", to, "--format", "hf", "--repo", bad, code=21)[1], "moment")
    equal(to.exists(), False)
    document = data("export", "latest", "--to", to, "--format", "hf", "--repo", bad, code=PARTIAL)
    equal((document["step"], [p["step"] for p in document["passed_over"]]), (1, [2]))


def sources(name, **files):
    folder = top / name
    folder.mkdir()
    for file, content in files.items():
        (folder / file.replace("__", ".")).write_bytes(content)
    return folder


@case("--with: files and those of directories stand beside the tensors, and the directory is a model")
def _():
    base, words = sources("base", config__json=b'{"architectures":["Small"]}'), sources("words", tokenizer__json=os.urandom(3 << 20), merges__txt=b"", dot__model=b"m")
    (words / ".git").mkdir()
    (words / "vocab.json").symlink_to(sources("hub", blob=b'{"a":1}') / "blob")
    for form in ("hf", "dcp-hf", "safetensors"):
        to = top / f"with-{form}"
        bare = data("export", 1, "--to", to, "--format", form, "--group", "params", "--repo", repo)
        equal(bare["with"], [])
        tensors = {p.name: p.read_bytes() for p in to.iterdir()}
        shutil.rmtree(to)
        document = data("export", 1, "--to", to, "--format", form, "--group", "params", "--repo", repo, "--with", base / "config.json", f"--with={words}/")
        equal(document["with"], ["config.json", "dot.model", "merges.txt", "tokenizer.json", "vocab.json"])
        equal((document["files"], document["bytes"]), (bare["files"], bare["bytes"]))
        equal({p.name: p.read_bytes() for p in to.iterdir()},
              tensors | {"config.json": (base / "config.json").read_bytes()} | {p.name: p.read_bytes() for p in words.iterdir() if p.is_file()})
        equal(any(p.is_symlink() for p in to.iterdir()), False)
    data("import", top / "with-hf", "--format", "hf", "--repo", top / "with-back")
    shutil.rmtree(top / "with-hf")
    has(ckpt("export", 1, "--to", top / "with-hf", "--format", "hf", "--repo", repo, "--with", base / "config.json")[0], "and 1 beside them")


@case("--with: what cannot stand there is refused before anything is written")
def _():
    to, config = top / "with-none", sources("config", config__json=b"{}") / "config.json"
    pipe = top / "pipe.json"
    os.mkfifo(pipe)
    nested, empty = sources("nested", a__json=b""), sources("nothing")
    (nested / "original").mkdir()
    for path, *words in ((config, config, "have one name"), (sources("twice", config__json=b"[]"), config, "have one name"),
                         (sources("w1", model__safetensors=b""), "model.safetensors", "name the files"),
                         (sources("w2", other__safetensors=b"") / "other.safetensors", "other.safetensors"),
                         (sources("w3", model__safetensors__index__json=b""), "index.json"), (sources("w4", a__ckptz=b""), "a.ckptz"),
                         (top / "nowhere", "No such file"), (pipe, "pipe.json", "no file"), (nested, "original", "a directory"), (empty, "no files")):
        _, err = ckpt("export", 1, "--to", to, "--format", "hf", "--repo", repo, "--with", config, "--with", path, code=FAILED)
        has(err, "--with: ", *map(str, words))
        equal([to.exists(), list(top.glob(".with-none*"))], [False, []], path)
    _, err = ckpt("export", 1, "--to", to, "--format", "hf", "--repo", repo, "--with", config, code=FAILED, preexec_fn=forbid("fsync", errno.EIO))
    has(err, "syncing config.json: Input/output error")
    equal([to.exists(), list(top.glob(".with-none*"))], [False, []])
    ckpt("restore", 1, "--to", to, "--repo", repo, "--with", config, code=USAGE)
    ckpt("export", 1, "--to", to, "--format", "hf", "--repo", repo, "--with=", code=USAGE)


@case("--with: an older checkpoint in place of the newest has the files, too; one that is damaged leaves none")
def _():
    bad, to, config = top / "with-bad", top / "with-older", sources("older", config__json=b"{}")
    make(bad, 1)
    make(bad, 2)
    flip(next((bad / "main" / "step-000000000002.e0001").glob("*-00001-*.params.safetensors")), 5000)
    ckpt("export", 2, "--to", to, "--format", "hf", "--repo", bad, "--with", config, code=21)
    equal([to.exists(), list(top.glob(".with-older*"))], [False, []])
    equal((data("export", "latest", "--to", to, "--format", "hf", "--repo", bad, "--with", config, code=PARTIAL)["step"], (to / "config.json").read_bytes()), (1, b"{}"))


# ---- the way back

@case("what was exported in any format comes back byte for byte, and verifies")
def _():
    for n, (folder, form, names) in enumerate((("hf", "hf", TENSORS), ("parts", "hf", TENSORS - {"moment"}), ("dcp4", "dcp-hf", TENSORS),
                                               ("dcp3", "dcp-hf", TENSORS), ("hf", "safetensors", TENSORS))):
        where = top / f"back{n}"
        document = data("import", top / folder, "--format", form, "--repo", where, "--job", "new")
        equal((document["job"], document["step"], document["epoch"], document["tensors"]), ("new", 0, 1, len(names)))
        check(where, names)
        if names == TENSORS:
            shutil.copytree(where / "new", repo / "new", dirs_exist_ok=True)


@case("safetensors: groups, and blobs as tensors, come back from what restore writes for any number of ranks")
def _():
    for n, options in enumerate(([], ["--world", 3], ["--max-file", 60000], ["--world", 5, "--max-file", 40000])):
        folder, where = top / f"r{n}", top / f"r{n}-repo"
        ckpt("restore", 1, "--to", folder, "--repo", repo, "--job", "main", *options)
        ckpt("import", folder, "--format", "safetensors", "--repo", where)
        ckpt("verify", "latest", "--repo", where)
        equal({g["name"] for g in data("stats", "latest", "--repo", where)["groups"]}, {"params", "optimizer"}, options)
        for name in TENSORS:
            equal(raw("latest", name, where), truth[name], name)
        equal(len(data("ls", "latest", "--repo", where)["tensors"]), 12)
    ckpt("import", top / "r0", "--format", "safetensors", "--repo", where, "--group", "all")
    equal([g["name"] for g in data("stats", "latest", "--repo", where)["groups"]], ["all"])


@case("flat ranges of a checkpoint's own files come back")
def _():
    step, folder = repo / "main" / "step-000000000001.e0001", top / "own"
    folder.mkdir()
    for path in step.glob("*.safetensors"):
        shutil.copy(path, folder)
    ckpt("import", folder, "--format", "safetensors", "--repo", top / "own-repo")
    ckpt("verify", "latest", "--repo", top / "own-repo")
    for name in TENSORS:
        equal(raw("latest", name, top / "own-repo"), truth[name], name)


@case("step, epoch and job: the import is the latest, and nothing is written twice")
def _():
    where = top / "epochs"
    make(where, "500.7", "--job", "gpt")
    equal(data("import", top / "hf", "--format", "hf", "--repo", where, "--job", "gpt")["epoch"], 8)
    equal(data("show", "latest", "--repo", where)["epoch"], 8)
    equal(data("import", top / "hf", "--format", "hf", "--repo", where, "--job", "gpt", "--step", 9, "--epoch", 3)["name"],
          "step-000000000009.e0003")
    before = sorted((str(p), p.stat().st_mtime_ns) for p in where.rglob("*") if p.is_file())
    has(ckpt("import", top / "hf", "--format", "hf", "--repo", where, "--job", "gpt", "--step", 9, "--epoch", 3, code=FAILED)[1], "is there already")
    equal(sorted((str(p), p.stat().st_mtime_ns) for p in where.rglob("*") if p.is_file()), before)
    for wrong in (["--step", 10**12], ["--epoch", 10000], ["--group", "a/b"], ["--job", "../x"], ["--format", "x"]):
        ckpt("import", top / "hf", "--repo", where, *(["--format", "hf"] if "--format" not in wrong else []), *wrong, code=USAGE)
    ckpt("import", top / "hf", "--repo", where, code=USAGE)
    make(where, "1.9999", "--job", "old")
    has(ckpt("import", top / "hf", "--format", "hf", "--repo", where, "--job", "old", code=FAILED)[1], "9999")
    (top / "full").mkdir()
    (top / "full" / "x").write_text("x")
    has(ckpt("import", top / "hf", "--format", "hf", "--repo", top / "full", code=10)[1], "not a repository")


# ---- what must not become a checkpoint

def refused(folder, form, *parts):
    where = top / "refused"
    shutil.rmtree(where, ignore_errors=True)
    has(ckpt("import", folder, "--format", form, "--repo", where, code=FAILED)[1], *parts)
    equal(where.exists() and [str(p) for p in where.glob("*/*")], False, "nothing was written")


@case("files of a checkpoint that are packed are not left out without a word")
def _():
    folder = top / "packed-own"
    make(top / "packed-repo", 1, "--packed", "--weights")
    shutil.copytree(top / "packed-repo" / "main" / "step-000000000001.e0001", folder)
    handmade_safetensors.write(folder / "other.safetensors", {"w": ("F32", numpy.zeros(4, "f4"))})
    for form in ("safetensors", "hf"):
        refused(folder, form, ".ckptz is packed", "ckpt export")


@case("an incomplete or contradictory directory is refused, and both sides are named")
def _():
    folder = top / "broken"
    f = numpy.zeros((4, 4), "f4")

    def fresh(files, index=None):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, (tensors, metadata) in files.items():
            handmade_safetensors.write(folder / name, tensors, metadata)
        if index is not None:
            (folder / "model.safetensors.index.json").write_text(index)

    def dcp(**offsets):
        return {"format": "pt", "DCP_SHARDING_INFO": json.dumps({k: {"saved_offsets": v} for k, v in offsets.items()})}

    fresh({})
    refused(folder, "hf", "no .safetensors")
    refused(top / "missing", "hf", "cannot open")
    one = {"a.safetensors": ({"w": ("F32", f)}, None)}
    fresh(one, json.dumps({"weight_map": {"w": "a.safetensors", "v": "b.safetensors"}}))
    refused(folder, "hf", "b.safetensors")
    fresh(one, json.dumps({"weight_map": {"w": "a.safetensors", "v": "a.safetensors"}}))
    refused(folder, "hf", "says that v is in a.safetensors")
    sized = {"ckpt.version": "1", "ckpt.pieces": json.dumps({"w": {"tensor": "w", "shape": [16], "offset": [0], "sized": 1}})}
    for wrong in ({"w": ("F32", numpy.zeros(16, "f4"))}, {"w": ("U8", numpy.zeros(8, "u1"))}):
        fresh({"a.safetensors": (wrong, json.loads(json.dumps(sized).replace("[16]", str(list(wrong["w"][1].shape)))))})
        refused(folder, "safetensors", "w is called a blob of changing size", "U8 of more than 8 bytes")
    for wrong in ("../a.safetensors", "/etc/passwd", "", "x" * 300, ".safetensors"):
        fresh(one, json.dumps({"weight_map": {"w": wrong}}))
        refused(folder, "hf")
    for text in ("", "{", "[]", '{"weight_map":{"w":3}}', '{"weight_map":{},"weight_map":{}}', '{"weight_map":' + "[" * 1000):
        fresh(one, text)
        refused(folder, "hf", "index.json")
    fresh({"a.safetensors": ({"w": ("F32", f)}, None), "b.safetensors": ({"w": ("F32", f)}, None)})
    refused(folder, "hf", "w")
    fresh({"a.safetensors": ({"w": ("F32", f)}, None), "b.safetensors": ({"w": ("F32", f[:2])}, None)})
    refused(folder, "hf", "a.safetensors", "b.safetensors")
    fresh({"a.safetensors": ({"w": ("F32", f)}, None)})
    refused(folder, "dcp-hf", "DCP_SHARDING_INFO")
    for first, second, part in (([0, 0], [5, 0], "w"), ([0, 0], [2, 0], "w"), ([0, 0], [0], "offsets"), ([0, 0], [2**62, 0], "w"),
                                ([0, 0], [2**64, 0], ""), ([0, 0], [-1, 0], "")):
        fresh({"a.safetensors": ({"w": ("F32", f)}, dcp(w=first)), "b.safetensors": ({"w": ("F32", f)}, dcp(w=second))})
        refused(folder, "dcp-hf", part)
    fresh({"a.safetensors": ({"w": ("F32", f)}, {"DCP_SHARDING_INFO": "{"})})
    refused(folder, "dcp-hf", "DCP_SHARDING_INFO")
    for name in ("", "\x01", "x" * 600, "__metadata__x" * 50):
        fresh({"a.safetensors": ({name: ("F32", f)}, None)})
        refused(folder, "hf")
    handmade_safetensors.write(folder / "a.safetensors", {"w": ("F32", f)})
    whole = (folder / "a.safetensors").read_bytes()
    for cut in (0, 7, 8, 30, len(whole) - 1):
        (folder / "a.safetensors").write_bytes(whole[:cut])
        refused(folder, "hf", "a.safetensors")
    (folder / "a.safetensors").write_bytes(b"\xff" * 8 + whole[8:])
    refused(folder, "hf", "a.safetensors")
    (folder / "a.safetensors").unlink()
    (folder / "a.safetensors").mkdir()
    refused(folder, "hf", "is not a file")


@case("random damage of headers never crashes and never makes an unreadable checkpoint")
def _():
    draw, folder = random.Random(5), top / "fuzz"
    names = listing(top / "dcp3")
    for n in range(150 if not single_node.NIGHTLY else 5000):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(top / "dcp3", folder)
        path = folder / draw.choice(names)
        length = int.from_bytes(path.read_bytes()[:8], "little")
        flip(path, draw.randrange(8 + length), draw.randrange(8))
        shutil.rmtree(top / "fuzz-repo", ignore_errors=True)
        done = subprocess.run([BIN / "ckpt", "import", folder, "--format", "dcp-hf", "--repo", top / "fuzz-repo"], capture_output=True, text=True)
        if done.returncode == OK:
            ckpt("verify", "latest", "--repo", top / "fuzz-repo")
        else:
            equal(done.returncode, FAILED, done.stderr)
            equal([str(p) for p in (top / "fuzz-repo").glob("*/*")], [])


@case("many files with few descriptors; links of a cache are followed")
def _():
    folder, cache = top / "many", top / "cache"
    cache.mkdir()
    folder.mkdir()
    for i in range(200):
        handmade_safetensors.write(cache / f"blob{i}", {f"t{i:03}.{d}": (d, numpy.full(10, i % 100, handmade_safetensors.NUMPY[d])) for d in ("F64", "F32", "U8")})
        (folder / f"part-{i:03}.safetensors").symlink_to(cache / f"blob{i}")
    run("import", folder, "--format", "hf", "--repo", top / "many-repo",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120)))
    ckpt("verify", "latest", "--repo", top / "many-repo")
    equal(raw("latest", "t150.F64", top / "many-repo"), numpy.full(10, 50.0).tobytes())


@case("a lock that a daemon holds is exit code 11; an interrupt leaves nothing behind")
def _():
    where = top / "locked"
    ckpt("import", top / "hf", "--format", "hf", "--repo", where)
    with open(where / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        has(ckpt("import", top / "hf", "--format", "hf", "--repo", where, code=LOCKED)[1], "daemon")
    big = top / "big" / "model.safetensors"
    text = json.dumps({"w": {"dtype": "U8", "shape": [1 << 30], "data_offsets": [0, 1 << 30]}}).encode()
    big.parent.mkdir()
    big.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(big, 8 + len(text) + (1 << 30))  # a hole: the import is long, the file is not
    child = subprocess.Popen([BIN / "ckpt", "import", top / "big", "--format", "hf", "--repo", where, "--job", "big"],
                             stderr=subprocess.PIPE, text=True)
    single_node.until(lambda: list(where.glob("big/step-*/*.safetensors")) or child.poll() is not None, "the data are being written")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=single_node.DEADLINE)
    if child.returncode == OK:
        return "the import was faster than the signal"
    equal(child.returncode, CANCELLED, err)
    has(err, "nothing was left behind")
    equal(listing(where / "big"), [])


# ---- a job starts from it

@case("a job of two ranks starts from an imported model")
def _():
    where = top / "start"
    where.mkdir()
    with single_node.daemon(top=where) as d:
        d.start()
        for rank in d.world(2, "--steps", 4, "--storage", 2, "--wait", "durable"):
            equal(rank.wait(), 0)
        equal(d.stop(), 0)
        ckpt("restore", "latest", "--to", where / "model", "--repo", d.store)
        step = data("show", "latest", "--repo", d.store)["step"]
        shutil.rmtree(d.store)
        ckpt("import", where / "model", "--format", "safetensors", "--repo", d.store, "--job", "main", "--step", step)
        d.start()
        for rank in d.world(2, "--steps", 6, "--storage", 2):  # checks every byte that it restores
            equal(rank.wait(), 0, rank.lines()[-5:])
            equal(rank.of("restored")[-1][1], str(step))
            equal(rank.of("restored")[-1][3], "storage", rank.of("restored"))


sys.exit(cases.end())
