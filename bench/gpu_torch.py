"""bench/gpu_torch.py --gib N --store DIR [--saves N]: PyTorch's own checkpointing of a state on a GPU, for scripts/gpu-check:
torch.distributed.checkpoint.async_save with pinned staging, on the disk and with the state of bench_gpu_save. Prints the mean time that the
training was blocked and that until the files were written and synced, both in seconds. Ends with 77 where torch or a GPU is missing."""
import argparse
import os
import shutil
import sys
import time

TENSORS = 200
SKIPPED = 77


def skip(reason):
    print(reason)
    sys.exit(SKIPPED)


try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.staging import BlockingAsyncStager
except ImportError as error:
    skip(f"no torch with checkpointing: {error}")


def save(state, folder):
    """Seconds blocked, and until all is on the disk."""
    torch.cuda.synchronize()
    began = time.monotonic()
    future = dcp.async_save(state, storage_writer=dcp.FileSystemWriter(folder, sync_files=True),
                            async_stager=BlockingAsyncStager(cache_staged_state_dict=True))
    blocked = time.monotonic() - began
    future.result()
    return blocked, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--saves", type=int, default=3)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        skip("torch sees no GPU")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    dist.init_process_group("gloo", rank=0, world_size=1)
    each = int(args.gib * (1 << 30)) // TENSORS
    state = {f"tensor.{i}": torch.zeros(each, dtype=torch.uint8, device="cuda") for i in range(TENSORS)}
    times = []
    for i in range(args.saves + 1):  # the first allocates what is pinned, and is not counted
        folder = os.path.join(args.store, str(i))
        times.append(save(state, folder))
        shutil.rmtree(folder)
    blocked, durable = (sum(column) / args.saves for column in zip(*times[1:]))
    print(f"times\tblocked\t{blocked:.6f}\ntimes\tdurable\t{durable:.6f}")
    dist.destroy_process_group()


main()
