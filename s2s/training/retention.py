"""Which of a run's checkpoints are kept, which are averaged, and which are removed to free space."""

from __future__ import annotations

__all__ = ["Retention"]

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.manifest import verify
from s2s.config import Config
from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.log.log import Log

if TYPE_CHECKING:
    from s2s.training.state import TrainerState


@dataclass
class Retention:
    """Keeps the newest and the best checkpoints of one run."""

    config: Config
    folder: Path
    log: Log

    def n_last(self) -> int:
        """Newest checkpoints to keep: checkpoint.keep_last, or as many as will be averaged."""
        train, keep = self.config.train, self.config.checkpoint
        return max(keep.keep_last, train.average if train.average_of == "last" else 0)

    def n_best(self) -> int:
        """Best checkpoints to keep: checkpoint.keep_best, or as many as will be averaged."""
        train, keep = self.config.train, self.config.checkpoint
        return max(keep.keep_best, train.average if train.average_of == "best" else 0)

    def apply(self, name: str, state: TrainerState, interim: str) -> None:
        """Link `last` to `name` and `best` to the best one; remove `interim` and all that are neither recent nor best.

        Checkpoints of later steps than `name` are removed, too: they were skipped as damaged when the run resumed.
        """
        names = [path.name for path in checkpoint.steps(self.folder)]
        names = [n for n in names[: names.index(name) + 1] if n == name or n != interim]
        best = [checkpoint.step_name(step) for _, step in state.best[: self.n_best()]]
        atomic.write_link(self.folder.parent / "last", self.folder / name)
        if best and best[0] in names:
            atomic.write_link(self.folder.parent / "best", self.folder / best[0])
        checkpoint.prune(self.folder, {*names[-self.n_last() :], *best})

    def checkpoints_to_average(self, state: TrainerState) -> list[Path]:
        """The last or best train.average checkpoints that pass verification, with a warning if there are fewer."""
        n_requested, of = self.config.train.average, self.config.train.average_of
        if of == "best":
            ranked = [self.folder / checkpoint.step_name(step) for _, step in state.best]
        else:
            ranked = checkpoint.steps(self.folder)[::-1]
        valid = (path for path in ranked if self._is_valid(path))
        members = list(islice(valid, n_requested))
        if len(members) < n_requested:
            more = "save more often (checkpoint.every)" if of == "last" else "validate more often (valid.every)"
            shortage = f"the run has {len(members)} of {n_requested} checkpoints to average"
            self.log.warn(f"train.average={n_requested}: {shortage}; {more}, or raise train.steps")
        return members

    def _is_valid(self, path: Path) -> bool:
        try:
            verify(path)
        except CheckpointError as error:
            self.log.warn(f"not averaged: {error}")
            return False
        return True

    def free_space(self) -> None:
        """Remove all but the newest checkpoint and the one that `best` links to."""
        best = atomic.read_link(self.folder.parent / "best")
        with suppress(CheckpointError):
            checkpoint.prune(self.folder, [*checkpoint.steps(self.folder)[-1:], *([best] if best else [])])
