"""Which of a run's checkpoints are kept, which are averaged, and what makes way for the next."""

from __future__ import annotations

__all__ = ["Retention"]

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import checkpoint
from s2s.config import Config
from s2s.errors import CheckpointError
from s2s.log import Log

if TYPE_CHECKING:
    from s2s.progress import Progress


@dataclass
class Retention:
    """The newest and the best of one run's checkpoints."""

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

    def keep(self, name: str, progress: Progress, stopgap: str) -> None:
        """Point at the newest, `name`, and at the best, and remove all that is neither, and the `stopgap`.

        What has a later step is none of ours: it was passed over as damaged.
        """
        names = [path.name for path in checkpoint.steps(self.folder)]
        names = [n for n in names[: names.index(name) + 1] if n == name or n != stopgap]
        best = [checkpoint.step_name(step) for _, step in progress.best[: self.n_best()]]
        checkpoint.write_link(self.folder.parent / "last", self.folder / name)
        if best and best[0] in names:
            checkpoint.write_link(self.folder.parent / "best", self.folder / best[0])
        checkpoint.prune(self.folder, {*names[-self.n_last() :], *best})

    def members(self, progress: Progress) -> list[Path]:
        """What is averaged: of the last or best checkpoints, those that are whole."""
        if self.config.train.average_of == "best":
            ranked = [self.folder / checkpoint.step_name(step) for _, step in progress.best]
        else:
            ranked = checkpoint.steps(self.folder)[::-1]
        whole = (path for path in ranked if self._is_whole(path))
        return list(islice(whole, self.config.train.average))

    def _is_whole(self, path: Path) -> bool:
        try:
            checkpoint.verify(path)
        except CheckpointError as error:
            self.log.warn(f"not averaged: {error}")
            return False
        return True

    def make_room(self) -> None:
        """Keep only the newest checkpoint and what `best` names."""
        best = checkpoint.read_link(self.folder.parent / "best")
        with suppress(CheckpointError):
            checkpoint.prune(self.folder, [*checkpoint.steps(self.folder)[-1:], *([best] if best else [])])
