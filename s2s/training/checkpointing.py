"""A run's checkpoints: what is saved, how it is written while training continues, and how it is restored."""

from __future__ import annotations

__all__ = ["AVERAGE", "START", "CheckpointContent", "CheckpointManager", "frozen_names"]

import copy
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.backend.memory import available_memory
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.manifest import manifest_hash
from s2s.checkpoint.state_tree import flatten_state, unflatten_state
from s2s.checkpoint.tensors import n_bytes, snapshot
from s2s.checkpoint.weights import average_weights, load_weights
from s2s.config import Config
from s2s.errors import CheckpointError
from s2s.io.prefetch import Job
from s2s.log.log import Log
from s2s.optim.saved_state import load_state
from s2s.training.ema import EMA
from s2s.training.nonfinite import check_finite
from s2s.training.retention import Retention
from s2s.training.state import TrainerState
from s2s.training.train_step import TrainStep

if TYPE_CHECKING:
    from torch import Tensor, nn


AVERAGE = "average"
"""Name of the checkpoint that holds the mean of others"""
START = "start"
"""Name of the one that holds the weights that the run began with, where its average takes a share of them"""
OBSERVERS = "observers"
"""The group of tensors, and the part of the state, that belong to observers"""
MAX_FAILED_SAVES = 5
"""Consecutive saves that may fail, e.g. because the disk is full, before the run is aborted."""
MAX_SPLIT = 1 << 20
"""Largest split factor that is accepted from a checkpoint"""


class CheckpointContent(NamedTuple):
    """Tensors of model, EMA and optimizer, independent of the distributed strategy."""

    tensors: dict[str, Mapping[str, Tensor]]
    """Group -> name -> tensor; empty tensors on ranks other than the first"""
    optim: Any
    """Structure of the optimizer's state, from which `unflatten_state` restores it"""
    observers: Any = None
    """The same of the states of observers; None if they have none"""


class PendingSave(NamedTuple):
    """A checkpoint that is being written by a background job."""

    job: Job[Path]
    state: TrainerState
    interim: bool
    began: float
    may_fail: bool
    """Whether training continues if writing fails"""


def frozen_names(module: nn.Module) -> set[str]:
    """The parameters that training leaves as they are, under all names of a tied one."""
    return {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}


