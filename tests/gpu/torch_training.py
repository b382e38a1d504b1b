"""tests/gpu/torch_training.py DEVICE [HELD]: a rank that trains a small model and saves with ckpt.torch.Checkpointer, for test_torch.py. Its data and
its dropout are random numbers of the device. Each step is kept in memory, and one is saved to storage. If HELD is given, the last rank waits within
that step for the signal that kills it, unless it goes on from a checkpoint. Prints where it went on from, and a digest of all that it ends with."""

import contextlib
import hashlib
import os
import signal
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ckpt.torch

DEVICE, HELD = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS, STORED, WIDTH, KINDS, BATCH = 40, 10, 256, 10, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.LayerNorm(2 * WIDTH), nn.GELU(), nn.Dropout(0.2), nn.Linear(2 * WIDTH, KINDS))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen += len(x)
        return self.layers(x)


def averages(model):
    """Slow copies in another element type; that of a matrix is turned, so that its elements lie with steps in memory."""
    return {name.replace(".", "_"): p.detach().to(torch.bfloat16).clone(memory_format=torch.contiguous_format).t() for name, p in model.named_parameters()}


def step_of(model, optimizer, schedule, average, held):
    x, wanted = torch.randn(BATCH, WIDTH, device=DEVICE), torch.randint(KINDS, (BATCH,), device=DEVICE)
    loss = nn.functional.cross_entropy(model(x * torch.rand(()).item()), wanted)
    if held:
        signal.pause()
    loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for slow, p in zip(average.values(), model.parameters()):
            slow.mul_(0.9).add_(p.t(), alpha=0.1)


def digest(model, optimizer, average):
    """Of the state, and of the next random number."""
    kept = [optimizer.state[p][key] for p in model.parameters() for key in sorted(optimizer.state[p])]
    whole = hashlib.sha256()
    for t in [*model.state_dict().values(), *kept, *average.values(), torch.rand(1, device=DEVICE)]:
        whole.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]


def train():
    torch.manual_seed(1)
    model = Model().to(DEVICE)
    if WORLD > 1:
        model = DistributedDataParallel(model)
    torch.manual_seed(2 + RANK)  # data and dropout are others on each rank
    average = averages(model)
    # Where an optimizer is fused, it counts its steps on the device.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=WORLD > 1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    state = {"model": model, "optim": optimizer, "schedule": schedule, "average": average}
    with ckpt.torch.Checkpointer(state, memory_every=1) as ck:
        found = ck.restore()
        first = found.step if found else 0
        print(f"rank {RANK}: {f'step {found.step} from {found.source}' if found else 'a fresh start'}", flush=True)
        for step in range(first, STEPS):
            ck.save(step) if step == STORED > first else ck.begin(step)
            step_of(model, optimizer, schedule, average, not found and step == HELD and RANK == WORLD - 1)
        ck.save(STEPS)
        print(f"rank {RANK}: digest {digest(model, optimizer, average)}", flush=True)


torch.use_deterministic_algorithms(True)
with ckpt.torch.init_process_group("gloo") if WORLD > 1 else contextlib.nullcontext():
    train()
