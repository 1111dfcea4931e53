"""The speed of a run before it begins: a throw-away trainer times a few updates and a validation."""

from __future__ import annotations

__all__ = ["Pace", "measure_pace", "times_longer"]

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.training import time_updates, trial_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s import Plugins
    from s2s.config import Config
    from s2s.distributed import World
    from s2s.training import Trainer

FOR_PACE = 0.01
"""Share of the time spent on timing updates, at least 3 seconds and at most 30"""
N_DECODED = 8
"""Sentences decoded to estimate the decoding time"""


@dataclass(frozen=True)
class Pace:
    """Measured durations in seconds."""

    update: float
    loss: float = 0.0
    """Loss of the development set; 0: there is none"""
    sentence: float = 0.0
    """Decoding one of its sentences; 0: none is decoded"""
    n_sentences: int = 0
    """Sentences decoded at each validation, as configured"""
    flops: float = 0.0
    """Floating-point operations per second reached by updates; 0: the model does not count its operations"""
    build: float = 0.0
    """Building the trainer, which the run does once more"""


def measure_pace(config: Config, plugins: Plugins, world: World, seconds: float) -> Pace:
    """The pace of the slowest process in a run of this configuration; seconds: of the whole run."""
    began = time.monotonic()
    with trial_run(config, plugins, world) as trainer:
        build = time.monotonic() - began
        update, flops = time_updates(trainer, min(max(FOR_PACE * seconds, 3.0), 30.0))
        loss, sentence, n_sentences = _validation(trainer)
    del trainer
    gc.collect()  # before the next trainer is built
    measured = world.all_gather((update, loss, sentence, build))
    update, loss, sentence, build = (max(values) for values in zip(*measured, strict=True))
    return Pace(update, loss, sentence, n_sentences, flops, build)


def _validation(trainer: Trainer) -> tuple[float, float, int]:
    """Seconds to compute the loss, seconds to decode a sentence, and the number of sentences to decode.

    An untrained model produces outputs of the maximum length, so the decoding time is scaled down to outputs as long
    as the references. What decoding a single sentence takes is mostly set-up, which each validation has once.
    """
    validation = trainer.validation
    if not validation:
        return 0.0, 0.0, 0
    began = time.monotonic()
    validation.losses(trainer.stop)
    loss = time.monotonic() - began
    examples = validation.examples[:N_DECODED]
    if not examples:
        return loss, 0.0, 0
    seconds = []
    for some in (examples[:1], examples):
        began = time.monotonic()
        outputs = list(validation.generator(some))
        seconds.append(time.monotonic() - began)
    setup, decoding = seconds
    targets = validation.task.encode(examples)
    longer = times_longer([output.n_tokens for output in outputs], [len(pair.tgt) + 1 for pair in targets])
    each = max(decoding - setup, decoding / len(examples) / 2) / longer / len(examples)
    return loss + setup, each / trainer.world.size, len(validation.examples)


def times_longer(n_output: Iterable[int], n_reference: Iterable[int]) -> float:
    """Ratio of the tokens of the outputs to those of the references, at least 1."""
    return max(sum(n_output) / max(sum(n_reference), 1), 1.0)
