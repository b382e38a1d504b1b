"""tests/gpu/test_torch.py [DEVICE]: ckpt.torch.Checkpointer on a GPU (cuda, or cpu for a trial of this script), with one rank and with two that share
it. A rank is killed within a step, and resumes from memory; a whole run ends, and another resumes from storage. Each ends with the bits of the undisturbed
run. Then it is said how long a save keeps the thread that trains. Ends with 77 without torch, a GPU, or ckpt's Python package."""

import concurrent.futures
import json
import os
import pathlib
import re
import sys
import tempfile

from launcher import Run, listed, top
from tap import Cases, equal, expect, has

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
HERE = pathlib.Path(__file__).resolve().parent
HELD, STORED, STEPS = 17, 10, 40  # as torch_training.py has them


def why_not():
    try:
        import torch

        import ckpt.torch  # noqa: F401
    except ImportError as error:
        return f"{sys.executable}: {error}"
    return None if DEVICE == "cpu" or torch.cuda.is_available() else "torch sees no GPU"


why = why_not()
if why:
    print(f"1..0 # SKIP {why}")
    sys.exit(77)


def start(ranks, *options, program="torch_training.py", words=()):
    return Run("-n", ranks, "--json", "--job", "torch", *options, "--", sys.executable, HERE / program, DEVICE, *words,
               CUBLAS_WORKSPACE_CONFIG=":4096:8", OMP_NUM_THREADS="1")


def new_store():
    return tempfile.mkdtemp(dir=top)


def digests(run, ranks):
    """Of all ranks, in their order; a rank has one."""
    found = sorted(re.findall(r"rank (\d): digest (\w+)", run.err()))
    equal([int(rank) for rank, _ in found], list(range(ranks)), run.err())
    return found


def undisturbed(ranks):
    run = start(ranks, "--store", new_store()).wait()
    equal(run.err().count("a fresh start"), ranks, run.err())
    return digests(run, ranks)


beside = max(1, (os.cpu_count() or 1) // 2)
cases, pool = Cases(), concurrent.futures.ThreadPoolExecutor(beside)
reference = {ranks: pool.submit(undisturbed, ranks) for ranks in (1, 2)}


def is_undisturbed(ranks):
    expect(len(reference[ranks].result()) == ranks)


def from_memory(ranks):
    run = start(ranks, "--store", new_store(), "--inject", f"kill:rank={ranks - 1}@step={HELD}", words=[HELD]).wait()
    equal(json.loads(run.out())["fired"], 1, run.err())
    again = re.findall(r"rank (\d): step (\d+) from memory", run.err())
    equal(sorted({int(rank) for rank, _ in again}), list(range(ranks)), run.err())
    expect(all(STORED <= int(step) <= HELD for _, step in again), run.err())
    equal(digests(run, ranks), reference[ranks].result(), run.err())


def from_storage(ranks):
    store = new_store()
    killed = start(ranks, "--store", store, "--max-restarts", 0, "--inject", f"kill:rank={ranks - 1}@step={HELD}", words=[HELD]).wait(1)
    has(killed.err(), "killed by signal 9")
    equal(listed(store), [STORED])
    run = start(ranks, "--store", store).wait()
    has(run.err(), f"step {STORED} from storage")
    equal(digests(run, ranks), reference[ranks].result(), run.err())
    equal(sorted(listed(store)), [STORED, STEPS])


cases.run_beside([(f"{name}, {ranks} rank{'s' * (ranks > 1)}", test, ranks) for ranks in (2, 1) for name, test in (
    ("a killed rank resumes from memory, with the same bits", from_memory),
    ("a killed run resumes from storage, with the same bits", from_storage),
    ("the undisturbed run ends", is_undisturbed))], beside)


@cases.case("a save of 100 MB is stored")
def _():
    store = new_store()
    run = start(1, "--store", store, "--max-restarts", 0, program="torch_blocked.py").wait()
    found = re.search(r"blocked (\S+) async_save (\S+)", run.err())
    expect(found, run.err())
    print(f"# {DEVICE}: a save of 100 MB blocks for {float(found[1]) * 1e3:.3f} ms, async_save for {float(found[2]) * 1e3:.3f} ms", flush=True)
    expect(listed(store), "the store is empty", run.err())


sys.exit(cases.end())
