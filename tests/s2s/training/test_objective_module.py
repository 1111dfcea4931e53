"""An objective with parameters of its own, and several updates on the samples of a batch."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.folders import HARNESS
from harness.sorting_runs import WATCH, fork_training, outcome, records, train, train_in_ranks
from s2s.batch import Batch, make_batch
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import PluginError
from s2s.objective import Objective, Sums
from s2s.task import Vocab
from s2s.training.objective_checks import check_module
from s2s.training.train_step import TrainStep
from tests.s2s.training.test_train_step import Bag

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.model import Seq2Seq

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

PLUGINS = f"plugins=[s2s_example,{WATCH},{HARNESS / 'ppo_plugin.py'}]"
PPO = [
    *(PLUGINS, "objective=ppo", "arch.dropout=0", "train.steps=4", "valid.every=2", "checkpoint.every=2"),
    "train.clip=1.0",
]
VOCAB = Vocab(src=12, tgt=12, joint=True)
PAIRS = [([4, 5, 6], [7, 8]), ([9, 4], [10, 11, 5, 6]), ([5], [4]), ([8, 8, 9, 10], [6])]


@dataclass(frozen=True, kw_only=True)
class Scored(Batch):
    """Outputs with their log-probabilities before the first update."""

    log_probs: Tensor


class Clipped(nn.Module, Objective):
    """The surrogate of proximal policy optimization for the given targets, whose reward is their length."""

    extras = ("value",)
    n_updates = 3

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    @staticmethod
    def log_probs(model: Seq2Seq, batch: Batch) -> Tensor:
        """[B]"""
        logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
        chosen = logits.log_softmax(-1).gather(-1, batch.tgt_out[..., None])[..., 0]
        return (chosen * ~batch.tgt_pad).sum(-1)

    def rollout(self, model: Seq2Seq, batch: Batch) -> Scored:
        return Scored.extend(batch, log_probs=self.log_probs(model, batch))

    def forward(self, model: Seq2Seq, batch: Batch) -> Sums:
        assert isinstance(batch, Scored)
        rewards = (~batch.tgt_pad).sum(-1).double()
        advantages = (rewards - self.value).detach()
        ratio = (self.log_probs(model, batch) - batch.log_probs).exp()
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        error = (self.value - rewards).square()
        return Sums((error - gain).sum(), len(rewards), {"value": self.value.detach() * len(rewards)})


def loop(model: nn.Module, objective: Clipped, clip: float, lr: float) -> None:
    """The same updates, written out: the whole batch at once, plain gradient descent, one norm."""
    batch = make_batch(PAIRS, VOCAB)
    with torch.no_grad():
        before = objective.log_probs(model, batch)  # type: ignore[arg-type]
    parameters = [*model.parameters(), objective.value]
    rewards = torch.tensor([len(target) + 1.0 for _, target in PAIRS], dtype=torch.float64)
    for _ in range(3):
        ratio = (objective.log_probs(model, batch) - before).exp()  # type: ignore[arg-type]
        advantages = rewards - objective.value.detach()
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        loss = ((objective.value - rewards) ** 2 - gain).mean()
        gradients = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p -= lr * min(1.0, clip / (norm + 1e-6)) * g


@pytest.mark.parametrize("micro_tokens", [None, 6], ids=["at once", "in parts"])
def test_several_updates_of_a_batch_are_those_of_a_loop(micro_tokens: int | None) -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append((Bag().double(), Clipped()))
    (model, objective), (expected, expected_objective) = models
    optimizer = torch.optim.SGD([*model.parameters(), objective.value], 0.1)
    config = TrainConfig(tokens=60, micro_tokens=micro_tokens, clip=0.7)
    step = TrainStep(config, 1, VOCAB, model, objective, optimizer, lambda _: 0.1, World())
    for number in (1, 2):
        result = step(PAIRS, number)
        loop(expected, expected_objective, clip=0.7, lr=0.1)
    assert result.is_finite
    pairs = zip([*model.parameters(), objective.value], [*expected.parameters(), expected_objective.value], strict=True)
    for p, q in pairs:
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-8)
    assert objective.value.item() != 0.5


def test_an_update_that_is_not_finite_ends_those_of_its_batch() -> None:
    class Spoilt(Clipped):
        calls = 0

        def forward(self, model: Seq2Seq, batch: Batch) -> Sums:
            self.calls += 1
            sums = super().forward(model, batch)
            return Sums(sums.loss * float("nan"), sums.normaliser, sums.extras) if self.calls == 2 else sums

    objective = Spoilt()
    step = stepped(objective)
    assert not step(PAIRS, 1).is_finite
    assert objective.calls == 2
    assert all(p.isfinite().all() for p in step.model.parameters())


def stepped(objective: Clipped) -> TrainStep:
    """An update of a small model with this objective."""
    model = Bag().double()
    optimizer = torch.optim.SGD([*model.parameters(), *objective.parameters()], 0.1)
    return TrainStep(TrainConfig(tokens=60), 1, VOCAB, model, objective, optimizer, lambda _: 0.1, World())


def test_modules_in_a_plain_list_of_an_objective_are_refused() -> None:
    """torch does not find them: no optimizer would have them."""

    class Listed(Clipped):
        def __init__(self) -> None:
            super().__init__()
            self.critics = [torch.nn.Linear(1, 1).double()]

        def forward(self, model: Seq2Seq, batch: Batch) -> Sums:
            sums = super().forward(model, batch)
            return Sums(sums.loss * self.critics[0].weight.sum(), sums.normaliser, sums.extras)

    with pytest.raises(PluginError, match=r"^Listed has parameters of its own that would not be trained"):
        stepped(Listed())(PAIRS, 1)


def test_an_extra_that_is_infinite_in_both_directions_is_nan() -> None:
    class Infinite(Clipped):
        extras = ("ratio",)
        sign = 1.0

        def forward(self, model: Seq2Seq, batch: Batch) -> Sums:
            sums = super().forward(model, batch)
            self.sign = -self.sign
            return Sums(sums.loss, sums.normaliser, {"ratio": torch.tensor(self.sign * float("inf"))})

    result = stepped(Infinite())(PAIRS, 1)
    assert result.is_finite
    assert math.isnan(result.extras["ratio"])


def test_a_module_that_is_called_otherwise_is_refused() -> None:
    class Direct(Objective, nn.Module):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
            raise NotImplementedError

    with pytest.raises(PluginError, match=r"^Direct: write class Direct\(nn\.Module, Objective\), and forward"):
        check_module(Direct())
    check_module(Clipped())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four updates that nothing interrupted."""
    folder = tmp_path_factory.mktemp("ppo") / "whole"
    assert train(folder, *PPO) == 0
    return folder


