"""The Trainer of Transformers and a loop with Accelerate: the programs of the page, with a rank that is killed and without."""

import re
import subprocess

import pages
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
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
