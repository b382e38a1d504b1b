"""What PyTorch's distributed checkpoints (DCP) make of a step directory: whole tensors, or a refusal, but never holes. Their
HuggingFaceStorageReader is modelled here; where there is torch (CKPT_TORCH), it is asked itself."""

import base64
import json
import os
import shutil
import subprocess
import sys

from offline import case, cases, ckpt, data, equal, has, make, packages, run, top

packages("numpy")
import numpy  # noqa: E402

import handmade_safetensors  # noqa: E402

HOLE = 0xa5


class Refused(Exception):
    pass


def tensors(repo):
    """{name: (shape, bytes)} of checkpoint 1."""
    return {t["name"]: (t["shape"], run("dump", 1, t["name"], "--format", "raw", "--repo", repo)[0])
            for t in data("ls", 1, "--repo", repo)["tensors"]}


def step_of(repo):
    return repo / "main" / "step-000000000001.e0001"


def model(folder, name, shape):
    """The bytes of one tensor, as torch 2.9 to 2.15 reads it: an entry's name is the tensor's, and what no entry has stays."""
    chunks = []
    for path in sorted(folder.glob("*.safetensors")):
        entries, metadata = handmade_safetensors.read(path)
        try:
            sharding = json.loads(metadata["DCP_SHARDING_INFO"])
        except json.JSONDecodeError as error:
            raise Refused(f"{path.name}: {error}") from error
        for key, (dtype, extent, raw) in entries.items():
            offset = sharding[key]["saved_offsets"]  # KeyError: the reader's own
            if key == name:
                chunks.append((offset, extent, raw, handmade_safetensors.SIZES[dtype]))
    if not chunks:
        raise Refused(f"Missing key: {name}")
    size = [max(o[d] + e[d] for o, e, *_ in chunks) for d in range(len(shape))]
    if size != shape:
        raise Refused(f"Size mismatch: {size} is not {shape}")
    whole = numpy.full([*shape, chunks[0][3]], HOLE, "u1")
    for offset, extent, raw, width in chunks:
        whole[tuple(slice(o, o + e) for o, e in zip(offset, extent))] = numpy.frombuffer(raw, "u1").reshape([*extent, width])
    return whole.tobytes()


TORCH = """
import base64, json, sys, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader
folder, names = sys.argv[1], json.loads(sys.argv[2])
answers = {}
for name, shape in names.items():
    try:
        dtype = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata[name].properties.dtype
        bytes_ = torch.empty(0, dtype=dtype).element_size()
        for n in shape:
            bytes_ *= n
        whole = torch.full((bytes_,), HOLE, dtype=torch.uint8)
        tensor = whole.view(dtype).reshape(shape)
        dcp.load({name: tensor}, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
        answers[name] = base64.b64encode(bytes(whole.tolist())).decode()
    except Exception as error:
        answers[name] = None
print(json.dumps(answers))
""".replace("HOLE", str(HOLE))


