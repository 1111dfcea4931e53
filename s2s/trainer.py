"""The story of a training run, top to bottom: batch, update, judge, save.

Everything random is a function of (seed, step, micro-batch), and everything else is in the checkpoint: so a
run that is killed and continued ends with the same bytes as one that never was.
"""

from __future__ import annotations

__all__ = ["Trainer"]

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import checkpoint
from s2s.backend.device import peak_memory
from s2s.config import Config
from s2s.errors import Preempted, S2SError
from s2s.feed import Feed
from s2s.keeper import AVERAGE, Keeper, Whole
from s2s.log import Log
from s2s.log.profiler import tracing
from s2s.progress import Progress
from s2s.spoilt import Spoilt
from s2s.stopping import StopSignal
from s2s.update import Updater
from s2s.validation import Validation, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.data.batching import Pair
    from s2s.update import Updated


@dataclass
class Trainer:
    """One run, from its newest checkpoint, if any, to its last update."""

    config: Config
    directory: Path
    feed: Feed
    updater: Updater
    validation: Validation
    keeper: Keeper
    log: Log
    hook: Any
    report: Sequence[str] = ()
    """What became of the data, in lines for the first screen"""
    rate: float = 0.0
    """Operations a second of large matrix products on all devices; 0: the model does not say what it takes"""

    def __post_init__(self) -> None:
        self.world = self.updater.world
        self.ema = self.keeper.ema
        self.progress = Progress()
        self.spoilt = Spoilt(self.directory / "bad_batches.jsonl", self.config.train.max_bad, self.log)
        self.stop = StopSignal()
        self.saved_at = time.monotonic()
        self.trace = self.directory / "profile.json" if self.config.train.profile and self.world.is_main else None

    def train(self, stop: StopSignal) -> dict[str, Any]:
        """Update until train.steps, until validation stops improving, or until a signal; the summary."""
        self.stop = stop
        self.resume()
        self.hook.s2s_train_start(trainer=self)
        with stop.deferring(), self.writing(), tracing(self.trace, self.log.line) as traced:
            self.judge_and_save()  # what a signal after this very update may have left undone
            for batch in self.upcoming():
                self.update(batch)
                traced()
                self.judge_and_save()
            self.save(self.keeper.save)
            self.wait_for_save()
        return self.finish()

    def resume(self) -> None:
        """Continue from the newest valid checkpoint, or from the beginning."""
        self.progress = self.keeper.restore() or self.progress
        if self.progress.step:
            self.log.line(f"continuing after update {self.progress.step:,}")
        self.log.start(self.progress.step)
        self.forget_other_bests()

    def forget_other_bests(self) -> None:
        """What was best by another measure says nothing now."""
        progress, measure = self.progress, self.config.valid.best
        if progress.best and progress.best_by != measure:
            self.log.warn(f"valid.best was {progress.best_by} and is {measure}: what was best so far is forgotten")
        progress.judge_by(measure)

    def upcoming(self) -> Iterator[Sequence[Pair]]:
        """The global batches from where the run stands; `progress` counts each as it is handed out."""
        return self.feed.onwards(self.progress, self.is_over)

    def is_over(self) -> bool:
        """Whether all updates are done, or valid.patience validations in a row brought nothing better."""
        patience = self.config.valid.patience
        return self.progress.step >= self.config.train.steps or 0 < patience <= self.progress.n_stale

    def update(self, batch: Sequence[Pair]) -> None:
        """Learn from one global batch, and tell the log and whoever watches."""
        progress, began = self.progress, time.monotonic()
        updated = self.updater(batch, progress.step)
        if updated.finite:
            progress.n_tokens += updated.n_tokens
            progress.n_bad = 0
            if self.ema:
                self.ema.update(progress.step)
        else:
            self.skipped(batch, updated)
        seconds = time.monotonic() - began
        progress.seconds += seconds
        record = {
            "step": progress.step,
            "epoch": progress.epoch,
            **updated.record(),
            "pairs": len(batch),
            "seconds": seconds,
            "wait": self.feed.wait,
            "mfu": updated.n_operations / (seconds * self.rate) if updated.n_operations and self.rate else None,
            "memory": peak_memory(self.world.device),
        }
        self.log.update(record)
        self.hook.s2s_step_end(trainer=self, record=record)

    def skipped(self, batch: Sequence[Pair], updated: Updated) -> None:
        """Say so, and give up after train.max_bad in a row."""
        self.spoilt.tell(self.progress, batch, updated, is_first=self.world.is_main)
        if self.spoilt.too_many(self.progress):
            self.settle()
            raise self.spoilt.error(checkpoint.latest(self.keeper.folder).path)

    def judge_and_save(self) -> None:
        """After an update: heed a signal, judge if it is time, save if that is due or this is among the best."""
        if self.world.any_true(self.stop.received is not None):
            raise self.stopped()
        if self.keeper.is_written:
            self.settle()
        among_best = self.validation_is_due() and self.validate()
        if among_best or self.save_is_due():
            self.save(self.keeper.try_save)

    def stopped(self) -> Preempted:
        """Save the run for the same command to continue; what to raise then."""
        self.save(self.keeper.save_for_now)
        self.wait_for_save()
        return self.stop.error(self.progress.step)

    def validate(self) -> bool:
        """Judge the model, or the mean of its weights where one is kept; whether it is among the best to keep."""
        progress = self.progress
        with self.ema.applied() if self.ema else nullcontext():
            verdict = self.judge()
        if verdict is None:
            raise self.stopped()
        better = progress.judged(verdict.goodness, self.keeper.retention.n_best())
        record = {"step": progress.step, "best": better, **verdict.record()}
        self.log.valid(record)
        self.hook.s2s_validation_end(trainer=self, record=record)
        return any(step == progress.step for _, step in progress.best)

    def judge(self) -> Verdict | None:
        """What validation says of the model as it is; None if a signal came meanwhile."""
        with self.updater.strategy.unsharded(self.updater.model):
            return self.validation(self.stop)

    def save(self, how: Callable[[Progress, Whole], None]) -> None:
        """Begin to write a checkpoint, once the one before is written; one rank does, while all go on."""
        content = self.keeper.whole()
        if self.world.is_main:
            self.settle()
            how(self.progress, content)
        self.saved_at = time.monotonic()

    def settle(self) -> None:
        """Wait for the checkpoint that is under way, if any, and tell whoever watches."""
        path = self.keeper.settle()
        if path is not None:
            self.hook.s2s_checkpoint_saved(trainer=self, path=path)

    def wait_for_save(self) -> None:
        """On all ranks, until everything is on the disk."""
        self.settle()
        self.world.barrier()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let what is being written be written, however the block ends; after it nobody holds the run's lock."""
        try:
            yield
        except BaseException:
            with suppress(S2SError):  # the error that ends the block is the one to tell
                self.settle()
            raise

    def finish(self) -> dict[str, Any]:
        """Average, and sum up; a signal now loses nothing, and the same command comes here again."""
        progress = self.progress
        averaged = self.keeper.average(progress) if self.world.is_main else None
        summary: dict[str, Any] = {
            **progress.summary(),
            "stopped_early": progress.step < self.config.train.steps,
            "average": self.judge_average() if self.world.any_true(averaged is not None) else None,
        }
        self.hook.s2s_train_end(trainer=self, record=summary)
        return summary

    def judge_average(self) -> dict[str, Any]:
        """What validation says of the averaged weights, on all ranks; the model keeps its own."""
        path = self.keeper.folder / AVERAGE
        mean = checkpoint.load(path).tensors["model"]
        own = {name: t.detach().clone() for name, t in self.updater.model.state_dict().items()}
        self.keeper.load_weights(mean, path)
        verdict = self.judge() if self.validation else None
        self.keeper.load_weights(own, path)
        if verdict is None and self.validation:
            raise self.stopped()
        return {"path": str(path), **(verdict.record() if verdict else {})}

    def validation_is_due(self) -> bool:
        """Every valid.every updates and after the last one, where there is a development set."""
        progress = self.progress
        if not self.validation or progress.valid_step == progress.step:
            return False
        return progress.step >= self.config.train.steps or self.is_due(self.config.valid.every)

    def save_is_due(self) -> bool:
        """By updates or by minutes; the ranks agree on whose clock has run out."""
        minutes = self.config.checkpoint.minutes
        if (due := self.is_due(self.config.checkpoint.every)) or not minutes:
            return due
        return self.world.any_true(time.monotonic() - self.saved_at > 60 * minutes)

    def is_due(self, every: int) -> bool:
        """Whether the update just done is one of every `every`."""
        return every > 0 and self.progress.step > 0 and self.progress.step % every == 0
