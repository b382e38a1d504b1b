"""A transport for the Manager of torchft: a replica that is behind gets its state out of the store::

    transport = Transport(f"gpt.{replica}.{rank}")
    manager = Manager(…, checkpoint_transport=transport)

The replica that sends saves what it has with a session of its own; those that are behind read that, each byte checked. Nothing is pickled. It is written
for torchft 0.2."""

from __future__ import annotations

import json
import os
import socket as sockets
from collections.abc import Callable
from concurrent import futures
from datetime import timedelta
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torchft.checkpointing.transport import CheckpointTransport

from ..job import job_name
from ..reader import Reader
from ..session import CAPTURED, DURABLE, STORAGE, Session, Snapshot
from ..torch.element import NAMES, current_stream, memory, name_of, plain
from ..tree import TreeError, codec, dumps, loads
from .arrivals import Arrivals, ask

TREE = "torchft.tree"


class _Place:
    """What stands in a document in place of a tensor: its name in the checkpoint, its type, and of a DTensor its whole shape and its placements."""

    def __init__(self, about: Any) -> None:
        self.name, self.dtype, self.whole, self.placements = about
        sizes = [*(self.whole or []), *(self.placements or [])]
        if not isinstance(self.name, str) or self.dtype not in (*NAMES, "complex128") or not all(type(n) is int for n in sizes):
            raise ValueError("no place of a tensor")


codec(_Place, "torchft.tensor", lambda p: [p.name, p.dtype, p.whole, p.placements], _Place)


def _mapped(value: Any, path: str, change: Callable[[str, Any], Any]) -> Any:
    """A copy of a tree in which its leaves are changed."""
    if isinstance(value, dict):
        return {k: _mapped(v, f"{path}.{k}", change) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(v, f"{path}[{i}]", change) for i, v in enumerate(value))
    return change(path, value)


