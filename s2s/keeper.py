"""A run's checkpoints: what goes into one, how it is written beside the training, what comes back out of it."""

from __future__ import annotations

__all__ = ["AVERAGE", "Keeper", "Whole"]

import copy
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from s2s import checkpoint
from s2s.config import Config
from s2s.distributed import full_tensors, shard_like
from s2s.ema import EMA
from s2s.errors import CheckpointError
from s2s.io.prefetch import Job
from s2s.log import Log
from s2s.progress import Progress
from s2s.retention import Retention
from s2s.update import Updater

if TYPE_CHECKING:
    from collections.abc import Mapping


AVERAGE = "average"
"""The checkpoint that holds the mean of others"""
MAX_FAILED_SAVES = 5
"""Saves in a row that may fail, the disk being full, before the run is given up."""


class Whole(NamedTuple):
    """What a checkpoint holds of model, averages and optimizer, by whatever strategy they are trained."""

    tensors: dict[str, Mapping[str, Tensor]]
    """Group -> name -> tensor; of processes other than the first, nobody asks"""
    optim: Any
    """How the optimizer's tensors are put together again"""


class Saving(NamedTuple):
    """A checkpoint that is being written."""

    job: Job[Path]
    progress: Progress
    stopgap: bool
    began: float
    is_try: bool
    """Whether training goes on if it fails"""


