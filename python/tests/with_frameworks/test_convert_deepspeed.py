"""Universal checkpoints that DeepSpeed itself has made go into a store, and an engine goes on; and what an engine saved goes out, and DeepSpeed goes on."""

import os
import pathlib
import re
import subprocess
import sys
import warnings

import pages
import pytest

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"  # DeepSpeed looks there for ninja
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("deepspeed", reason="deepspeed is not installed")

PROGRAM = """
import sys
from types import SimpleNamespace

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.checkpoint import ds_to_universal

import ckpt.torch
from ckpt.integrations.deepspeed import checkpointer

HOW, TOP, LAST = sys.argv[1], sys.argv[2], int(sys.argv[3])
CONFIG = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
          "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 4, "total_num_steps": 40}},
          "zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True, "checkpoint": {"load_universal": HOW == "universal"}}


def train(engine):
    while engine.global_steps < LAST:
        rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(engine.global_steps)).to(torch.bfloat16)
        engine.backward((engine(rows) - rows).float().square().mean())
        engine.step()


def main():
    torch.manual_seed(1 if HOW == "first" else 2)
    model = torch.nn.Sequential(torch.nn.Linear(8, 33), torch.nn.Tanh(), torch.nn.Linear(33, 8))
    model.universal_checkpoint_info = {"universal_checkpoint_version": 0.4}
    groups = [{"params": [p for p in model.parameters() if p.ndim == n], "lr": lr} for n, lr in ((2, 1e-2), (1, 1e-3))]
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups), config=CONFIG, dist_init_required=False)
    if HOW in ("first", "ours"):
        with checkpointer(engine, storage_every=100) as ck:
            ck.restore()
            train(engine)
            ck.save(LAST)
    else:
        engine.load_checkpoint(TOP, tag="universal")
        train(engine)
    if HOW == "first":
        engine.save_checkpoint(TOP, tag="zero")
        ds_to_universal.main(SimpleNamespace(input_folder=f"{TOP}/zero", output_folder=f"{TOP}/universal", num_extract_workers=1, num_merge_workers=1,
                                             keep_temp_folder=False, strict=True, inject_missing_state=False))
    total = [deepspeed.utils.safe_get_full_fp32_param(p).double().sum().item() for p in engine.module.parameters()]
    if dist.get_rank() == 0:
        print(f"step {engine.global_steps}, digest {str(sum(total)).encode().hex()}", flush=True)


if __name__ == "__main__":
    with ckpt.torch.init_process_group("gloo"):
        main()
"""


def convert(*words):
    done = subprocess.run([sys.executable, "-m", "ckpt.convert", *map(str, words)], capture_output=True, text=True, check=False,
                          env=pages.environment(PATH=f"{pages.BIN}:{os.environ['PATH']}"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_engine_goes_on_from_what_deepspeed_made_and_deepspeed_from_what_an_engine_saved(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    pages.run(1, "first", tmp_path / "store", program, "first", tmp_path / "made", 5)
    wanted = pages.end(pages.run(1, "first", tmp_path / "store", program, "ours", tmp_path, 9))
    assert "parts: model, optim, schedule" in convert(tmp_path / "made" / "universal", "--repo", tmp_path / "other", "--job", "second", "--step", 5)
    for world in (1, 2):
        said = pages.run(world, "second", tmp_path / "other", program, "ours", tmp_path, 9 if world == 1 else 5)
        assert pages.end(said) == wanted
    out = tmp_path / "out"
    out.mkdir()
    assert re.search("4 parameters", convert("--repo", tmp_path / "store", "--job", "first", "--step", 5, "--to", out / "universal", "--format", "deepspeed"))
    (out / "latest_universal").write_text("universal")
    assert pages.end(pages.run(1, "third", tmp_path / "none", program, "universal", out, 9)) == wanted
