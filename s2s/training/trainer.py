"""The training loop: batch, update, validate, save.

Everything random is a function of (seed, step, micro-batch), and everything else is in the checkpoint: so a
run that is killed and continued ends with the same bytes as an uninterrupted one.
"""

from __future__ import annotations

__all__ = ["Trainer"]

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.backend.device_types import device_of
from s2s.checkpoint import directory as checkpoint
from s2s.config import Config
from s2s.errors import Preempted, S2SError
from s2s.log.log import Log
from s2s.log.progress import RunLines
from s2s.training.averaging import FinalAverage
from s2s.training.checkpointing import CheckpointContent, CheckpointManager
from s2s.training.data_loader import DataLoader
from s2s.training.nonfinite import NonFiniteGuard
from s2s.training.signals import StopSignal
from s2s.training.state import TrainerState, load_states, observer_states
from s2s.training.train_step import TrainStep
from s2s.training.unread import ReadUpdate, UnreadUpdate, UnreadUpdates
from s2s.training.validation import Validation, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.data.pairs import Pair
    from s2s.observer import Observer
    from s2s.training.step_result import StepResult


@dataclass
class Trainer:
    """One run, from its newest checkpoint, if any, to its last update."""

    config: Config
    directory: Path
    data_loader: DataLoader
    train_step: TrainStep
    validation: Validation
    checkpoints: CheckpointManager
    log: Log
    hook: Any
    facts: Sequence[tuple[str, str]] = ()
    """Topics and facts for the first screen: what was found when the parts were built"""
    peak_flops: float = 0.0
    """Operations per second of large matrix products on all devices; 0: the model does not count its own"""

    def __post_init__(self) -> None:
        self.world = self.train_step.world
        self.length = self.log.length
        self.ema = self.checkpoints.ema
        self.state = TrainerState()
        self.nonfinite = NonFiniteGuard.from_config(self.config.train, self.directory, self.log)
        self.stop, self.saved_at = StopSignal(), time.monotonic()
        self.observers: Sequence[Observer] = ()
        self.unread = UnreadUpdates(device_of(self.world.device))

    def train(self, stop: StopSignal) -> dict[str, Any]:
        """Update until the end of the run, until validation stops improving, or until a signal; returns the summary."""
        self.stop = stop
        self.resume()
        with self.observed():
            with stop.deferred(), self.finishing_saves():
                self.validate_and_save()  # in case a signal prevented it after the checkpoint's update
                for batch in self.batches():
                    self.update(batch)
                    self.validate_and_save()
                self.save(self.checkpoints.save)
                self.wait_for_save()
            return self.finish()

    def resume(self) -> None:
        """Continue from the newest valid checkpoint, or from the beginning."""
        self.state = self.checkpoints.restore() or self.state
        if self.config.train.init_weight and not self.state.step:
            self.checkpoints.keep_start(self.state)
        if self.state.step:
            self.log.info(f"continuing after update {self.state.step:,}")
        self.log.start(self.state.step)
        if reason := self.state.monitor(self.config.valid.best, self.validation.basis):
            self.log.warn(f"{reason}: the best validations so far are forgotten")

    def batches(self) -> Iterator[Sequence[Pair]]:
        """The global batches from the current position of the run; `state` is advanced to each before it is yielded."""
        return self.data_loader.iterate(self.state, self.is_over)

    def is_over(self) -> bool:
        """Whether all updates are done, or valid.patience consecutive validations brought no improvement."""
        patience = self.config.valid.patience
        return self.state.step >= self.length.n_steps or 0 < patience <= self.state.n_stale

    def update(self, batch: Sequence[Pair]) -> None:
        """Train on one global batch; its values are read now if they are needed now, or else with later ones."""
        with self.unread.launching():
            launched = self.train_step.launch(batch, self.state.step)
            if self.ema:
                self.ema.update(self.state.step, launched.is_finite)
        self.unread.add(UnreadUpdate(batch, self.state.step, self.state.epoch, self.data_loader.wait, launched))
        if self.unread.must_be_read or any(observer.is_due(self.state.step) for observer in self.observers):
            self.read_updates()

    def read_updates(self) -> None:
        """Wait for the updates that were not read yet, and report each."""
        for update in self.unread.read():
            self.report(update)

    def report(self, read: ReadUpdate) -> None:
        """Count an update, and record it for observers."""
        state, update, result = self.state, read.launched, read.result
        if result.is_finite:
            state.n_tokens += result.n_tokens
            state.n_bad = 0
        else:
            self.record_skipped(update.step, update.batch, result)
        state.seconds += read.seconds
        rate = result.flops / read.device_seconds if result.flops and self.peak_flops else 0.0
        self.peak_flops = max(self.peak_flops, rate)  # a measured rate must be possible
        record = {
            "step": update.step,
            "epoch": update.epoch,
            **result.record(),
            "pairs": len(update.batch),
            "seconds": read.seconds,
            "device_seconds": read.device_seconds,
            "wait": update.wait,
            "flops": result.flops,
            "mfu": rate / self.peak_flops if rate else None,
            "memory": device_of(self.world.device).peak_memory(),
        }
        for observer in self.observers:
            observer.updated(record)

    def record_skipped(self, step: int, batch: Sequence[Pair], result: StepResult) -> None:
        """Record a skipped update; raises after too many consecutive ones (`NonFiniteGuard.limit`)."""
        self.nonfinite.record(self.state, step, batch, result, is_first=self.world.is_main)
        if self.nonfinite.limit_reached(self.state):
            self.finish_save()
            raise self.nonfinite.error(checkpoint.latest(self.checkpoints.folder).path)

    def validate_and_save(self) -> None:
        """After an update: stop on a signal, validate if due, save if due or if this is among the best."""
        if self.world.any_true(self.stop.received is not None):
            raise self.preempt()
        if self.checkpoints.save_is_done:
            self.finish_save()
        among_best = self.validation_is_due() and self.validate()
        if among_best or self.save_is_due():
            self.save(self.checkpoints.try_save)

    def preempt(self) -> Preempted:
        """Save the run so that the same command continues it; returns the error to raise."""
        self.save(self.checkpoints.save_interim)
        self.wait_for_save()
        return self.stop.error(self.state.step)

    def validate(self) -> bool:
        """Validate the model, or its EMA if there is one; returns whether it is among the best to keep."""
        self.read_updates()
        state, began = self.state, time.monotonic()
        with self.ema.applied() if self.ema else nullcontext():
            result = self.run_validation()
        if result is None:
            raise self.preempt()
        better = state.record_validation(result.criterion, self.checkpoints.retention.n_best())
        record = {"step": state.step, "best": better, **result.record(), "seconds": time.monotonic() - began}
        for observer in self.observers:
            observer.validated(record)
        return any(step == state.step for _, step in state.best)

    def run_validation(self) -> ValidationResult | None:
        """Validate the current weights; None if a signal interrupted it."""
        with ExitStack() as stack:
            for module in self.train_step.modules.values():
                stack.enter_context(self.train_step.sharding.unsharded(module))
            return self.validation(self.stop)

    def save(self, write: Callable[[TrainerState, CheckpointContent], None]) -> None:
        """Finish the previous save, then start writing a checkpoint on the first rank while training continues."""
        self.read_updates()
        content = self.checkpoints.gather(observer_states(self.observers))
        if self.world.is_main:
            self.finish_save()
            write(self.state, content)
        self.saved_at = time.monotonic()

    def finish_save(self) -> None:
        """Wait for the pending checkpoint, if any."""
        if saved := self.checkpoints.finish_save():
            for observer in self.observers:
                observer.saved(*saved)

    def wait_for_save(self) -> None:
        """Wait on all ranks until the pending checkpoint is on disk."""
        self.finish_save()
        self.world.barrier()

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Inside the block, the log, the progress lines and the plugins' observers follow the run."""
        observers = self.hook.s2s_observe(trainer=self)[::-1]  # in the order in which plugins were loaded
        self.observers = [self.log, RunLines(self, self.log), *observers]
        with ExitStack() as stack:
            for observer in self.observers:
                stack.enter_context(observer)
            load_states(self.observers, self.checkpoints.observers)
            yield

    @contextmanager
    def finishing_saves(self) -> Iterator[None]:
        """Finish a pending save even if the block raises: the run's lock must not be released earlier."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the updates before it; after an error of the device they cannot be read
                self.read_updates()
            with suppress(S2SError):  # the error that ends the block is the one to report
                self.finish_save()
            raise

    def finish(self) -> dict[str, Any]:
        """Average weights and summarise; a signal now loses nothing, since the same command repeats it."""
        validate = self.run_validation if self.validation else None
        average = FinalAverage(self.config, self.checkpoints, self.state, validate, self.preempt)
        summary: dict[str, Any] = {
            **self.state.summary(),
            "stopped_early": self.state.step < self.length.n_steps,
            "average": average(),
        }
        for observer in reversed(self.observers):
            observer.finished(summary)
        return summary

    def validation_is_due(self) -> bool:
        """Whether to validate: every valid.every updates and after the last one, if there is a development set."""
        is_new = bool(self.validation) and self.state.valid_step != self.state.step
        return is_new and (self.state.step >= self.length.n_steps or self.is_due(self.config.valid.every))

    def save_is_due(self) -> bool:
        """Whether to save, by updates, or by minutes on the clock of any rank."""
        minutes = self.config.checkpoint.minutes
        if (due := self.is_due(self.config.checkpoint.every)) or not minutes:
            return due
        return self.world.any_true(time.monotonic() - self.saved_at > 60 * minutes)

    def is_due(self, every: int) -> bool:
        """Whether the newest update is a multiple of `every`."""
        return every > 0 and self.state.step > 0 and self.state.step % every == 0