@dataclass
class CheckpointManager:
    """Saves and restores one run; at most one checkpoint is being written at a time."""

    config: Config
    folder: Path
    train_step: TrainStep
    ema: EMA | None
    log: Log
    retention: Retention
    """Which checkpoints are kept"""
    saved: TrainerState | None = None
    """State of the trainer in the newest checkpoint"""
    interim: str = ""
    """Name of a checkpoint written only because of a signal; the next save removes it, so that the kept checkpoints,
    and their mean, are those of an uninterrupted run"""
    n_failed: int = 0
    pending: PendingSave | None = None
    observers: Mapping[str, Any] = field(default_factory=dict)
    """States of observers in the checkpoint that was restored"""

    def gather(self, observers: Mapping[str, Any]) -> CheckpointContent:
        """Collect what is to be saved, on the first rank; a collective call. observers: their states by their keys."""
        step, full_tensors = self.train_step, self.train_step.sharding.full_tensors
        optim, optim_tensors = flatten_state(full_tensors(step.optimizer.state_dict()))
        tensors: dict[str, Mapping[str, Tensor]] = {
            **{group: full_tensors(module.state_dict()) for group, module in step.modules.items()},
            "optim": optim_tensors,
            **({"ema": full_tensors(self.ema.mean)} if self.ema else {}),
        }
        if not observers:
            return CheckpointContent(tensors, optim)
        structure, observer_tensors = flatten_state(dict(observers))
        if observer_tensors:
            tensors[OBSERVERS] = observer_tensors
        return CheckpointContent(tensors, optim, structure)

    def save(self, state: TrainerState, content: CheckpointContent, *, may_fail: bool = False) -> None:
        """Start writing a checkpoint and removing those not kept; no-op if `state` is already saved.

        No other save may be pending: call `finish_save` first.
        """
        name = checkpoint.step_name(state.step)
        if state != self.saved or not (self.folder / name).is_dir():
            self._start(state, content, interim=False, may_fail=may_fail)
            return
        self.interim = ""
        self.retention.apply(name, state, "")  # the process may have been killed between saving and this

    def save_interim(self, state: TrainerState, content: CheckpointContent) -> None:
        """`save` because of a signal, at an update where no checkpoint is due."""
        if state != self.saved:
            self._start(state, content, interim=True, may_fail=False)

    def try_save(self, state: TrainerState, content: CheckpointContent) -> None:
        """`save`, but training continues if writing fails: space may be freed meanwhile."""
        self.save(state, content, may_fail=True)

    @property
    def save_is_done(self) -> bool:
        """Whether a pending save has succeeded or failed, so that `finish_save` returns at once."""
        return self.pending is not None and self.pending.job.is_done

    def finish_save(self) -> tuple[Path, float] | None:
        """Wait for the pending save, if any; returns its path and seconds, or None if nothing was written."""
        if self.pending is None:
            return None
        save = self.pending
        try:
            path = save.job.result()
        except CheckpointError as error:
            if not save.may_fail:
                raise
            self._failed(error)
            return None
        finally:
            self.pending = None
        self.saved, self.n_failed = save.state, 0
        self.interim = path.name if save.interim else ""
        return path, time.monotonic() - save.began

    def _failed(self, error: CheckpointError) -> None:
        """Free space for the next save; raises after MAX_FAILED_SAVES consecutive failures."""
        self.n_failed += 1
        self.retention.free_space()
        self.log.warn(f"not saved ({self.n_failed} of at most {MAX_FAILED_SAVES} in a row): {error}")
        if self.n_failed >= MAX_FAILED_SAVES:
            raise error

    def restore(self) -> TrainerState | None:
        """Load the newest valid checkpoint into model, optimizer and EMA; None if there is none."""
        path = self._newest()
        state = self._restore(path) if path else None
        self.check_same(state.step if state else 0, manifest_hash(path) if path else "")
        return state

    def check_same(self, step: int, identity: str) -> None:
        """Raise CheckpointError unless all ranks, each of which reads the checkpoints itself, have read the same one.

        step: its update; 0 if there is none. identity: a hash of its contents.
        """
        found = self.train_step.world.all_gather([step, identity])
        if any(one != found[0] for one in found):
            raise CheckpointError(
                f"the processes found different checkpoints in {self.folder} (after updates {[n for n, _ in found]}): "
                "put the run on a file system that all machines share"
            )

    def _newest(self) -> Path | None:
        """The newest valid checkpoint; None if there is none."""
        checkpoint.clean_up(self.folder)
        checkpoint.check_space(self.folder, self._expected_size())
        path, skipped = checkpoint.latest(self.folder)
        for reason in skipped:
            self.log.warn(f"checkpoint passed over: {reason}")
        if path is None and skipped:
            self.log.warn(f"no checkpoint in {self.folder} is valid: the run begins anew")
        return path

    def _restore(self, path: Path) -> TrainerState:
        try:
            return self._load(checkpoint.load(path))
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise CheckpointError(
                f"{path} is whole, but not what this version of s2s saves ({what}): continue the run with the version "
                "that began it, or give another run=…"
            ) from error

    def _load(self, saved: checkpoint.Checkpoint) -> TrainerState:
        """Restore everything from a checkpoint."""
        for group in self.train_step.modules:
            self.load_weights(saved.tensors[group], saved.path, group)
        optim = unflatten_state(saved.state["optim"], saved.tensors["optim"])
        load_state(self.train_step.optimizer, optim, self.train_step.sharding.shard_like)
        self.train_step.scaler.load_state_dict(saved.state["scaler"])
        self.train_step.split_factor = split_factor = saved.state["split_factor"]
        if type(split_factor) is not int or not 1 <= split_factor <= MAX_SPLIT:
            raise ValueError(f"split_factor: {str(split_factor)[:60]!r}")
        if self.ema:
            self.ema.load(self.train_step.sharding.shard_like(saved.tensors["ema"], self.ema.mean))
        state = TrainerState.from_json(saved.state["trainer"])
        self.saved = copy.deepcopy(state)
        self.interim = saved.path.name if saved.state.get("interim") else ""
        if OBSERVERS in saved.state:
            self.observers = unflatten_state(saved.state[OBSERVERS], saved.tensors.get(OBSERVERS, {}))
        return state

    def load_weights(self, tensors: Mapping[str, Tensor], path: Path, group: str = "model") -> None:
        """Load full weights into a module of the training step, of which this process may hold only a shard."""
        module = self.train_step.modules[group]
        load_weights(module, self.train_step.sharding.shard_like(tensors, module.state_dict()), path)

    def keep_start(self, state: TrainerState) -> None:
        """Write the model's weights as START, on the first rank; a collective call."""
        weights = self.train_step.sharding.full_tensors(self.train_step.model.state_dict())
        if self.train_step.world.is_main:
            checkpoint.save(self.folder, START, {"model": weights}, {"trainer": asdict(state)})

    def average(self, state: TrainerState) -> Path | None:
        """Write the mean of the last or best train.average checkpoints as AVERAGE (section 6.1)."""
        members = self.retention.checkpoints_to_average(state)
        if not members:
            return None
        saved = {"members": [m.name for m in members], "trainer": asdict(state)}
        return checkpoint.save(self.folder, AVERAGE, {"model": average_weights(members)}, saved)

    def _expected_size(self) -> int:
        """Bytes of a checkpoint: weights, the two moments that Adam keeps of each that is trained, and their EMA."""
        modules = self.train_step.modules.values()
        trained = sum(p.nbytes for module in modules for p in module.parameters() if p.requires_grad)
        weights = n_bytes(*(module.state_dict() for module in modules))
        return weights + 2 * trained + n_bytes(self.ema.mean if self.ema else {})

    def _start(self, state: TrainerState, content: CheckpointContent, *, interim: bool, may_fail: bool) -> None:
        """Copy everything that changes and write the copy in a thread; training waits only until it is copied, or where
        memory is scarce until it is written."""
        assert self.pending is None, "one checkpoint at a time"
        began, state = time.monotonic(), copy.deepcopy(state)
        saved = {
            "trainer": asdict(state),
            "optim": copy.deepcopy(content.optim),
            "scaler": self.train_step.scaler.state_dict(),
            "split_factor": self.train_step.split_factor,
            "interim": interim,
            **({} if content.observers is None else {OBSERVERS: content.observers}),
        }
        modules = self.train_step.modules
        frozen = {group: frozen_names(module) for group, module in modules.items()}
        changing = (
            {n: t for n, t in each.items() if n not in frozen.get(g, ())} for g, each in content.tensors.items()
        )
        has_room = n_bytes(*changing) <= self.train_step.copied_share * available_memory().n_bytes
        kept = frozen if has_room else content.tensors  # what is not copied
        tensors = {group: snapshot(each, kept.get(group, ())) for group, each in content.tensors.items()}
        learnt = {group: named for group, named in tensors.items() if group != OBSERVERS}
        name, previous_interim = checkpoint.step_name(state.step), self.interim
        parameters = {name for module in modules.values() for name, _ in module.named_parameters()}

        def write() -> Path:
            check_finite(learnt, parameters, state.step, self.folder)
            path = checkpoint.save(self.folder, name, tensors, saved)
            self.retention.apply(name, state, previous_interim)
            return path

        self.pending = PendingSave(Job(write), state, interim, began, may_fail)
        if not has_room:
            self.pending.job.wait()
