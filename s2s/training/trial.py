"""A trainer for a trial, and with it the seconds of an update, from parts of a batch where a whole one takes long."""

from __future__ import annotations

__all__ = ["Timing", "time_updates", "trial_run"]

import tempfile
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.data.lazy_batch import split
from s2s.log import Log
from s2s.run import RunDirectory
from s2s.training.build import build_trainer
from s2s.training.train_step import n_tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.config import Config
    from s2s.data.batching import Pair
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.training.trainer import Trainer

PARTS = (64, 16, 4)
"""Parts of a batch that are tried, the smallest first, until one takes ENOUGH seconds"""
ENOUGH = 3.0
N_WHOLE = 8
"""Whole updates that are timed at most where they are quick: batches differ in their padding"""


class Timing(NamedTuple):
    """Of one update of mean size."""

    seconds: float
    flops: float
    """Floating-point operations a second; 0: the model does not count its own"""


@contextmanager
def trial_run(config: Config, plugins: Plugins, world: World) -> Iterator[Trainer]:
    """A trainer that leaves nothing behind but the prepared data; every process must call it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Log(Path(folder), config.log, config.train.steps, rank=world.rank) as log,
    ):
        yield build_trainer(config, plugins, world, RunDirectory(Path(folder)), log)


def time_updates(trainer: Trainer) -> Timing:
    """Make a few updates with the trainer, which is of no use afterwards; every process must call it."""
    batches = iter(trainer.batches())
    batch = next(batches, None)
    if batch is None:  # train.steps=0
        return Timing(0.0, 0.0)
    small = _part(batch, PARTS[0])
    _run(trainer, small)  # warms up
    before, whole = _run(trainer, small), sum(n_tokens_of(batch))
    for n in (*PARTS[1:], 1):
        part = _part(batch, n) if n > 1 else batch
        now = _run(trainer, part)
        if n > 1 and not trainer.world.any_true(now[0] >= ENOUGH):
            before = now
            continue
        if n > 1:
            return _extrapolated(before, now, whole)
        break
    runs = [now]
    for batch in islice(batches, N_WHOLE):  # fewer where the run is so short
        if trainer.world.any_true(sum(seconds for seconds, _, _ in runs) > ENOUGH):
            break
        runs.append(_run(trainer, batch))
    seconds, _, operations = (sum(values) for values in zip(*runs, strict=True))
    return Timing(max(seconds / len(runs), 1e-4), operations / max(seconds, 1e-4))


def _part(batch: Sequence[Pair], n: int) -> Sequence[Pair]:
    """One of `n` parts of a batch, or of as many as it has pairs."""
    return next(part for part in split(batch, n) if part)


def _run(trainer: Trainer, batch: Sequence[Pair]) -> tuple[float, int, float]:
    """Seconds of an update, its tokens of both sides, its operations."""
    began = time.monotonic()
    result: Any = trainer.train_step(batch, max(trainer.state.step, 1))
    return time.monotonic() - began, result.n_tokens + result.n_src_tokens, result.flops or 0.0


def _extrapolated(small: tuple[float, int, float], large: tuple[float, int, float], whole: int) -> Timing:
    """A step of the optimizer, and so much for each token."""
    (a, n_a, _), (b, n_b, operations) = small, large
    per_token = max((b - a) / max(n_b - n_a, 1), 0.5 * b / n_b)
    return Timing(b + per_token * (whole - n_b), operations / b)
