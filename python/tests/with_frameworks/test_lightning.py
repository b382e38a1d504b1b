"""The Trainer of Lightning: the program of the page, with a rank that is killed and without; and kinds of loaders."""

import os
import signal

import pages
import pytest
import ranks
import torch

pl = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
import ckpt  # noqa: E402
from ckpt.integrations.lightning import CkptCallback  # noqa: E402

PAGE = "howto/train-with-lightning.md"
ROWS, EPOCHS = 21, 3


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    top = tmp_path_factory.mktemp("undisturbed")
    return pages.end(pages.run(2, "undisturbed", top / "store", pages.program(PAGE, "fit.py", top)))


@pytest.mark.parametrize("step", [27, 40], ids=["within an epoch", "end of an epoch"])
def test_a_killed_rank(tmp_path, undisturbed, step):
    said = pages.run(2, "killed", tmp_path / "store", pages.program(PAGE, "fit.py", tmp_path), inject=f"kill:rank=1@step={step}")
    assert "was killed by signal 9" in said and pages.end(said) == undisturbed, said


FSDP2 = [("from ckpt.integrations", "from lightning.pytorch.strategies import ModelParallelStrategy\nfrom torch.distributed.fsdp import fully_shard\n"
          "from ckpt.integrations"),
         ("    def training_step", "    def configure_model(self):\n        for layer in (self.layers[0], self.layers[2], self.layers):\n"
          "            fully_shard(layer, mesh=self.device_mesh[\"data_parallel\"])\n\n    def training_step"),
         ('strategy="ddp"', 'strategy=ModelParallelStrategy(2, 1, process_group_backend="gloo")'), ("t.detach()", "t.full_tensor().detach()")]


def test_a_killed_rank_with_fsdp2(tmp_path):
    """The program of the page with another strategy."""
    program = pages.program(PAGE, "fit.py", tmp_path)
    for old, new in FSDP2:
        assert program.read_text().count(old) == 1
        program.write_text(program.read_text().replace(old, new))
    alone = pages.end(pages.run(2, "alone", tmp_path / "store", program))
    said = pages.run(2, "killed", tmp_path / "store", program, inject="kill:rank=1@step=27")
    assert "was killed by signal 9" in said and pages.end(said) == alone, said


class Knows:
    """A loader that knows its position."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        self.at %= ROWS
        while self.at < ROWS:
            self.at += 1
            yield torch.full((2, 4), float(self.at))

    def __len__(self):
        return ROWS

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Endless(torch.utils.data.IterableDataset):
    """Its length is not known: the loop draws one batch ahead."""

    def __iter__(self):
        return iter(torch.arange(ROWS * 4.0).reshape(ROWS, 4))


LOADERS = {"shuffled": lambda: torch.utils.data.DataLoader(torch.arange(ROWS * 4.0).reshape(ROWS, 4), shuffle=True), "knows": Knows,
           "endless": lambda: torch.utils.data.DataLoader(Endless())}


class Model(pl.LightningModule):
    def __init__(self, kill):
        super().__init__()
        self.layer, self.kill, self.seen = torch.nn.Linear(4, 4), kill, []

    def training_step(self, batch, number):
        if self.global_step == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append((self.current_epoch, number, batch.sum().item(), torch.rand(()).item()))
        self.log("loss", loss := self.layer(batch / 100).square().mean())
        return loss

    def validation_step(self, batch, number):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(service, job, out, loader, kill):
    pl.seed_everything(3, verbose=False)
    model, callback = Model(kill), CkptCallback(job=job, socket=service.socket, memory_every=1, timeout=60)
    checks = {} if loader == "endless" else {"val_check_interval": 7}
    trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=EPOCHS, callbacks=[callback, pl.callbacks.EarlyStopping("loss", patience=99)],
                         enable_checkpointing=False, logger=False, enable_progress_bar=False, enable_model_summary=False, **checks)
    trainer.fit(model, LOADERS[loader](), torch.utils.data.DataLoader(torch.ones(2, 4)))
    torch.save([callback.found_step, model.seen, list(model.parameters()), trainer.current_epoch], service.top / out)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loader, kill", [("shuffled", 30), ("shuffled", 42), ("knows", 22), ("endless", 45)])
def test_each_batch_is_seen_once(service, loader, kill):
    job = f"{loader}-{kill}"
    ranks.run(service, 1, fit, service, f"{job}-not", f"{job}-not.pt", loader, None)
    ranks.run(service, 1, fit, service, job, f"{job}.pt", loader, kill, codes=[-signal.SIGKILL])
    ranks.run(service, 1, fit, service, job, f"{job}.pt", loader, None)
    alone, killed = (torch.load(service.top / f"{name}.pt") for name in (f"{job}-not", job))
    found = killed[0]
    assert alone[0] is None and found in (kill - 1, kill) and len(alone[1]) == ROWS * EPOCHS
    assert killed[1] == alone[1][found:] and killed[3] == alone[3] == EPOCHS
    assert all(torch.equal(a, b) for a, b in zip(alone[2], killed[2]))


def told(service, out):
    pl.seed_everything(3, verbose=False)
    losses, beats, beat = [], [], ckpt.Session.beat

    class Notes(Model):
        def training_step(self, batch, number):
            loss = super().training_step(batch, number)
            losses.append(loss.item())
            return loss

    ckpt.Session.beat = lambda self, step, phase="idle", loss=None, grad_norm=None: (beats.append((step, loss)) if loss is not None else None,
                                                                                     beat(self, step, phase, loss, grad_norm))
    trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=2, limit_train_batches=20, accumulate_grad_batches=2, enable_checkpointing=False,
                         callbacks=[CkptCallback(loss=True, job="told", socket=service.socket, memory_every=5, timeout=60)], logger=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Notes(None), LOADERS["shuffled"]())
    torch.save([losses, beats], service.top / out)


@pytest.mark.filterwarnings("ignore")
def test_the_loss_of_each_step_is_handed_over(service):
    ranks.run(service, 1, told, service, "told.pt")
    losses, beats = torch.load(service.top / "told.pt")
    assert len(losses) == 40 and beats == [(i, pytest.approx((losses[2 * i] + losses[2 * i + 1]) / 2)) for i in range(20)]
