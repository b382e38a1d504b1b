"""A small transformer, cut over all ranks by FSDP2, that goes on where it was: under torchrun or ckpt run, on GPUs or on the host.

usage: train.py [STEPS]"""

import hashlib
import logging
import sys

import ckpt.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

TEXT = b"So that nothing is lost when a rank is lost, each step is kept in memory, and some of them on storage. " * 8
WIDTH, LENGTH = 64, 32


class Data:
    """Which part of the text comes next; its position is a part of the state."""

    def __init__(self, rank, world):
        self.rank, self.world, self.at = rank, world, 0

    def __iter__(self):
        while True:
            first = (self.at * self.world + self.rank) * 7 % (len(TEXT) - 4 * LENGTH - 1)
            window = torch.tensor(list(TEXT[first:first + 4 * LENGTH + 1]))
            self.at += 1
            yield window[:-1].reshape(4, LENGTH), window[1:].reshape(4, LENGTH)

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 128, 0.1, batch_first=True, norm_first=True) for _ in range(2))
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, tokens.device)
        x = self.words(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x, mask, is_causal=True)
        return self.head(x)


def digest(model):
    """Of all parameters, whole: two runs with the same one have the same bits."""
    whole = hashlib.sha256()
    for t in model.state_dict().values():
        whole.update((t.full_tensor() if isinstance(t, DTensor) else t).cpu().numpy().tobytes())
    return whole.hexdigest()[:16]


def train(steps, device):
    torch.manual_seed(1)
    model = Model().to(device)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    torch.manual_seed(2 + dist.get_rank())  # dropout is another one on each rank
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    data = Data(dist.get_rank(), dist.get_world_size())
    state = {"model": model, "optim": optimizer, "schedule": schedule, "data": data}
    with ckpt.torch.Checkpointer(state, memory_every=1, storage_every=20) as ck:
        found = ck.restore()
        if dist.get_rank() == 0:
            print(f"step {found.step} from {found.source}" if found else "a fresh start", flush=True)
        first, batches, stopped = found.step if found else 0, iter(data), False
        for step in range(first, steps):
            ck.begin(step)  # before the next batch is drawn. From here on the state is only read,
            tokens, wanted = next(batches)
            loss = nn.functional.cross_entropy(model(tokens.to(device)).flatten(0, 1), wanted.to(device).flatten())
            loss.backward()
            optimizer.step()  # until here, where the optimizer waits for the copy by itself
            schedule.step()
            optimizer.zero_grad()
            if stopped := ck.should_stop():
                break
        ck.save(step + 1 if stopped else steps)
        whole = digest(model)
        if dist.get_rank() == 0:
            print(f"loss {loss.item():.4f}, digest {whole}" if first < steps else f"digest {whole}", flush=True)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    gpu = torch.cuda.is_available()
    with ckpt.torch.init_process_group("nccl" if gpu else "gloo"):
        if gpu:
            torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
        train(int(sys.argv[1]) if len(sys.argv) > 1 else 100, "cuda" if gpu else "cpu")
