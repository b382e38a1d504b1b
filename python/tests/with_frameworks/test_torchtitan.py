"""The checkpoint manager of torchtitan with torchtitan's containers: the program of the page, a rank that is killed, other worlds; and its options."""

import pages
import pytest
import torch

pytest.importorskip("torchtitan", reason="torchtitan is not installed")
from torchtitan.components.checkpointer import BaseCheckpointManager  # noqa: E402
from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer, ParamGroupConfig  # noqa: E402

import ckpt  # noqa: E402
from ckpt.integrations.torchtitan import CheckpointManager  # noqa: E402

PAGE = "howto/train-with-torchtitan.md"
pytestmark = pytest.mark.filterwarnings("ignore:To get the last learning rate")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    top = tmp_path_factory.mktemp("undisturbed")
    return top, pages.end(pages.run(2, "undisturbed", top / "store", pages.program(PAGE, "train.py", top), 60))


def test_a_killed_rank(tmp_path, undisturbed):
    said = pages.run(2, "killed", tmp_path / "store", pages.program(PAGE, "train.py", tmp_path), 60, inject="kill:rank=1@step=27")
    assert "was killed by signal 9" in said and "from memory" in said and pages.end(said) == undisturbed[1], said


@pytest.mark.parametrize("ranks", [1, 3])
def test_another_world(undisturbed, ranks):
    top, end = undisturbed
    assert pages.end(pages.run(ranks, "undisturbed", top / "store", top / "train.py", 60)) == end


# ---- one rank


class Counts:
    def __init__(self, **state):
        self.state = state

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = state


class Loop:
    """What a trainer makes: a model, an optimizer, a schedule, and a manager of them."""

    def __init__(self, service, job, counts=None, **options):
        torch.manual_seed(1)
        self.model, self.counts = torch.nn.Linear(4, 4), counts or Counts(step=0)
        adam = ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.1})
        self.optimizers = OptimizersContainer.Config(param_groups=[adam], implementation="for-loop").build(model_parts=[self.model])
        self.schedules = LRSchedulersContainer.Config(warmup_steps=4, total_steps=10).build(optimizers=self.optimizers, training_steps=10)
        config = CheckpointManager.Config(**{"enable": True, "job": job, "socket": service.socket, "strict_saves": True} | options)
        self.manager = config.build(dataloader=None, model_parts=[self.model], optimizers=self.optimizers, lr_schedulers=self.schedules,
                                    states={"train_state": self.counts}, sd_adapter=None)

    def step(self, number, last=False):
        self.counts.state["step"] = number
        self.optimizers.zero_grad()
        self.model(torch.full((2, 4), float(number))).square().mean().backward()
        self.manager.maybe_wait_for_staging()
        self.optimizers.step()
        self.schedules.step()
        return self.manager.save(number, last_step=last)

    def state(self):
        state = [p.clone() for p in self.model.parameters()] + [v for s in self.optimizers.optimizers[0].state.values() for v in s.values()]
        return [t.tolist() for t in state] + [dict(self.schedules.state_dict()), dict(self.counts.state), self.optimizers.optimizers[0].param_groups[0]["lr"]]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)


def test_it_is_what_torchtitan_builds(service):
    manager = Loop(service, "built").manager
    assert isinstance(manager, BaseCheckpointManager) and manager.load() is False and manager.load(step=-1) is False
    manager.maybe_wait_for_saving()
    manager.close()
    manager.close()


def test_steps_that_are_saved_and_what_comes_back(service):
    loop = Loop(service, "steps", interval=4, enable_first_step_checkpoint=True)
    loop.manager.load()
    assert [n for n in range(1, 7) if loop.step(n, n == 6)] == [1, 4, 6]
    end = loop.state()
    loop.manager.close()
    assert {c.step for c in ckpt.checkpoints(service.store, "steps")} >= {1, 6}
    other = Loop(service, "steps")
    assert other.state() != end and other.manager.load() is True and other.state() == end
    other.manager.close()


def test_a_step_can_be_chosen_and_nothing_is_saved_with_load_only(service):
    loop = Loop(service, "chosen", interval=1)
    loop.manager.load()
    loop.step(1, True)
    first = loop.state()
    loop.step(2, True)
    loop.manager.close()
    other = Loop(service, "chosen", load_only=True)
    assert other.manager.load(1) is True and other.state() == first and not other.step(2, True)
    other.manager.close()


@pytest.mark.parametrize("option, value", [("initial_load_path", "/old"), ("last_save_in_hf", True), ("create_seed_checkpoint", True),
                                           ("exclude_from_loading", ["optimizer"])])
def test_what_it_does_not_do_is_refused(service, option, value):
    with pytest.raises(ValueError, match=f"checkpoint.{option} is set"):
        Loop(service, "options", **{option: value})


def test_what_has_no_place_is_refused_by_its_path(service):
    loop = Loop(service, "refused", Counts(step=0, odd=Counts()), interval=1)
    loop.manager.load()
    with pytest.raises(ckpt.TreeError, match=r"train_state\.odd is a .*Counts"):
        loop.step(1)
    loop.manager.close()


def test_a_trainer_that_failed_has_not_finished(service):
    loop = Loop(service, "failed")
    loop.manager.load()
    with pytest.raises(KeyError):
        try:
            raise KeyError("loss")
        except KeyError:
            loop.manager.close()
            raise
    assert loop.manager.checkpointer.session.epoch == 0


def test_a_manager_that_is_off_needs_no_daemon(service):
    manager = Loop(service, "off", enable=False, socket="/nowhere").manager
    assert not manager.load() and not manager.save(1) and manager.close() is None
