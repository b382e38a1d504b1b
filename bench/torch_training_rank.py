"""bench/torch_training_rank.py RANK WORLD PORT MIB BATCH: one rank for bench/torch_training.py. Its stage of a model of linear layers, with AdamW, has MIB
of state; a step is a forward pass, a backward pass and a step of the optimizer. Lines on stdin; times are in nanoseconds.

    block ARM STEP      ten steps, with a save in the first: "blocked B took N"; then waits until the save is complete
    save ARM STEP       one step with a save, waited for: "done 1"
    memory              KiB of this process, but for files: "kib N"
    keep STEP FOLDER    saves the state as it is, ours and by torch.distributed.checkpoint.save into the folder: "digest N" of the state
    restore ARM FOLDER  fills a state that was just made, and makes a step: "made N", the step that makes the state of the optimizer, then "ready N stepped N"
                        since the call, and "busy N", what the step takes of a processor
    tensors N           registers N tensors, begins: "register", then the time and the processor time by a Session, both by a Checkpointer, and begins
    quit
"""
import os
import shutil
import sys
import time
import warnings
import zlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import ckpt
import ckpt.torch
from ckpt.torch.dcp_writer import Writer

WIDTH, STEPS = 1024, 10
LAYER = 3 * 4 * (WIDTH + 1) * WIDTH  # bytes of a layer, with both moments
now = time.monotonic_ns


