"""The average that a run ends with: of its checkpoints, and with the weights that it began with.

The second is WiSE-FT (Wortsman et al., 2022): the weights between those of a model and of its fine-tuned version forget
less than the latter.
"""

from __future__ import annotations

__all__ = ["FinalAverage"]

from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.names import WORSE
from s2s.checkpoint.weights import evaluated_weights, weighted_mean
from s2s.config import Config
from s2s.errors import Preempted
from s2s.training.checkpointing import AVERAGE, START, CheckpointManager, frozen_names
from s2s.training.state import TrainerState
from s2s.training.validation import ValidationResult

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from s2s.checkpoint.directory import Checkpoint

WEIGHTS = ("model", "ema")


def _without(saved: Checkpoint, names: Container[str]) -> Checkpoint:
    """The checkpoint without some tensors, whose bytes are then not read."""
    kept = {group: {n: t for n, t in named.items() if n not in names} for group, named in saved.tensors.items()}
    return replace(saved, tensors=kept)


@dataclass
class FinalAverage:
    """Writes and validates the average; every rank must call it."""

    config: Config
    checkpoints: CheckpointManager
    state: TrainerState
    validate: Callable[[], ValidationResult | None] | None
    """Validates the current weights; its result is None if a signal interrupted it. None: no development set"""
    preempt: Callable[[], Preempted]
    """The error to raise after a signal"""

    def __post_init__(self) -> None:
        self.folder, self.world = self.checkpoints.folder, self.checkpoints.train_step.world

    def __call__(self) -> dict[str, Any] | None:
        """Path and validation of the averaged weights, on all ranks; None if the run averages none."""
        self.checkpoints.train_step.optimizer.zero_grad()  # a mean takes as much memory as the gradients did
        averaged = self.checkpoints.average(self.state) if self.world.is_main else None
        record = self.validated() if self.world.any_true(averaged is not None) else None
        return self.mixed_with_start(record) if self.config.train.init_weight else record

    def validated(self) -> dict[str, Any]:
        """Path and validation of the mean of checkpoints.

        If it validated worse than the best checkpoint, the average records it, and checkpoint=auto passes it over.
        """
        average = checkpoint.load(self.folder / AVERAGE)
        result = self.measured(average.tensors["model"])
        if result is None:
            return {"path": str(average.path)}
        worse = bool(self.state.best) and result.criterion < self.state.best[0][0]
        if worse and self.world.is_main:
            checkpoint.save(self.folder, AVERAGE, average.tensors, {**average.state, WORSE: True})
        return {"path": str(average.path), "worse_by": self.config.valid.best if worse else "", **result.record()}

    def mixed_with_start(self, record: Mapping[str, Any] | None) -> dict[str, Any]:
        """The same of the weights between START and those that checkpoint=auto would take, saved as AVERAGE.

        record: of the mean of checkpoints, if there is one.
        """
        tuned = self.tuned(record)
        frozen = self.frozen_weights()
        start, learnt = (
            evaluated_weights(_without(checkpoint.load(path, only=WEIGHTS), frozen))
            for path in (self.folder / START, tuned)
        )
        share = self.config.train.init_weight
        mixed = {**weighted_mean([start, learnt], [share, 1 - share]), **frozen}
        members = checkpoint.load(tuned, only=()).state.get("members", [tuned.name])
        saved = {"members": members, "init_weight": share, "trainer": asdict(self.state)}
        self.world.barrier()  # every rank has read what is replaced
        if self.world.is_main:
            checkpoint.save(self.folder, AVERAGE, {"model": mixed}, saved)
        result, what = self.measured(mixed), f"{share:.0%} of it the weights at the start"
        return {"path": str(self.folder / AVERAGE), "mixed": what, **(result.record() if result else {})}

    def tuned(self, record: Mapping[str, Any] | None) -> Path:
        """The mean of checkpoints unless it is worse than the best one, else that, else the newest."""
        if record and not record.get("worse_by"):
            return self.folder / AVERAGE
        best = [self.folder / checkpoint.step_name(step) for _, step in self.state.best]
        return next((path for path in best if path.is_dir()), checkpoint.steps(self.folder)[-1])

    def frozen_weights(self) -> dict[str, Tensor]:
        """The weights that training leaves as they are, which are not read again; a collective call."""
        step = self.checkpoints.train_step
        names = frozen_names(step.model)
        full = step.sharding.full_tensors(step.model.state_dict()) if names else {}
        return {name: tensor for name, tensor in full.items() if name in names}

    def measured(self, weights: Mapping[str, Tensor]) -> ValidationResult | None:
        """The validation of these weights, if there is one; the model's own are restored."""
        if self.validate is None:
            return None
        model, path = self.checkpoints.train_step.model, self.folder / AVERAGE
        frozen = frozen_names(model)
        own = {n: weights[n] if n in frozen else t.detach().clone() for n, t in model.state_dict().items()}
        self.checkpoints.load_weights(weights, path)
        result = self.validate()
        self.checkpoints.load_weights(own, path)
        if result is None:
            raise self.preempt()
        return result