def torch(folder, wanted):
    """What torch itself makes of it: {name: bytes, or None when it raises}."""
    done = subprocess.run([os.environ["CKPT_TORCH"], "-c", TORCH, folder, json.dumps({n: s for n, (s, _) in wanted.items()})],
                          capture_output=True, text=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
    equal(done.returncode, 0, done.stderr)
    return {n: a if a is None else base64.b64decode(a) for n, a in json.loads(done.stdout).items()}


def holes(read, wanted):
    """Tensors that are there, but not as they were saved."""
    found = {}
    for name, (shape, _) in wanted.items():
        try:
            found[name] = read(name, shape)
        except (Refused, KeyError):
            found[name] = None
    return found, [n for n, got in found.items() if got is not None and got != wanted[n][1]]


# Rows that begin where rows do are boxes, whether they were registered as such or as flat ranges.
REPOS = {"rows": (["--world", 2, "--rows", 64, "--cols", 48], True),
         "parts": (["--world", 2, "--rows", 64, "--cols", 48, "--file-max", 4000], True),
         "nodes": (["--world", 4, "--nodes", 2, "--rows", 64, "--cols", 48], True),
         "ragged": (["--world", 4, "--rows", 3, "--cols", 48], False),
         "pairs": (["--world", 3, "--rows", 64, "--cols", 48, "--boxes"], False),
         "packed": (["--world", 2, "--rows", 64, "--cols", 48, "--packed"], False)}
for _name, (_options, _) in REPOS.items():
    make(top / _name, 1, *_options)


@case("boxes of all ranks come together")
def _():
    for name, (_, readable) in REPOS.items():
        wanted = tensors(top / name)
        found, wrong = holes(lambda n, s: model(step_of(top / name), n, s), wanted)
        equal(wrong, [], name)
        equal([n for n, got in found.items() if (got is not None) != readable], [], name)


@case("without the mark there would be holes, of a second box and of flat ranges beside rows, and nothing would say so")
def _():
    for name, victim in (("pairs", "pairs"), ("ragged", "moment")):
        folder, wanted = top / f"{name}-unmarked", tensors(top / name)
        folder.mkdir()
        for path in step_of(top / name).glob("*.safetensors"):
            (folder / path.name).write_bytes(path.read_bytes().replace(b'"DCP_SHARDING_INFO":"!', b'"DCP_SHARDING_INFO":"{'))
        wrong = holes(lambda n, s: model(folder, n, s), wanted)[1]
        equal(wrong, [victim], name)


def mixed(name):
    """A step directory of which the last rank's files did not shrink. The reader asks no manifest, and takes what stands last for the end
    of a tensor."""
    folder = top / name
    shutil.copytree(step_of(top / "packed"), folder)
    for path in step_of(top / "rows").glob("rank-00001-*.safetensors"):
        (folder / path.with_suffix(".ckptz").name).unlink(missing_ok=True)
        shutil.copy(path, folder)
    return folder


@case("packed files, which the reader does not see, are not passed over")
def _():
    wanted = tensors(top / "rows")
    for folder in (step_of(top / "packed"), mixed("mixed")):
        found, wrong = holes(lambda n, s, folder=folder: model(folder, n, s), wanted)
        equal((wrong, [n for n, got in found.items() if got is not None]), ([], []), folder)


@case("without a notice there would be holes where files are packed")
def _():
    folder = mixed("mixed-unmarked")
    (folder / "node-node0.packed.safetensors").unlink()
    wrong = holes(lambda n, s: model(folder, n, s), tensors(top / "rows"))[1]
    equal("rowwise" in wrong or "embed" in wrong, True, wrong)


@case("export --format dcp-hf is for all of them")
def _():
    for name in REPOS:
        to = top / f"{name}-export"
        ckpt("export", 1, "--to", to, "--format", "dcp-hf", "--repo", top / name)
        wanted = {n: t for n, t in tensors(top / name).items() if "@" not in n and n != "loader"}
        found, wrong = holes(lambda n, s: model(to, n, s), wanted)
        equal((wrong, [n for n, got in found.items() if got is None]), ([], []), name)


@case("torch reads and refuses as the model does")
def _():
    if not os.environ.get("CKPT_TORCH"):
        return "CKPT_TORCH names no Python that has torch (CKPT_TORCH=1 and nightly make one, of 5 GB)"
    for name, (_, readable) in REPOS.items():
        for folder in (step_of(top / name), top / f"{name}-export"):
            wanted = {n: t for n, t in tensors(top / name).items() if "@" not in n and n != "loader"}
            found = torch(folder, wanted)
            whole = readable or folder.name.endswith("-export")
            equal([n for n in wanted if found[n] != (wanted[n][1] if whole else None)], [], folder)
    found = torch(top / "mixed", tensors(top / "rows"))
    equal([n for n, got in found.items() if got is not None], [], "mixed")
    for name, victim in (("pairs", "pairs"), ("ragged", "moment"), ("mixed", "rowwise")):
        found = torch(top / f"{name}-unmarked", tensors(top / name.replace("mixed", "rows")))
        equal(found[victim].count(HOLE) > 0, True, "torch has learnt to find all entries of a tensor: docs/reference/format.md says that it has not")


sys.exit(cases.end())
