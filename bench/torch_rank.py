"""bench/torch_rank.py RANK WORLD PORT MIB TENSORS: what bench_rank is to ckpt, for PyTorch: one rank with its share of MIB of host
memory, driven by lines on stdin. Times are of CLOCK_MONOTONIC in nanoseconds. For bench/torch_compare.py.

    save DIR    torch.save of the rank's tensors into a file of its own, fsynced → "begin B blocked N durable D"
    dcp DIR     torch.distributed.checkpoint.save of all, a file per rank, fsynced as it does by itself → the same
    async DIR   torch.distributed.checkpoint.async_save of all, a file per rank, fsynced as it does by itself → the same
    staged DIR  async_save with a copy of the state, into memory that is kept from save to save. async_save by itself copies only what
                lies on a device: state in host memory that changes before the save is done is saved half old, half new
    ckpt STEP   a save by ckpt.torch.Checkpointer to storage, waited for, of the daemon that CKPT_SOCKET names → the same
    quit
"""
import os
import shutil
import sys
import time
import warnings

import torch
import torch.distributed
import torch.distributed.checkpoint as dcp


class Copying(dcp.FileSystemWriter):
    """Stages state of host memory as the writer of torch stages a device's."""
    staged = None

    def stage(self, state_dict):
        if self.staged is None:
            self.staged = {name: torch.zeros_like(tensor) for name, tensor in state_dict.items()}
        for name, tensor in state_dict.items():
            self.staged[name].copy_(tensor)
        return self.staged


def save(state, folder, rank):
    os.makedirs(folder, exist_ok=True)
    torch.distributed.barrier()
    begin = time.monotonic_ns()
    with open(os.path.join(folder, f"rank-{rank}.pt"), "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    done = time.monotonic_ns()
    return begin, done - begin, done


def save_together(state, folder, writer):
    torch.distributed.barrier()
    begin = time.monotonic_ns()
    dcp.save(state, checkpoint_id=folder, storage_writer=writer)
    done = time.monotonic_ns()
    return begin, done - begin, done


def save_async(state, folder, writer):
    torch.distributed.barrier()
    begin = time.monotonic_ns()
    future = dcp.async_save(state, checkpoint_id=folder, storage_writer=writer)
    blocked = time.monotonic_ns() - begin
    future.result()
    return begin, blocked, time.monotonic_ns()


class Ours:
    """Joins at the first save."""

    def __init__(self, state):
        self.state, self.checkpointer = state, None

    def save(self, step):
        if self.checkpointer is None:
            from ckpt.torch import Checkpointer
            self.checkpointer = Checkpointer({"state": self.state}, rng=False)
            self.checkpointer.restore()
        for tensor in self.state.values():
            tensor.add_(1)  # what has not changed is not copied
        torch.distributed.barrier()
        begin = time.monotonic_ns()
        self.checkpointer.save(step)
        done = time.monotonic_ns()
        return begin, done - begin, done

    def close(self):
        if self.checkpointer is not None:
            self.checkpointer.close()


def main():
    rank, world, port, mib, tensors = (int(word) for word in sys.argv[1:6])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    # Other names on every rank: DCP writes what bears one name on several ranks only once.
    state = {f"rank{rank}.layer{i:05d}": torch.rand((mib << 18) // world // tensors) for i in range(tensors)}
    mine = Ours(state)
    ways = {"ckpt": lambda step: mine.save(int(step)),
            "save": lambda folder: save(state, folder, rank),
            "dcp": lambda folder: save_together(state, folder, dcp.FileSystemWriter(folder)),
            "async": lambda folder, w=dcp.FileSystemWriter("unset"): save_async(state, folder, w),
            "staged": lambda folder, w=Copying("unset"): save_async(state, folder, w)}
    print(f"ready {sum(t.nbytes for t in state.values())}", flush=True)
    for line in sys.stdin:
        word, _, folder = line.strip().partition(" ")
        if word == "quit":
            break
        begin, blocked, durable = ways[word](folder)
        print(f"begin {begin} blocked {blocked} durable {durable}", flush=True)
        torch.distributed.barrier()
        if rank == 0 and word != "ckpt":
            shutil.rmtree(folder)
    mine.close()
    torch.distributed.destroy_process_group()


main()