def _split(state: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """The document of a state, and its tensors as they are on this rank."""
    tensors: dict[str, torch.Tensor] = {}

    def change(path: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        whole, placements = None, None
        if isinstance(value, DTensor):
            whole, placements = list(value.shape), [_placement(path, p) for p in value.placements]
            value = value.to_local()
        named = value.dtype is torch.complex128 or name_of(value.dtype) in NAMES
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided or not named:
            raise TreeError(f"{path} is a {type(value).__qualname__} of {value.dtype}, {value.layout}: plain tensors and DTensors of them are sent")
        if path in tensors:
            raise TreeError(f"{path} is the name of two tensors: keys of a mapping must differ as texts, too")
        tensors[path] = value.detach()
        return _Place([path, name_of(value.dtype), whole, placements])

    return _mapped(state, "state", change), tensors


def _placement(path: str, p: Any) -> int:
    """The dimension that is cut; -1: none."""
    if type(p) not in (Shard, Replicate):
        raise TreeError(f"{path} is a DTensor with {p}: Shard and Replicate are sent")
    return p.dim if type(p) is Shard else -1


class Transport(CheckpointTransport[Any]):
    """``job`` names this rank of this replica, as "gpt.0.3": a session of that name is open while it sends. ``store``: the store of all replicas; None:
    CKPT_REPO. ``mesh``: that of the DTensors in the state. ``address``: under which other replicas reach this host; None: CKPT_ADDRESS, or its name."""

    def __init__(self, job: str, *, socket: str | None = None, store: str | os.PathLike[str] | None = None, mesh: Any = None,
                 address: str | None = None) -> None:
        self.job, self.socket, self.mesh = job_name(job), socket, mesh
        self.store = store or os.environ.get("CKPT_REPO")
        if not self.store:
            raise ValueError("no store is named, and replicas that are behind read it: give store=, or set CKPT_REPO")
        self._arrivals = Arrivals(address or os.environ.get("CKPT_ADDRESS") or sockets.gethostname())
        self._executor = futures.ThreadPoolExecutor(1, "ckpt-transport")
        self._fence: futures.Future[None] | None = None
        self._end: futures.Future[None] | None = None

    def metadata(self) -> str:
        return json.dumps({"job": self.job, "address": self._arrivals.address})

    # ---- the replica that sends

    def send_checkpoint(self, dst_ranks: list[int], step: int, state_dict: Any, timeout: timedelta) -> None:
        """Begins a save, and returns. The state may change behind :meth:`disallow_checkpoint`."""
        seconds = timeout.total_seconds()
        if self._end is not None and not futures.wait([self._end], seconds).done:
            raise TimeoutError(f"the state that was sent before step {step} is still on its way to storage after {seconds:g} s")
        self._arrivals.begin(step)
        try:
            session, snapshot = self._begin(step, state_dict, seconds)
        except Exception as e:
            self._arrivals.there(error=str(e))
            raise
        self._fence = futures.Future()
        self._end = self._executor.submit(self._finish, session, snapshot, self._fence, current_stream(), seconds)

    def _begin(self, step: int, state: Any, seconds: float) -> tuple[Session, Snapshot]:
        tree, tensors = _split(state)
        document = dumps(tree, "state")
        session = Session(self.job, self.socket, rank=0, world=1, local_world=1, timeout=seconds)
        try:
            for name, t in tensors.items():
                session.register(name, memory(plain(t)))
            session.register_sized_blob(TREE, len(document))
            session.join()
            session.set_blob(TREE, document)
            return session, session.begin(step, STORAGE, current_stream())
        except BaseException:
            session.close()
            raise

    def _finish(self, session: Session, snapshot: Snapshot, fence: futures.Future[None], stream: int, seconds: float) -> None:
        """On a thread of its own: the loop cannot reach its fence while a replica that it reduces with waits for this."""
        try:
            snapshot.fence(stream)
            snapshot.wait(CAPTURED, seconds)  # on a GPU only the stream has waited
            fence.set_result(None)
            snapshot.wait(DURABLE, seconds)
            self._arrivals.there(checkpoint=f"{snapshot.step}.e{session.epoch:04}")
        except Exception as e:
            self._arrivals.there(error=str(e))
            if not fence.done():
                fence.set_exception(e)
        finally:
            session.close()

    def disallow_checkpoint(self) -> None:
        fence, self._fence = self._fence, None
        if fence is not None:
            fence.result()

    # ---- the replica that is behind

    def recv_checkpoint(self, src_rank: int, metadata: str, step: int, timeout: timedelta) -> Any:
        about = json.loads(metadata)
        found = ask(str(about["address"]), step, timeout.total_seconds())
        with Reader(self.store, str(about["job"]), str(found["checkpoint"])) as reader:
            return self._read(reader)

    def _read(self, reader: Reader) -> Any:
        document, tensors = loads(reader.blob(TREE), TREE), {}

        def make(path: str, value: Any) -> None:
            if isinstance(value, _Place):
                if value.name not in reader:
                    raise TreeError(f"{path} is not in the checkpoint")
                dtype, shape = getattr(torch, value.dtype), reader[value.name].shape
                tensors[value.name] = torch.empty(shape[:-1] if dtype is torch.complex128 else shape, dtype=dtype)

        _mapped(document, "state", make)
        reader.read_into({name: memory(plain(t)) for name, t in tensors.items()})
        return _mapped(document, "state", lambda _, value: self._whole(value, tensors[value.name]) if isinstance(value, _Place) else value)

    def _whole(self, place: _Place, local: torch.Tensor) -> Any:
        if place.placements is None:
            return local
        if self.mesh is None or self.mesh.ndim != len(place.placements):
            raise TypeError(f"{place.name} is a DTensor on {len(place.placements)} dimensions of a mesh: give that to Transport(mesh=)")
        shape = torch.Size(place.whole)
        placements = [Replicate() if dim < 0 else Shard(dim) for dim in place.placements]
        meta = TensorMeta(shape, torch.empty(shape, device="meta").stride(), local.dtype)
        return DTensor(local.to(self.mesh.device_type), DTensorSpec(self.mesh, tuple(placements), tensor_meta=meta), requires_grad=False)

    def shutdown(self, wait: bool = True) -> None:
        self._arrivals.close()
        self._executor.shutdown(wait)
