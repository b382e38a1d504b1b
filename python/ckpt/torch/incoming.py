"""What comes from others, as the files that ``ckpt import`` makes a checkpoint of."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file

from ..tree import dumps
from .documents import FORMAT, JOB, RANK
from .element import name_of, plain, stored_as
from .foreign import Foreign, Keys

FILE_BYTES = 4 << 30


@dataclass
class Incoming:
    """``tensors``: where in the source each tensor of the checkpoint stands. ``extra``: numbers that become tensors. ``blobs``: by their names in the files of a
    store, which end in ``@RANK`` where they are of a rank."""

    source: Foreign
    about: str
    tensors: dict[str, Keys]
    extra: dict[str, torch.Tensor] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def types(self) -> dict[str, str]:
        """Those of tensors that are saved as another type."""
        dtypes = {name: self.source.tensors[at][0] for name, at in self.tensors.items()}
        return {name: name_of(dtype) for name, dtype in dtypes.items() if stored_as(dtype)[0] is not dtype}

    def document(self, parts: Mapping[str, object], modules: list[str]) -> None:
        """That of a Checkpointer's job; those of ranks are empty, so each rank takes that of the job."""
        self.blobs[JOB] = dumps({"format": FORMAT, "world": 1, "parts": dict(parts), "aliases": {}, "types": self.types(), "modules": modules}, "state")
        self.blobs[f"{RANK}@00000"] = b""


def _batches(incoming: Incoming) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for name, at in incoming.tensors.items():
        dtype, shape = incoming.source.tensors[at]
        size = int(math.prod(shape) * dtype.itemsize)
        if batch and held + size > FILE_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(name)
        held += size
    if batch or incoming.extra:
        yield batch


def _apart(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each with memory of its own, as safetensors wants it."""
    seen: set[int] = set()
    found = {}
    for name, t in tensors.items():
        view = plain(t).contiguous()
        storage = view.untyped_storage()
        found[name] = view.clone() if storage.data_ptr() in seen or storage.nbytes() != view.nbytes else view
        seen.add(storage.data_ptr())
    return found


def _blob(content: bytes) -> torch.Tensor:
    room = bytearray(len(content).to_bytes(8, "little") + (content or b"\0"))
    return torch.frombuffer(room, dtype=torch.uint8)


def _write(incoming: Incoming, folder: Path) -> None:
    blobs = {name: _blob(content) for name, content in incoming.blobs.items()}
    pieces = {name: {"tensor": name, "shape": list(t.shape), "offset": [0], "sized": 1} for name, t in blobs.items()}
    save_file(blobs, folder / "blobs.safetensors", {"ckpt.version": "1", "ckpt.pieces": json.dumps(pieces)})
    for i, batch in enumerate(_batches(incoming)):
        read = incoming.source.read([incoming.tensors[name] for name in batch])
        tensors = _apart({name: read[incoming.tensors[name]] for name in batch})
        save_file(tensors | (incoming.extra if i == 0 else {}), folder / f"tensors-{i + 1:05}.safetensors")


def import_all(program: str, incoming: Incoming, repo: Path, job: str, step: int) -> str:
    """Makes a checkpoint of a store. Returns a sentence that says so. The files stand beside the store until it is made."""
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=repo.resolve().parent) as folder:
        _write(incoming, Path(folder))
        done = subprocess.run([program, "import", folder, "--format", "safetensors", "--repo", str(repo), "--job", job, "--step", str(step)],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip() or f"ckpt import ended with {done.returncode}")
    return f"{done.stdout.strip()}; {incoming.about}"
