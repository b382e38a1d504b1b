"""The manager of local checkpoints for NVRx: the program of the page, and states, asynchronous saves and refusals in forked ranks."""

import os
import re
import subprocess
import sys

import pages
import pytest
import ranks
import torch
import torch.distributed as dist

pytest.importorskip("nvidia_resiliency_ext", reason="nvidia-resiliency-ext is not installed")
from nvidia_resiliency_ext.checkpointing.async_ckpt.core import AsyncCallsQueue  # noqa: E402
from nvidia_resiliency_ext.checkpointing.local.base_state_dict import TensorAwareStateDict  # noqa: E402
from nvidia_resiliency_ext.checkpointing.local.basic_state_dict import BasicTensorAwareStateDict  # noqa: E402
from nvidia_resiliency_ext.checkpointing.local.ckpt_managers.base_manager import BaseCheckpointManager, CheckpointingException  # noqa: E402
from nvidia_resiliency_ext.checkpointing.local.ckpt_managers.local_manager import LocalCheckpointManager  # noqa: E402

import ckpt  # noqa: E402
from ckpt.integrations.nvrx import CheckpointManager  # noqa: E402

PAGE = "howto/train-with-nvrx.md"
pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_program_of_the_page_goes_on_where_it_was(tmp_path):
    program = pages.program(PAGE, "local.py", tmp_path)
    whole = pages.run(2, "whole", tmp_path / "whole", program, tmp_path / "whole", 25)
    first = pages.run(2, "local", tmp_path / "store", program, tmp_path / "store", 15)
    second = pages.run(2, "local", tmp_path / "store", program, tmp_path / "store", 25)
    assert "from -1, step 15" in first and "from 10, step 25" in second
    assert pages.end(second) == pages.end(whole)