class Training:
    """A stage of its own on each rank, as in a pipeline: steps need no collective, so that their times are their own."""

    def __init__(self, rank, mib, batch):
        self.rank = rank
        torch.manual_seed(rank)
        count = max(1, (mib << 20) // LAYER)
        self.model = nn.ModuleDict({str(rank * count + i): nn.Linear(WIDTH, WIDTH) for i in range(count)})
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(batch, WIDTH)

    def gradients(self):
        x = self.batch
        for layer in self.model.values():
            x = torch.relu(layer(x))
        x.square().mean().backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def state(self):
        return {"model": self.model, "optim": self.optimizer}

    def state_dict(self):
        model, optim = get_state_dict(self.model, self.optimizer)
        return {"model": model, f"optim{self.rank}": optim}  # DCP keeps settings that have one name only once

    def digest(self):
        tensors = [p for p in self.model.parameters()] + [t for s in self.optimizer.state.values() for t in s.values()]
        total = 0
        for t in tensors:
            total = zlib.crc32(t.detach().numpy().tobytes(), total)
        return total


class Alone:
    """No save."""

    def begin(self, step):
        pass

    def fence(self):
        pass

    def complete(self):
        pass


class Ours:
    """Joins when it is made."""

    def __init__(self, training):
        self.checkpointer = ckpt.torch.Checkpointer(training.state(), job="bench", storage_every=1, strict_saves=True, rng=False)
        self.checkpointer.restore()

    def begin(self, step):
        self.checkpointer.begin(step)
        self.snapshot = self.checkpointer._snapshot

    def fence(self):
        self.checkpointer.fence()

    def complete(self):
        self.snapshot.wait()

    def close(self):
        self.checkpointer.close()


class Stock:
    """async_save of PyTorch by its own writer and DefaultStager, which copies within the call, or on a thread until ``fence``."""

    def __init__(self, training, folder, rank, overlapped):
        self.training, self.folder, self.rank, self.overlapped = training, folder, rank, overlapped
        self.stager = DefaultStager(StagingOptions(False, False, overlapped, False))
        self.group = dist.new_group()  # its thread has collectives of its own
        self.state = training.state_dict()

    def begin(self, step):
        self.where = os.path.join(self.folder, f"{step}-{self.overlapped:d}")
        self.saving = dcp.async_save(self.state, storage_writer=dcp.FileSystemWriter(self.where), async_stager=self.stager, process_group=self.group)

    def fence(self):
        if self.overlapped:
            self.saving.staging_completion.result()

    def complete(self):
        (self.saving.upload_completion if self.overlapped else self.saving).result()
        dist.barrier()
        if self.rank == 0:
            shutil.rmtree(self.where)


class Within:
    """async_save of PyTorch by our Writer."""

    def __init__(self, training):
        self.state, self.writer = training.state_dict(), Writer("bench-writer")

    def begin(self, step):
        self.saving = dcp.async_save(self.state, checkpoint_id=step, storage_writer=self.writer.at(step), no_dist=True)

    def fence(self):
        self.saving.staging_completion.result()

    def complete(self):
        self.saving.upload_completion.result()

    def close(self):
        self.writer.close()


class Rank:
    def __init__(self, rank, world, mib, batch):
        self.rank, self.world = rank, world
        self.training = Training(rank, mib, batch)
        self.arms = {"none": Alone()}

    def arm(self, name):
        """Made when it is used first, on all ranks at once."""
        if name not in self.arms:
            self.arms[name] = {"ours": lambda: Ours(self.training), "writer": lambda: Within(self.training),
                               "staged": lambda: Stock(self.training, os.environ["BENCH_FOLDER"], self.rank, False),
                               "overlapped": lambda: Stock(self.training, os.environ["BENCH_FOLDER"], self.rank, True)}[name]()
        return self.arms[name]

    def step(self, arm=None, number=0):
        """How long the save kept the thread that trains."""
        a = now()
        if arm:
            arm.begin(number)
        b = now()
        self.training.gradients()
        c = now()
        if arm:
            arm.fence()
        d = now()
        self.training.update()
        return b - a + d - c

    def block(self, name, number):
        arm = self.arm(name)
        dist.barrier()
        began = now()
        blocked = self.step(arm, int(number))
        for _ in range(STEPS - 1):
            self.step()
        took = now() - began
        arm.complete()
        return f"blocked {blocked} took {took}"

    def save(self, name, number):
        arm = self.arm(name)
        self.step(arm, int(number))
        arm.complete()
        dist.barrier()
        return "done 1"

    def memory(self):
        """Pages that libraries and programs are read from come and go by themselves."""
        with open("/proc/self/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        return f"kib {int(fields['RssAnon'].split()[0])}"

    def keep(self, number, folder):
        ours = self.arm("ours")
        self.step()  # so that the optimizer has its state
        ours.begin(int(number))
        ours.fence()
        ours.complete()
        dcp.save(self.training.state_dict(), storage_writer=dcp.FileSystemWriter(folder))
        return f"digest {self.training.digest()}"

    def restore(self, name, folder):
        """The optimizer has made its state before: both want that, and it takes longer than either."""
        made = now()
        self.step()
        made = now() - made
        state = None if name == "ours" else self.training.state_dict()
        dist.barrier()
        began = now()
        if name == "ours":
            self.arm(name)
        else:
            dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
            set_state_dict(self.training.model, self.training.optimizer, model_state_dict=state["model"], optim_state_dict=state[f"optim{self.rank}"])
        ready, found = now() - began, self.training.digest()
        again, busy = now(), time.thread_time_ns()
        self.step()
        return f"made {made} ready {ready} stepped {ready + now() - again} busy {time.thread_time_ns() - busy} digest {found}"

    def tensors(self, count):
        """By the calls of a Session, and by a Checkpointer, which looks at each address before a begin."""
        arrays = {f"{i:06d}": torch.zeros(16) for i in range(int(count))}
        with ckpt.Session("bench-session", rank=0, world=1, local_world=1) as s:
            views = {name: t.numpy() for name, t in arrays.items()}
            began, used = now(), time.thread_time_ns()
            for name, view in views.items():
                s.register(name, view)
            session, used = now() - began, time.thread_time_ns() - used
            s.join()
            begins = [self.begins(s, lambda n: s.begin(n, ckpt.MEMORY), lambda snapshot: snapshot.fence(), n) for n in range(1, 31)]
        with ckpt.torch.Checkpointer({"many": arrays}, job="bench-many", memory_every=1, strict_saves=True, rng=False) as ck:
            began, busy = now(), time.thread_time_ns()
            ck._register()
            registered, busy = now() - began, time.thread_time_ns() - busy
            ck.restore()
            checked = [self.begins(ck.session, ck.begin, lambda _: ck.fence(), n) for n in range(1, 31)]
        return " ".join(map(str, ("register", session, used, registered, busy, *begins[5:], *checked[5:])))

    def begins(self, session, begin, fence, number):
        session.wait_slot()
        began = now()
        made = begin(number)
        took = now() - began
        fence(made)
        return took

    def close(self):
        for arm in self.arms.values():
            if hasattr(arm, "close"):
                arm.close()


def main():
    rank, world, port, mib, batch = (int(word) for word in sys.argv[1:6])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mine = Rank(rank, world, mib, batch)
    print("ready", sum(p.nbytes for p in mine.training.model.parameters()) * 3, flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "quit":
            break
        print(getattr(mine, word)(*rest), flush=True)
    mine.close()
    dist.destroy_process_group()


main()