def test_it_learns_and_its_critic_too(tmp_path: Path) -> None:
    options = ["train.steps=24", "schedule.lr=1e-2", "valid.every=0", "checkpoint.every=0"]
    assert train(tmp_path / "a", *PPO, *options) == 0
    rewards = [reward for (reward,) in records(tmp_path / "a" / "run", "update", "reward")]
    errors = [error for (error,) in records(tmp_path / "a" / "run", "update", "value_loss")]
    assert sum(rewards[-6:]) > 1.15 * sum(rewards[:6]), rewards
    assert sum(errors[-6:]) < 0.7 * sum(errors[:2]) / 2 * 6, errors


def test_its_parameters_are_saved_validated_and_restored(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes at an update after which no checkpoint is due."""
    assert "step-000004/objective.safetensors" in outcome(whole)["hashes"]
    assert len(records(whole / "run", "valid", "reward", "value_loss")) == 2
    monkeypatch.setenv("SIGNAL", "TERM updating 3")
    assert train(tmp_path / "a", *PPO) == 75
    monkeypatch.setenv("SIGNAL", "none")
    assert train(tmp_path / "a", *PPO) == 0
    assert outcome(tmp_path / "a") == outcome(whole)


def test_a_run_that_was_killed_between_the_updates_of_a_batch_ends_with_the_same_bytes(
    whole: Path, tmp_path: Path
) -> None:
    checkpoints = tmp_path / "killed" / "run" / "checkpoints"
    kill = f"{2 * 3 * 3 + 3} {tmp_path / 'calls'} {checkpoints}"
    pid = fork_training(tmp_path / "killed", *PPO, env={"KILL": kill})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    saved = sorted(path.name for path in checkpoints.glob("step-*"))
    assert saved
    assert saved[-1] < "step-000004"
    assert train(tmp_path / "killed", *PPO) == 0
    assert outcome(tmp_path / "killed") == outcome(whole)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_learn_the_same(whole: Path, tmp_path: Path, strategy: str) -> None:
    options = [*PPO, "valid.every=0", f"train.strategy={strategy}"]
    assert train_in_ranks(tmp_path / "two", 2, *options) == [0, 0], (tmp_path / "two.log").read_text()
    keys = ("step", "loss", "gnorm", "reward", "value_loss", "ratio")
    folders = whole, tmp_path / "two"
    one, two = (records(folder / "run", "update", *keys) for folder in folders)
    for a, b in zip(one, two, strict=True):
        assert a == pytest.approx(b, rel=2e-4)
    tensors: list[Any] = [
        json.loads((folder / "run" / "checkpoints" / "step-000004" / "MANIFEST.json").read_text())[
            "objective.safetensors"
        ]["size"]
        for folder in folders
    ]
    assert tensors[0] == tensors[1]
