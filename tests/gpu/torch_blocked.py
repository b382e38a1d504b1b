"""tests/gpu/torch_blocked.py DEVICE: how long a save of 100 MB keeps the thread that trains, for test_torch.py: begin and fence of
ckpt.torch.Checkpointer around a forward and a backward pass, and the call of torch.distributed.checkpoint.async_save. Prints the median of each, in
seconds."""

import statistics
import sys
import tempfile
import time

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import BlockingAsyncStager

import ckpt.torch

DEVICE, SAVES, WIDTH, LAYERS = sys.argv[1], 5, 1024, 8


def gradients(model):
    model(torch.randn(64, WIDTH, device=DEVICE)).square().mean().backward()


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(function):
    """Seconds until it returns, begun when the device has no other work."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def ours(model, optimizer):
    blocked = []
    with ckpt.torch.Checkpointer({"model": model, "optim": optimizer}, storage_every=1, strict_saves=True) as ck:
        ck.restore()
        for step in range(1, SAVES + 2):
            ck.session.wait_slot()
            finish()
            begin = timed(lambda: ck.begin(step))
            gradients(model)
            blocked.append(begin + timed(ck.fence))
            optimizer.step()
            optimizer.zero_grad()
        ck.save(SAVES + 2)
    return statistics.median(blocked[1:])


def theirs(model, optimizer):
    tensors = {f"{i}.{key}": t for i, p in enumerate(model.parameters()) for key, t in {"p": p.detach(), **optimizer.state[p]}.items()}
    stager, blocked = BlockingAsyncStager(cache_staged_state_dict=DEVICE == "cuda"), []  # into memory that is pinned
    for _ in range(SAVES + 1):  # the first allocates it
        with tempfile.TemporaryDirectory() as folder:
            finish()
            futures = []
            writer = dcp.FileSystemWriter(folder, sync_files=True)
            blocked.append(timed(lambda: futures.append(dcp.async_save(tensors, storage_writer=writer, async_stager=stager))))
            futures[0].result()
    return statistics.median(blocked[1:])


def main():
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    mine = ours(model, optimizer)
    print(f"blocked {mine:.6f} async_save {theirs(model, optimizer):.6f}", flush=True)


with ckpt.torch.init_process_group("gloo"):
    main()
