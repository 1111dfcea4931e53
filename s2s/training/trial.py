"""A trainer for a trial run, which also times an update, on parts of a batch where a whole one would take long."""

from __future__ import annotations

__all__ = ["Timing", "time_updates", "trial_run"]

import tempfile
import time
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from s2s.backend.device_types import device_of
from s2s.backend.host import training_threads
from s2s.data.lazy_batch import split
from s2s.log.log import Log, RunLength
from s2s.log.screen import choose_screen
from s2s.run.directory import RunDirectory
from s2s.training.build import build_trainer
from s2s.training.micro_batches import n_tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.config import Config
    from s2s.data.pairs import Pair
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.training.trainer import Trainer

PARTS = (64, 16, 4)
"""Numbers of parts into which a batch is split; one part is timed, the smallest first, until one takes long enough"""


class Timing(NamedTuple):
    """The timing of one update of mean size."""

    seconds: float
    flops: float
    """Floating-point operations per second of this process's own time; 0: the model does not count its own"""


class _Run(NamedTuple):
    """One timed update."""

    seconds: float
    busy: float
    """The same by the clock of the device: on a CPU, without the time that other processes took"""
    n_tokens: int
    """On both sides"""
    operations: float


@contextmanager
def trial_run(config: Config, plugins: Plugins, world: World) -> Iterator[Trainer]:
    """A trainer that leaves nothing behind but the prepared data; every process must call it."""
    screen = choose_screen(config.log, plugins.registry, quiet=not world.is_main)
    with (
        training_threads(config.train.threads),
        tempfile.TemporaryDirectory() as folder,
        Log(Path(folder), config.log, RunLength(config.train.steps), screen, world.rank) as log,
    ):
        yield build_trainer(config, plugins, world, RunDirectory(Path(folder)), log)


def time_updates(trainer: Trainer, min_seconds: float = 3.0) -> Timing:
    """Make updates with the trainer, which must not be used afterwards; every process must call it.

    min_seconds: total seconds to measure; batches differ in their padding, and other processes come and go.
    """
    batches = iter(trainer.batches())
    batch = next(batches, None)
    if batch is None:  # train.steps=0
        return Timing(0.0, 0.0)
    _run(trainer, _part(batch, PARTS[0]))  # warms up
    before = _run(trainer, _part(batch, PARTS[0]))
    for n in PARTS[1:]:
        run = _run(trainer, _part(batch, n))
        if trainer.world.any_true(run.seconds >= min_seconds):
            return _extrapolated(before, run, sum(n_tokens_of(batch)))
        before = run
    return _mean(trainer, chain([batch], batches), min_seconds)


def _part(batch: Sequence[Pair], n: int) -> Sequence[Pair]:
    """One of `n` parts of a batch, or of fewer if it has fewer pairs."""
    return next(part for part in split(batch, n) if part)


def _run(trainer: Trainer, batch: Sequence[Pair]) -> _Run:
    device = device_of(trainer.world.device)
    began, busy = time.monotonic(), device.clock()
    result = trainer.train_step(batch, max(trainer.state.step, 1))
    seconds, busy = time.monotonic() - began, device.clock() - busy
    return _Run(seconds, busy, result.n_tokens + result.n_src_tokens, result.flops or 0.0)


def _extrapolated(small: _Run, large: _Run, n_tokens: int) -> Timing:
    """Linear extrapolation: a constant time for the optimizer step, plus a time per token."""
    n_more = large.n_tokens - small.n_tokens  # 0: parts of one pair each, whose seconds differ by chance
    slope = (large.seconds - small.seconds) / n_more if n_more else 0.0
    per_token = max(slope, 0.5 * large.seconds / large.n_tokens)
    return Timing(large.seconds + per_token * (n_tokens - large.n_tokens), large.operations / max(large.busy, 1e-4))


def _mean(trainer: Trainer, batches: Iterable[Sequence[Pair]], min_seconds: float) -> Timing:
    """Mean over whole updates, until they have taken `min_seconds` seconds."""
    runs: list[_Run] = []
    for batch in batches:
        if runs and trainer.world.any_true(sum(run.seconds for run in runs) > min_seconds):
            break
        runs.append(_run(trainer, batch))
    seconds = sum(run.seconds for run in runs)
    rate = sum(run.operations for run in runs) / max(sum(run.busy for run in runs), 1e-4)
    return Timing(max(seconds / len(runs), 1e-4), rate)
