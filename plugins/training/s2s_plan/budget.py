"""train.budget=30m: the length of a run, derived from the measured speed of its own model on its own data.

A throw-away trainer times a few updates and a validation. From these follow the length of the run, the schedule's
warm-up and the intervals of validation and checkpoints.
"""

from __future__ import annotations

__all__ = ["Pace", "Validations", "decide_steps", "measure_pace", "times_longer", "validations"]

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from s2s.training import time_updates, trial_run
from s2s_plan.decision import Decision
from s2s_plan.pace import VALIDATIONS, warmup

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from s2s import Plugins
    from s2s.config import Config
    from s2s.distributed import World
    from s2s.training import Trainer

FOR_VALIDATION, MOST_FOR_VALIDATION = 0.15, 0.3
"""Target share of the time for validations, and the share allowed where it is needed for FEWEST of them"""
FOR_PACE = 0.01
"""Share of the time spent on timing updates, at least 3 seconds and at most 30"""
FEWEST = 10
"""Desired minimum number of validations of a run, so that the first comes within its first tenth"""
N_DECODED = 8
"""Sentences decoded to estimate the decoding time"""
FEWEST_SENTENCES = 20
"""Minimum number of sentences for which a score is meaningful"""


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


class Validations(NamedTuple):
    """How often a run is validated, and how many sentences each validation decodes."""

    n: int
    n_sentences: int
    seconds: float
    """Of each validation"""


def measure_pace(config: Config, plugins: Plugins, world: World, seconds: float) -> Pace:
    """The pace of the slowest process in a run of this configuration; seconds: of the whole run."""
    with trial_run(config, plugins, world) as trainer:
        update, flops = time_updates(trainer, min(max(FOR_PACE * seconds, 3.0), 30.0))
        loss, sentence, n_sentences = _validation(trainer)
    del trainer
    gc.collect()  # before the next trainer is built
    measured = world.all_gather((update, loss, sentence))
    update, loss, sentence = (max(values) for values in zip(*measured, strict=True))
    return Pace(update, loss, sentence, n_sentences, flops)


def decide_steps(config: Config, pace: Pace, seconds: float, given: Container[str] = ()) -> list[Decision]:
    """The length of the run, and what follows from it; given: the options that the user has set."""
    may_decode_less = config.valid.best == "nll" and not any(key in given for key in ("valid.sentences", "valid.score"))
    n, n_sentences, each = validations(pace, seconds, may_decode_less=may_decode_less)
    steps = max(int((seconds - n * each) / max(pace.update, 1e-4)), 1)
    decisions = [Decision("train.steps", steps, f"{pace.update:.3g} s an update, {n} validations of {each:.3g} s")]
    steps = config.train.steps if "train.steps" in given else steps  # what follows is for the length that the run has
    if hasattr(config.schedule, "warmup"):
        decisions.append(Decision("schedule.warmup", warmup(steps), f"a tenth of {steps:,} updates"))
    for key, times in (("valid.every", n), ("checkpoint.every", max(n, FEWEST))):
        decisions.append(Decision(key, max(steps // times, 1), f"{times} times in {steps:,} updates"))
    if n_sentences < pace.n_sentences:
        why = f"{pace.sentence:.3g} s to decode a sentence"
        less = ("valid.sentences", n_sentences) if n_sentences else ("valid.score", False)
        decisions.append(Decision(*less, why))
    return decisions


def validations(pace: Pace, seconds: float, *, may_decode_less: bool) -> Validations:
    """Up to VALIDATIONS within their share of the time; if fewer than FEWEST fit, FEWEST with fewer sentences each."""
    each = pace.loss + pace.sentence * pace.n_sentences
    if each <= 0:
        return Validations(VALIDATIONS, 0, 0.0)
    n = min(int(FOR_VALIDATION * seconds / each), VALIDATIONS)
    if n >= FEWEST:
        return Validations(n, pace.n_sentences, each)
    if not may_decode_less:
        return Validations(_at_most(each, seconds), pace.n_sentences, each)
    n_sentences = _n_sentences(pace, seconds)
    each = pace.loss + pace.sentence * n_sentences
    return Validations(_at_most(each, seconds), n_sentences, each)


def _n_sentences(pace: Pace, seconds: float) -> int:
    """As many as FEWEST validations have time for; at least FEWEST_SENTENCES if the larger share allows, else 0."""
    fewest = pace.loss + FEWEST_SENTENCES * pace.sentence
    if not pace.sentence or fewest > MOST_FOR_VALIDATION * seconds / FEWEST:
        return 0
    n = int((FOR_VALIDATION * seconds / FEWEST - pace.loss) / pace.sentence)
    return min(max(n, FEWEST_SENTENCES), pace.n_sentences)


def _at_most(each: float, seconds: float) -> int:
    return min(FEWEST, max(int(MOST_FOR_VALIDATION * seconds / each), 1)) if each else FEWEST


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
