"""Ranks that mpirun or srun has started: who they are stands in what these put into the environment. Both the real mpirun, and what srun would say."""

import os
import shutil
import subprocess
import sys

import pytest

RANKS = 2
RANK = """
import sys

import ckpt
import numpy

with ckpt.Session(timeout=60) as s:
    own = numpy.full(5, 1.0 + s.rank)
    s.register("rows", ckpt.Piece(own, start=5 * s.rank), shape=(5 * s.world,))
    s.join()
    try:
        found = s.restore().source
    except ckpt.NoCheckpoint:
        found = "nowhere"
        own += 10
    snapshot = s.begin(s.epoch)
    snapshot.fence()
    snapshot.wait(ckpt.DURABLE, 60)
    sys.stdout.write(f"rank {s.rank} of {s.world}, {own[0]:.0f} from {found}\\n")
"""
#: It refuses root, and more ranks than cores, unless it is told.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
SRUN = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": str(RANKS), "SLURM_STEP_NUM_TASKS": str(RANKS), "SLURM_STEP_TASKS_PER_NODE": str(RANKS), "SLURM_NODEID": "0"}


def started(daemon, words, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CKPT_", "SLURM_", "OMPI_", "PMI"))}
    return subprocess.Popen(words, env=env | {"CKPT_SOCKET": daemon.socket, "CKPT_CONFIG": "/dev/null"} | more, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(processes):
    ended = [p.communicate(timeout=120) for p in processes]
    assert not any(p.returncode for p in processes), ended
    return sorted(line for out, _ in ended for line in out.splitlines() if line.startswith("rank"))


def mpirun(daemon):
    return said([started(daemon, ["mpirun", "-n", str(RANKS), "-x", "CKPT_JOB", "-x", "CKPT_SOCKET", sys.executable, "-c", RANK], CKPT_JOB="launched", **MPI)])


def srun(daemon):
    return said([started(daemon, [sys.executable, "-c", RANK], **SRUN, SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank)) for rank in range(RANKS)])


@pytest.mark.parametrize("launcher", [mpirun, srun])
def test_ranks_know_who_they_are_and_go_on(daemon, launcher):
    if launcher is mpirun and not shutil.which("mpirun"):
        pytest.skip("Open MPI is not installed")
    assert launcher(daemon) == ["rank 0 of 2, 11 from nowhere", "rank 1 of 2, 12 from nowhere"]
    again = launcher(daemon)
    assert [line.split(" from ")[0] for line in again] == ["rank 0 of 2, 11", "rank 1 of 2, 12"] and "nowhere" not in "".join(again), again