@dataclass
class Keeper:
    """Saves and restores one run."""

    config: Config
    folder: Path
    updater: Updater
    ema: EMA | None
    log: Log
    retention: Retention
    """Which checkpoints stay"""
    saved: Progress | None = None
    """Where the run stood when it was saved last"""
    stopgap: str = ""
    """A checkpoint that is there only because a signal came; it makes way for the next, so that the kept ones, and
    their mean, are those of a run that was never stopped"""
    n_failed: int = 0
    under_way: Saving | None = None
    """The checkpoint that is being written while training goes on; never more than one"""

    def whole(self) -> Whole:
        """What is to be saved, gathered from all processes onto the first: all of them must call it."""
        world, model = self.updater.world, self.updater.model
        optim, optim_tensors = checkpoint.flatten_state(full_tensors(self.updater.optimizer.state_dict(), world))
        tensors: dict[str, Mapping[str, Tensor]] = {
            "model": full_tensors(model.state_dict(), world),
            "optim": optim_tensors,
        }
        if self.ema:
            tensors["ema"] = full_tensors(self.ema.mean, world)
        return Whole(tensors, optim)

    def save(self, progress: Progress, content: Whole, *, is_try: bool = False) -> None:
        """Begin to save the run as it stands, and to drop what need not be kept; nothing if it is saved already.

        No other may be under way: `settle` comes first.
        """
        name = checkpoint.step_name(progress.step)
        if progress != self.saved or not (self.folder / name).is_dir():
            self._save(progress, content, stopgap=False, is_try=is_try)
            return
        self.stopgap = ""
        self.retention.keep(name, progress, "")  # a kill may have come between the two

    def save_for_now(self, progress: Progress, content: Whole) -> None:
        """The same because a signal came, where nothing else asks for a checkpoint."""
        if progress != self.saved:
            self._save(progress, content, stopgap=True, is_try=False)

    def try_save(self, progress: Progress, content: Whole) -> None:
        """The same, but training goes on if it fails: a full disk may be emptied meanwhile."""
        self.save(progress, content, is_try=True)

    @property
    def is_written(self) -> bool:
        """Whether a checkpoint was under way and is now written, or has failed: `settle` would not wait."""
        return self.under_way is not None and self.under_way.job.is_done

    def settle(self) -> Path | None:
        """Wait for the checkpoint that is under way, and say what became of it; where it lies, if it does."""
        if self.under_way is None:
            return None
        saving = self.under_way
        try:
            path = saving.job.result()
        except CheckpointError as error:
            self.under_way = None
            if not saving.is_try:
                raise
            self._failed(error)
            return None
        self.under_way = None
        self.saved, self.n_failed = saving.progress, 0
        self.stopgap = path.name if saving.stopgap else ""
        self.log.saved(path, time.monotonic() - saving.began)
        return path

    def _failed(self, error: CheckpointError) -> None:
        """Make room for the next, and raise after MAX_FAILED_SAVES in a row."""
        self.n_failed += 1
        self.retention.make_room()
        self.log.warn(f"not saved ({self.n_failed} of at most {MAX_FAILED_SAVES} in a row): {error}")
        if self.n_failed >= MAX_FAILED_SAVES:
            raise error

    def restore(self) -> Progress | None:
        """Load the newest valid checkpoint into model, optimizer and averages; None if there is none."""
        progress = self._restore()
        self.refuse_others(progress.step if progress else 0)
        return progress

    def refuse_others(self, step: int) -> None:
        """The ranks must stand at the same update: each reads the checkpoints itself."""
        steps = self.updater.world.all_gather(step)
        if len(set(steps)) > 1:
            raise CheckpointError(
                f"the processes found different checkpoints in {self.folder} (after updates {steps}): put the "
                "run on a file system that all machines share"
            )

    def _restore(self) -> Progress | None:
        checkpoint.clean_up(self.folder)
        checkpoint.check_space(self.folder, self._expected_size())
        path, skipped = checkpoint.latest(self.folder)
        for reason in skipped:
            self.log.warn(f"checkpoint passed over: {reason}")
        if path is None:
            if skipped:
                self.log.warn(f"no checkpoint in {self.folder} is valid: the run begins anew")
            return None
        try:
            return self._take(checkpoint.load(path))
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise CheckpointError(
                f"{path} is whole, but not what this version of s2s saves ({what}): continue the run with the version "
                "that began it, or give another run=…"
            ) from error

    def _take(self, found: checkpoint.Checkpoint) -> Progress:
        """Everything goes on as a checkpoint says."""
        path = found.path
        self.load_weights(found.tensors["model"], path)
        self._take_optimizer(checkpoint.unflatten_state(found.state["optim"], found.tensors["optim"]))
        self.updater.scaler.load_state_dict(found.state["scaler"])
        self.updater.finer = found.state.get("finer", 1)  # runs of before it was kept
        if self.ema:
            self.ema.load(shard_like(found.tensors["ema"], self.ema.mean))
        progress = Progress(**found.state["progress"])
        progress.best = [(goodness, step) for goodness, step in progress.best]
        self.saved = copy.deepcopy(progress)
        self.stopgap = path.name if found.state.get("stopgap") else ""
        return progress

    def load_weights(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Into the model, of the whole weights of a checkpoint, what this process holds of them."""
        model = self.updater.model
        checkpoint.load_weights(model, shard_like(tensors, model.state_dict()), path)

    def _take_optimizer(self, state: dict[str, Any]) -> None:
        optimizer = self.updater.optimizer
        held = enumerate(p for group in optimizer.param_groups for p in group["params"])
        for number, p in held:
            of_parameter = state["state"].get(number, {})
            tensors = {name: t for name, t in of_parameter.items() if isinstance(t, Tensor)}
            of_parameter |= shard_like(tensors, dict.fromkeys(tensors, p))
        optimizer.load_state_dict(state)

    def average(self, progress: Progress) -> Path | None:
        """Write the mean of the last or best train.average checkpoints as AVERAGE (section 6.1)."""
        members = self.retention.members(progress)
        if not members:
            return None
        state = {"members": [m.name for m in members], "progress": asdict(progress)}
        return checkpoint.save(self.folder, AVERAGE, {"model": checkpoint.average_weights(members)}, state)

    def _expected_size(self) -> int:
        """Bytes of a checkpoint: weights, two moments of each as Adam keeps them, and their moving average."""
        return 3 * checkpoint.n_bytes(self.updater.model.state_dict()) + checkpoint.n_bytes(
            self.ema.mean if self.ema else {}
        )

    def _save(self, progress: Progress, content: Whole, *, stopgap: bool, is_try: bool) -> None:
        """Copy all that changes, and let a thread write the copy; the run waits for the copy alone."""
        assert self.under_way is None, "one checkpoint at a time"
        began, progress = time.monotonic(), copy.deepcopy(progress)
        state = {
            "progress": asdict(progress),
            "optim": copy.deepcopy(content.optim),
            "scaler": self.updater.scaler.state_dict(),
            "finer": self.updater.finer,
            "stopgap": stopgap,
        }
        tensors = {group: checkpoint.snapshot(named) for group, named in content.tensors.items()}
        name, stopgap_before = checkpoint.step_name(progress.step), self.stopgap

        def write() -> Path:
            path = checkpoint.save(self.folder, name, tensors, state)
            self.retention.keep(name, progress, stopgap_before)
            return path

        self.under_way = Saving(Job(write), progress, stopgap, began, is_try)
