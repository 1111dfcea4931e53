"""A run's checkpoints: what goes into one, what comes back out of it, and which are kept."""

from __future__ import annotations

__all__ = ["Keeper", "Progress"]

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import checkpoint
from s2s.config import Config
from s2s.ema import EMA
from s2s.errors import CheckpointError
from s2s.log import Log
from s2s.update import Updater

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


MAX_FAILED_SAVES = 5
"""Saves in a row that may fail, the disk being full, before the run is given up."""


@dataclass
class Progress:
    """Where a run stands: all of a checkpoint that is not a tensor."""

    step: int = 0
    """Updates done"""
    epoch: int = 0
    batch: int = 0
    """Next batch of the epoch; with `epoch`, the whole state of the data"""
    n_tokens: int = 0
    """Target symbols learnt from"""
    n_bad: int = 0
    """Updates skipped in a row because something was not finite"""
    seconds: float = 0.0
    """Time spent in updates"""
    valid_step: int = 0
    """Step of the newest validation"""
    n_stale: int = 0
    """Validations since the best one"""
    best: list[tuple[float, int]] = field(default_factory=list)
    """(goodness, step) of the best validations, the best first"""


@dataclass
class Keeper:
    """Saves and restores one run."""

    config: Config
    folder: Path
    updater: Updater
    ema: EMA | None
    log: Log
    saved_step: int = -1
    n_failed: int = 0

    def save(self, progress: Progress) -> Path | None:
        """Save the run as it stands, drop what need not be kept; None if it failed and training can go on."""
        if self.saved_step == progress.step:
            return self.folder / checkpoint.step_name(progress.step)
        began = time.monotonic()
        optim, optim_tensors = checkpoint.pack(self.updater.optimizer.state_dict())
        state = {"progress": asdict(progress), "optim": optim, "scaler": self.updater.scaler.state_dict()}
        try:
            path = checkpoint.save(
                self.folder,
                checkpoint.step_name(progress.step),
                {**self._weights(), "optim": optim_tensors},
                state,
            )
            self._keep(progress)
        except CheckpointError as error:
            self._failed(error)
            return None
        self.saved_step, self.n_failed = progress.step, 0
        self.log.saved(path, time.monotonic() - began)
        return path

    def restore(self) -> Progress | None:
        """Load the newest valid checkpoint into model, optimizer and averages; None if there is none."""
        checkpoint.sweep(self.folder)
        checkpoint.preflight(self.folder, self._expected_size())
        path, skipped = checkpoint.newest(self.folder)
        for reason in skipped:
            self.log.warn(f"checkpoint passed over: {reason}")
        if path is None:
            return None
        found = checkpoint.load(path)
        checkpoint.load_weights(self.updater.model, found.tensors["model"], path)
        self.updater.optimizer.load_state_dict(checkpoint.unpack(found.state["optim"], found.tensors["optim"]))
        self.updater.scaler.load_state_dict(found.state["scaler"])
        if self.ema:
            self.ema.load(found.tensors["ema"])
        progress = Progress(**found.state["progress"])
        progress.best = [(goodness, step) for goodness, step in progress.best]
        self.saved_step = progress.step
        return progress

    def average(self, progress: Progress) -> Path | None:
        """Write the mean of the last or best train.average checkpoints as `average` (section 6.1)."""
        wanted = self.config.train.average
        if self.config.train.average_of == "best":
            members = [self.folder / checkpoint.step_name(step) for _, step in progress.best[:wanted]]
        else:
            members = checkpoint.steps(self.folder)[-wanted:]
        if not wanted or not members:
            return None
        state = {"members": [m.name for m in members], "progress": asdict(progress)}
        return checkpoint.save(self.folder, "average", {"model": checkpoint.mean(members)}, state)

    def n_last(self) -> int:
        """Newest checkpoints to keep: checkpoint.keep_last, or as many as will be averaged."""
        train, keep = self.config.train, self.config.checkpoint
        return max(1, keep.keep_last, train.average if train.average_of == "last" else 0)

    def n_best(self) -> int:
        """Best checkpoints to keep: checkpoint.keep_best, or as many as will be averaged."""
        train, keep = self.config.train, self.config.checkpoint
        return max(1, keep.keep_best, train.average if train.average_of == "best" else 0)

    def _expected_size(self) -> int:
        """Bytes of a checkpoint: weights, two moments of each as Adam keeps them, and their moving average."""
        return 3 * checkpoint.size(self.updater.model.state_dict()) + checkpoint.size(self.ema.mean if self.ema else {})

    def _weights(self) -> dict[str, Mapping[str, Tensor]]:
        weights: dict[str, Mapping[str, Tensor]] = {"model": self.updater.model.state_dict()}
        if self.ema:
            weights["ema"] = self.ema.mean
        return weights

    def _keep(self, progress: Progress) -> None:
        """Point at the newest and the best, and remove all that is neither."""
        names = [path.name for path in checkpoint.steps(self.folder)]
        best = [checkpoint.step_name(step) for _, step in progress.best[: self.n_best()]]
        checkpoint.point(self.folder.parent / "last", self.folder / names[-1])
        if best and best[0] in names:
            checkpoint.point(self.folder.parent / "best", self.folder / best[0])
        checkpoint.prune(self.folder, {*names[-self.n_last() :], *best})

    def _make_room(self) -> None:
        """Keep only the newest checkpoint and what `best` names."""
        best = checkpoint.follow(self.folder.parent / "best")
        with suppress(CheckpointError):
            checkpoint.prune(self.folder, [*checkpoint.steps(self.folder)[-1:], *([best] if best else [])])

    def _failed(self, error: CheckpointError) -> None:
        """A full disk may be emptied while we train on: warn, and give up only when it stays so."""
        self.n_failed += 1
        self._make_room()
        self.log.warn(f"not saved ({self.n_failed} of at most {MAX_FAILED_SAVES} in a row): {error}")
        if self.n_failed >= MAX_FAILED_SAVES:
            raise error
