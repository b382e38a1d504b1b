"""An engine of DeepSpeed with ZeRO 1 and 2: the program of the page, with a rank that is killed, and with other numbers of ranks."""

import os
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np
import pages
import pytest
import torch

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"  # DeepSpeed looks there for ninja
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    import ckpt.integrations.deepspeed as seam

import ckpt.numpy  # noqa: E402

PAGE = "howto/train-with-deepspeed.md"


def program(folder, stage):
    """That of the page, with another stage of ZeRO."""
    path = pages.program(PAGE, "train.py", folder)
    text = path.read_text()
    assert '"stage": 2' in text
    path.write_text(text.replace('"stage": 2', f'"stage": {stage}'))
    return path


@pytest.fixture(scope="module")
def operator():
    """DeepSpeed compiles it when it is first asked for a process group: in a job, all ranks would at once, and wait for each other's compiler
    for longer than a job waits for its ranks."""
    subprocess.run([sys.executable, "-c", "from deepspeed.comm.torch import build_shm_op; build_shm_op()"], check=True, env=pages.environment(), timeout=pages.LIMIT)


@pytest.fixture(scope="module", params=[1, 2], ids=["ZeRO 1", "ZeRO 2"])
def undisturbed(request, operator, tmp_path_factory):
    top = tmp_path_factory.mktemp("undisturbed")
    return top, request.param, pages.end(pages.run(2, "undisturbed", top / "store", program(top, request.param), 60))


def test_a_killed_rank(tmp_path, undisturbed):
    _, stage, end = undisturbed
    said = pages.run(2, "killed", tmp_path / "store", program(tmp_path, stage), 60, inject="kill:rank=1@step=27")
    assert re.search(r"step 2[567] from memory", said) and pages.end(said) == end, said


def test_other_worlds_have_every_bit_of_the_parameters_and_of_the_optimizer(undisturbed):
    """Each run saves its last step again."""
    top, _, end = undisturbed
    store, saved = top / "store", []
    for world in (3, 1):
        assert pages.end(pages.run(world, "undisturbed", store, top / "train.py", 60)) == end
    for c in ckpt.checkpoints(store, "undisturbed"):
        if c.step == 60:
            saved.append((c.world, ckpt.numpy.load(store, "undisturbed", f"60.e{c.epoch:04}")))
    assert sorted(world for world, _ in saved) == [1, 2, 3]
    names = set(saved[0][1])
    assert {"optim.0.weight.fp32", "optim.0.weight.exp_avg", "optim.3.bias.exp_avg_sq", "model.0.weight"} <= names
    assert np.count_nonzero(saved[0][1]["optim.0.weight.exp_avg"]) > 100
    assert all(set(s) == names and all(np.array_equal(s[n].view(np.uint8), saved[0][1][n].view(np.uint8)) for n in names) for _, s in saved)


class Engine:
    mp_world_size, has_moe_layers = 1, False

    def __init__(self, optimizer):
        self.optimizer = optimizer


@pytest.mark.parametrize("engine, sentence", [(Engine(torch.optim.SGD([torch.zeros(1)])), "optimizer is a SGD: ZeRO 1 and 2 are saved here")])
def test_another_optimizer_is_refused(engine, sentence):
    with pytest.raises(TypeError, match=sentence):
        seam.checkpointer(engine, job="refused")


def test_a_model_that_is_cut_is_refused():
    engine = Engine(object.__new__(seam.DeepSpeedZeroOptimizer))
    engine.mp_world_size = 2
    with pytest.raises(TypeError, match="only data parallelism"):
        seam.checkpointer(engine, job="refused")
