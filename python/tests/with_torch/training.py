"""Small trainings, cut in each way that PyTorch knows, and what they hold when it is put together."""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import ckpt.torch

LAYERS, WIDTH, WORDS = 4, 12, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    """Uneven sizes, a tied and a frozen parameter, and a buffer that the forward pass changes."""

    def __init__(self, layers=range(LAYERS), head=True):
        super().__init__()
        self.layers = nn.ModuleDict({str(i): Block() for i in layers})
        if 0 in layers:
            self.words = nn.Embedding(WORDS, WIDTH)
            self.frozen = nn.Parameter(torch.randn(7, 3), requires_grad=False)
            self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        if head:
            self.head = nn.Linear(WIDTH, WORDS, bias=False)
            self.head.weight = self.words.weight

    def forward(self, tokens):
        self.seen += tokens.numel()
        x = self.words(tokens)
        for block in self.layers.values():
            x = block(x)
        return self.head(x)


def _train(model, optimizer, steps=2):
    for _ in range(steps):
        nn.functional.cross_entropy(model(torch.randint(0, WORDS, (3, 5))).flatten(0, 1), torch.randint(0, WORDS, (15,))).backward()
        optimizer.step()
        optimizer.zero_grad()


def _mesh(inner, names):
    world = dist.get_world_size()
    return init_device_mesh("cpu", (world // inner, inner), mesh_dim_names=names)


def _half():
    return 2 if dist.get_world_size() % 2 == 0 else 1


def _tensor_parallel(model, mesh):
    for block in model.layers.values():
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def _shard(model, mesh):
    ignored = {model.frozen}
    for block in model.layers.values():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=ignored)


def ddp(train):
    model = DistributedDataParallel(Model())
    return _with_adam(model, train)


def fsdp2(train):
    model = Model()
    _shard(model, init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("shard",)))
    return _with_adam(model, train)


def fsdp2_tp(train):
    model, mesh = Model(), _mesh(_half(), ("shard", "tensor"))
    _tensor_parallel(model, mesh["tensor"])
    _shard(model, mesh["shard"])
    return _with_adam(model, train)


def hsdp(train):
    model, half = Model(), _half()
    _shard(model, _mesh(dist.get_world_size() // half, ("replicate", "shard")))
    return _with_adam(model, train)


def _with_adam(model, train):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    if train:
        _train(model, optimizer)
    return {"model": model, "optim": optimizer}, None


def pp(train):
    """Each rank has some of the layers, and only those."""
    rank, world = dist.get_rank(), dist.get_world_size()
    first, last = LAYERS * rank // world, LAYERS * (rank + 1) // world
    model = Model(range(first, last), head=False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    if train:
        sum(p.square().sum() for p in model.parameters() if p.requires_grad).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"model": model, "optim": optimizer}, None


def flat(train):
    """Each rank has a range of the elements of each tensor, as ZeRO cuts them."""
    shapes = {"a": (5, 7), "b": (3,), "c": (2, 3, 4)}
    rank, world, state, ranges = dist.get_rank(), dist.get_world_size(), {}, {}
    for name, shape in shapes.items():
        count = math.prod(shape)
        start, end = count * rank // world, count * (rank + 1) // world
        whole = torch.randn(count, generator=torch.Generator().manual_seed(len(name) + count)) if train else torch.zeros(count)
        state[name] = whole[start:end].clone()
        ranges[f"zero.{name}"] = ckpt.torch.Flat(shape, start)
    return {"zero": state}, lambda name, t: ranges[name]


LAYOUTS = {"ddp": ddp, "fsdp2": fsdp2, "fsdp2_tp": fsdp2_tp, "hsdp": hsdp, "pp": pp, "flat": flat}


def _named(state):
    for part, thing in state.items():
        if isinstance(thing, nn.Module):
            model = getattr(thing, "module", thing)
            yield from ((f"{part}.{n}", t) for n, t in model.state_dict().items())
            names = {p: n for n, p in model.named_parameters()}
        elif isinstance(thing, torch.optim.Optimizer):
            yield from ((f"{part}.{names[p]}.{k}", t) for p, s in thing.state.items() for k, t in s.items())
        else:
            yield from ((f"{part}.{n}", t) for n, t in thing.items())


def gathered(state):
    """All tensors, whole, on every rank. Those that ranks have ranges of are put behind each other."""
    own = {n: (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone() for n, t in _named(state)}
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, own)
    names = {n for part in everything for n in part}
    if any(n.startswith("zero.") for n in names):
        return {n: torch.cat([part[n] for part in everything]) for n in names}
    return {n: next(part[n] for part in everything if n in part) for n in names}
