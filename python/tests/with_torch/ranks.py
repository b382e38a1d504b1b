"""Ranks of a job: forked from this process, so that each need not import PyTorch again."""

import dataclasses
import multiprocessing.util
import os
import pathlib
import signal
import sys
import time
import traceback

import torch
import torch._dynamo  # optimizers import it at their first step: once for all
import torch.distributed as dist

torch.set_num_threads(1)
LIMIT = 240


@dataclasses.dataclass
class Service:
    socket: str
    store: pathlib.Path
    top: pathlib.Path


def _rank(function, arguments, options, rank, world, rendezvous):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    function(*arguments, **options)
    dist.destroy_process_group()


def run(service, world, function, *arguments, codes=None, **options):
    """Calls the function in each rank of a world; an exception of one is one of the test. ``codes``: how they are to end, if not well."""
    rendezvous, pids = service.top / f"rendezvous-{time.monotonic_ns()}", []
    for rank in range(world):
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                signal.alarm(LIMIT)
                _rank(function, arguments, options, rank, world, rendezvous)
                code = 0
            except BaseException:  # noqa: BLE001 - a forked rank must not return into the test
                traceback.print_exc()
            finally:
                multiprocessing.util._exit_function()  # os._exit leaves it out: Megatron-Core's queue has a process that only this ends
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert ended == (codes or [0] * world), f"the ranks ended with {ended}"