KILL = """        optimizer.step()
        if iteration == 17 and dist.get_rank() == {rank} and not os.path.exists("{mark}"):
            open("{mark}", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def launch(service, job, program, *words):
    """What two ranks say under the launcher of NVRx, once all has ended well. It starts all ranks again when one is lost."""
    env = pages.environment(CKPT_SOCKET=service.socket)
    done = subprocess.run([sys.executable, "-m", "nvidia_resiliency_ext.fault_tolerance.launcher", "--ignore-missing-fault-tol-cfg", "--nproc-per-node", "2",
                           "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", job, *map(str, (program, *words))],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=pages.LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_under_the_launcher(service, tmp_path, rank):
    program, mark = pages.program(PAGE, "local.py", tmp_path), tmp_path / "killed"
    whole = launch(service, f"whole-{rank}", program, service.store, 25)
    lines = re.sub(r"        optimizer\.step\(\)\n", lambda _: KILL.format(rank=rank, mark=mark), program.read_text())
    program.write_text("import os\nimport signal\n" + lines)
    killed = launch(service, f"killed-{rank}", program, service.store, 25)
    assert mark.exists() and "from 10, step 25" in killed, killed
    assert pages.end(killed) == pages.end(whole)


def test_it_has_the_calls_of_the_local_manager():
    assert issubclass(CheckpointManager, BaseCheckpointManager) and not CheckpointManager.__abstractmethods__
    ours = {name for name in dir(LocalCheckpointManager) if not name.startswith("_")} - {"local_ckpt_dir"}
    assert ours <= set(dir(CheckpointManager))


# ---- forked ranks


class State(BasicTensorAwareStateDict):
    def __init__(self, state_dict):
        self.state_dict, self._is_hollow = state_dict, False

    def restore_tensor_device(self, non_blocking=True):
        pass


def values(seed):
    """Of this rank: as many rows as no other has."""
    rank = dist.get_rank()
    g = torch.Generator().manual_seed(100 * seed + rank)
    weight = torch.randn(4 + rank, 6, generator=g)
    return {"model": {"weight": weight, "columns": weight.t()[1:3], "bits": weight.to(torch.bfloat16), "none": torch.empty(0, 3), "one": torch.tensor(seed)},
            "optimizer": {"state": {0: {"step": torch.tensor(float(seed)), "pair": (torch.ones(2), 3)}}, "groups": [{"betas": (0.9, 0.95), "lr": 0.1}]},
            "complex": torch.complex(weight.double(), -weight.double()), "iteration": seed, "text": "rank", "bytes": b"\x01"}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


def manager_of(service, job):
    return CheckpointManager(job, service.store, kind=State, socket=service.socket, timeout=60)


def add_one(tree):
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, torch.Tensor):
            value += 1
        elif isinstance(value, (dict, list)):
            add_one(value)


def save_and_load(service, job, asynchronous):
    manager = manager_of(service, job)
    assert manager.find_latest() == -1
    with pytest.raises(CheckpointingException, match="find_latest"):
        manager.load()
    for iteration in (3, 5):
        state = values(iteration)
        request = manager.save(State(state), iteration, is_async=asynchronous)
        assert (request is not None) == asynchronous
        if asynchronous:
            add_one(state["model"]["weight"][None])  # it may change as soon as save has returned
            request.execute_sync()
    for _ in range(2):
        assert manager.find_latest() == 5
        state, ckpt_id = manager.load()
        assert ckpt_id == (5, dist.get_rank(), "") and isinstance(state, State)
        assert same(state.state_dict, values(5)), state.state_dict
        manager.close()
        manager = manager_of(service, job)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_rank_loads_what_it_has_saved(service, asynchronous):
    ranks.run(service, 3, save_and_load, service, f"states-{int(asynchronous)}", asynchronous)


def queued(service, job, persistent):
    """Of a queue of NVRx: that ranks agree on its end wants a GPU (no_dist=True: they do not), the rest does not."""
    with manager_of(service, job) as manager:
        queue = AsyncCallsQueue(persistent=persistent)
        for iteration in (1, 2, 3):
            state = values(iteration)
            queue.schedule_async_request(manager.save(State(state), iteration, is_async=True))
            add_one(state["model"]["weight"][None])
        assert queue.get_num_unfinalized_calls() == 3
        assert len(queue.maybe_finalize_async_calls(blocking=True, no_dist=True)) == 3  # 0.4.1 calls each of them 0
        assert queue.get_num_unfinalized_calls() == 0
        queue.close()
        dist.barrier()
        assert [c.step for c in ckpt.checkpoints(service.store, job) if c.state in ("committed", "verified")] == [1, 2, 3]
        assert manager.find_latest() == 3
        assert same(manager.load()[0].state_dict, values(3))


@pytest.mark.parametrize("persistent", [False, True])
def test_the_queue_of_asynchronous_saves(service, persistent):
    ranks.run(service, 2, queued, service, f"queue-{int(persistent)}", persistent)


def none_for_this_world(service, job):
    assert manager_of(service, job).find_latest() == -1


def test_what_another_world_saved_is_not_found(service):
    ranks.run(service, 2, save_and_load, service, "worlds", False)
    ranks.run(service, 1, none_for_this_world, service, "worlds")


class Opaque:
    pass


class Other(TensorAwareStateDict):
    """As MCoreTensorAwareStateDict: no tree of its own."""

    pop_tensors = insert_tensors = init_tensors = copy_tensors_to_cpu = restore_tensor_device = tensors = is_hollow = None


def refused(service, job):
    manager = manager_of(service, job)
    with pytest.raises(ckpt.TreeError, match=r"state\.args\.odd is a .*Opaque"):
        manager.save(State({"args": {"odd": Opaque()}}), 1)
    with pytest.raises(ckpt.TreeError, match=r"state is a .*Other: a State is saved"):
        manager.save(Other(), 1)
    with pytest.raises(ckpt.TreeError, match=r"a\.b: two tensors"):
        manager.save(State({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}), 1)
    with pytest.raises(CheckpointingException, match="non-negative"):
        manager.save(State({"a": torch.ones(1)}), -1)
    state = State({"a": torch.ones(1)})
    state.pop_tensors()
    with pytest.raises(CheckpointingException, match="taken out"):
        manager.save(state, 1)
    assert manager.find_latest() == -1


def test_what_has_no_place_is_refused_by_its_path(service):
    ranks.run(service, 1, refused, service, "refused")


def damaged(service, job):
    manager = manager_of(service, job)
    manager.save(State({"a": torch.arange(10000.0)}), 2)
    manager.close()
    directory = next(path for path in (service.store / job).iterdir() if path.name.startswith("step-"))
    for path in directory.glob("*.safetensors"):
        path.write_bytes(b"\xff" * path.stat().st_size)
    manager.latest_iteration = 2
    with pytest.raises(CheckpointingException, match="iteration 2 cannot be loaded"):
        manager.load()


def test_damage_is_an_error_of_nvrx(service):
    ranks.run(service, 1, damaged, service, "damaged")


def one_session(service, job):
    """Ranks that save again and again, tensors at other addresses each time, stay in one epoch, and what they restore is of the job's history."""
    with manager_of(service, job) as manager:
        for iteration in range(1, 6):
            manager.save(State(values(iteration)), iteration)
        dist.barrier()
        manager.save(State({"other": torch.ones(2)}), 6)
    found = ckpt.checkpoints(service.store, job)
    assert len({c.epoch for c in found if c.step <= 5}) == 1, found
    assert max(c.step for c in found) == 6


def test_one_session_lasts_as_long_as_the_layout(service):
    ranks.run(service, 2, one_session, service, "epochs")


def unreachable(service):
    manager = CheckpointManager("away", service.store, kind=State, socket=str(service.top / "nobody.sock"), timeout=2)
    with pytest.raises(CheckpointingException, match="iteration 1 cannot be saved"):
        manager.save(State({"a": torch.ones(1)}), 1)


def test_a_daemon_that_is_away_is_an_error_of_nvrx(service):
    ranks.run(service, 1, unreachable, service)
