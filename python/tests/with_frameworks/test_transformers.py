"""The Trainer of Transformers and a loop with Accelerate: the programs of the page, with a rank that is killed and without."""

import re
import subprocess

import pages
import pytest
import ranks
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
import ckpt  # noqa: E402
from ckpt.integrations.transformers import attach  # noqa: E402

PAGE = "howto/train-with-transformers.md"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    top = tmp_path_factory.mktemp("undisturbed")
    return top, pages.end(pages.run(2, "undisturbed", top / "store", pages.program(PAGE, "finetune.py", top), top / "out"))


@pytest.mark.parametrize("step", [12, 17], ids=["end of an epoch", "within an epoch"])
def test_a_killed_rank_of_a_trainer(tmp_path, undisturbed, step):
    said = pages.run(2, "killed", tmp_path / "store", pages.program(PAGE, "finetune.py", tmp_path), tmp_path / "out", inject=f"kill:rank=1@step={step}")
    assert "was killed by signal 9" in said and pages.end(said) == undisturbed[1], said


def test_from_pretrained_reads_an_export(tmp_path, undisturbed):
    top, said = undisturbed
    subprocess.run([pages.BIN / "ckpt", "export", "latest", "--repo", top / "store", "--job", "undisturbed", "--format", "hf", "--group", "model",
                    "--with", top / "out" / "config.json", "--to", tmp_path / "exported", "-q"], check=True, env=pages.environment())
    model, about = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported", key_mapping={r"^model\.(.*)": r"\1"},
                                                                     output_loading_info=True)
    assert not about["missing_keys"] and not about["unexpected_keys"], about
    assert torch.allclose(model.model.norm.weight, torch.ones(32), atol=0.1) and not torch.equal(model.model.norm.weight, torch.ones(32))
    assert re.search("step 36 of epoch 3.0", said)


def test_a_training_that_is_complete_does_nothing(undisturbed):
    top, said = undisturbed
    assert pages.end(pages.run(2, "undisturbed", top / "store", top / "finetune.py", top / "out")) == said


def test_a_killed_rank_of_a_loop_with_accelerate(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    loop = pages.program(PAGE, "loop.py", tmp_path)
    alone = pages.end(pages.run(2, "alone", tmp_path / "store", loop))
    said = pages.run(2, "killed", tmp_path / "store", loop, inject="kill:rank=1@step=17")
    assert "was killed by signal 9" in said and pages.end(said) == alone, said


def told(service, out):
    transformers.set_seed(1)
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
    texts = torch.randint(0, 64, (24, 16), generator=torch.Generator().manual_seed(1))
    arguments = transformers.TrainingArguments(str(service.top / "out"), num_train_epochs=2, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                               use_cpu=True, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=1)
    trainer = transformers.Trainer(transformers.LlamaForCausalLM(config), arguments, train_dataset=[{"input_ids": t, "labels": t} for t in texts])
    beats, beat = [], ckpt.Session.beat
    ckpt.Session.beat = lambda self, step, phase="idle", loss=None, grad_norm=None: (beats.append((step, loss)) if loss is not None else None,
                                                                                     beat(self, step, phase, loss, grad_norm))
    attach(trainer, loss=True, job="told", socket=service.socket, memory_every=5, timeout=60)
    trainer.train()
    torch.save([[(h["step"] - 1, float(h["loss"])) for h in trainer.state.log_history if "loss" in h], beats], service.top / out)


@pytest.mark.filterwarnings("ignore")
def test_the_loss_of_each_step_is_handed_over(service):
    ranks.run(service, 1, told, service, "told.pt")
    logged, beats = torch.load(service.top / "told.pt")
    assert len(logged) == 12 and beats == [(step, pytest.approx(loss, abs=1e-3)) for step, loss in logged]
