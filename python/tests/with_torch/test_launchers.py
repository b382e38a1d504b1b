"""The example of the documentation under torchrun and ckpt run: ranks are killed, and the end has the bits of a run that was left alone."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

BIN = pathlib.Path(os.environ["CKPT_BUILD"])
EXAMPLE = pathlib.Path(__file__).parents[3] / "docs" / "examples" / "train.py"
STEPS, LIMIT = 40, 280


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CKPT_") or k == "CKPT_BUILD"}
    return env | {"CKPT_CONFIG": "/dev/null", "PYTHONPATH": os.environ.get("PYTHONPATH", "")} | more


def launch(words, **more):
    return subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment(**more), start_new_session=True)


def end(process):
    try:
        said = process.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"did not end: {process.communicate()[0][-4000:]}") from None
    assert process.returncode == 0, said[-4000:]
    return said


def digest(said):
    return re.search(r"digest (\w+)", said)[1]


def run(top, job, *options):
    return launch([BIN / "ckpt", "run", "-n", 2, "--job", job, "--store", top / "store", *options, "--", sys.executable, EXAMPLE, STEPS])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return digest(end(run(tmp_path_factory.mktemp("undisturbed"), "undisturbed")))


def test_a_rank_that_is_killed_under_ckpt_run(tmp_path, undisturbed):
    said = end(run(tmp_path, "killed", "--inject", "kill:rank=1@step=17"))
    assert re.search(r"step 1[5-7] from memory", said) and digest(said) == undisturbed, said


def test_a_run_that_is_ended_and_started_again(tmp_path, undisturbed):
    first = run(tmp_path, "twice", "--inject", "kill:rank=0@step=25", "--max-restarts", "0")
    said = first.communicate(timeout=LIMIT)[0]
    assert first.returncode != 0, said
    said = end(run(tmp_path, "twice"))
    assert re.search(r"step \d+ from (memory|storage)", said) and digest(said) == undisturbed, said


def test_a_rank_that_is_not_replaced_is_done_without(tmp_path):
    """The processes that are left take other places, and the state is cut anew."""
    said = end(launch([BIN / "ckpt", "run", "-n", 3, "--min-ranks", 2, "--max-restarts", 0, "--job", "elastic", "--store", tmp_path / "store", "--inject",
                       "kill:rank=0@step=7", "--", sys.executable, pathlib.Path(__file__).with_name("elastic.py"), 12]))
    for rank in (0, 1):
        assert f"this process is rank {rank} of it" in said and re.search(rf"\[{rank}\] rank {rank} of 2 goes on at step [78]\n", said), said
    assert "runs again" not in said, said


@pytest.mark.parametrize("victim", [0, 2])
def test_process_groups_are_made_anew_in_a_smaller_world(tmp_path, victim):
    """Ranks that end of the loss are started before the world is another one, and would wait in their group for a rank that nobody has. A rank may
    be slow: when another one is at step 7, it has begun step 6, but perhaps had no fence for it, and then step 5 is the last one that all have."""
    said = end(launch([BIN / "ckpt", "run", "-n", 3, "--min-ranks", 2, "--max-restarts", 0, "--job", "grouped", "--store", tmp_path / "store", "--inject",
                       f"kill:rank={victim}@step=7", "--", sys.executable, pathlib.Path(__file__).with_name("grouped.py"), 12]))
    for rank in (0, 1):
        assert re.search(rf"\[{rank}\] rank {rank} of 2 goes on at step [5-8]\n", said), said


def ranks_of(service, job):
    """Processes of the job, by rank, and the step that each is at."""
    done = subprocess.run([BIN / "ckpt", "status", "--socket", service.socket, "--json"], capture_output=True, text=True, env=environment(), check=False)
    jobs = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
    return {r["rank"]: (r["pid"], r.get("step") or 0) for j in jobs if j["name"] == job for r in j["ranks"] if r.get("pid")}


def at_step(service, job, process, least):
    """The ranks, once both are there and so far."""
    ends, found = time.monotonic() + LIMIT, {}
    while time.monotonic() < ends and process.poll() is None:
        found = ranks_of(service, job)
        if len(found) == 2 and all(step >= least for _, step in found.values()):
            break
        time.sleep(0.01)
    return found


@pytest.mark.skipif(not shutil.which("mpirun"), reason="Open MPI is not installed")
def test_a_rank_that_is_killed_under_mpirun(service, undisturbed):
    """mpirun then ends the other one, too; the same command goes on."""
    words = ["mpirun", "-n", 2, "-x", "CKPT_JOB", "-x", "CKPT_SOCKET", sys.executable, EXAMPLE, STEPS]
    env = {"CKPT_SOCKET": service.socket, "CKPT_JOB": "mpi", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    process = launch(words, **env)
    found = at_step(service, "mpi", process, 10)
    assert 1 in found, f"the ranks did not come: {found}"
    os.kill(found[1][0], signal.SIGKILL)
    said = process.communicate(timeout=LIMIT)[0]
    assert process.returncode != 0, said
    said = end(launch(words, **env))
    assert re.search(r"step \d+ from memory", said) and digest(said) == undisturbed, said


@pytest.mark.parametrize("victims", [[0], [1], [0, 1]], ids=["rank 0", "rank 1", "all ranks"])
def test_ranks_that_are_killed_under_torchrun(service, tmp_path, undisturbed, victims):
    job = f"torchrun-{'-'.join(map(str, victims))}"
    process = launch([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--max-restarts", 3, "--rdzv-backend", "c10d",
                      "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", job, EXAMPLE, STEPS], CKPT_SOCKET=service.socket)
    found = at_step(service, f"torch-{job}", process, random.Random(job).randint(5, 30))
    assert set(victims) <= set(found), f"the ranks did not come: {found}"
    for victim in victims:
        os.kill(found[victim][0], signal.SIGKILL)
    said = end(process)
    assert re.search(r"step \d+ from memory", said) and digest(said) == undisturbed, said


def test_standalone_without_a_name_is_refused(service):
    process = launch([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 1, EXAMPLE, STEPS], CKPT_SOCKET=service.socket)
    said = process.communicate(timeout=LIMIT)[0]
    assert process.returncode != 0 and "the job has no name that stays" in said, said
