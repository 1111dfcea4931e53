"""train.budget=30m: the length of a run from the speed of its own model on its own data.

A throw-away trainer makes a few updates and looks at a validation; what its time allows becomes the length of the run,
and with it the schedule's warm-up and the intervals of validation and checkpoints.
"""

from __future__ import annotations

__all__ = ["Pace", "decide_steps", "measure_pace"]

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.training import time_updates, trial_run
from s2s_recipe.decision import Decision
from s2s_recipe.pace import VALIDATIONS, interval, warmup

if TYPE_CHECKING:
    from s2s import Plugins
    from s2s.config import Config
    from s2s.distributed import World
    from s2s.training import Trainer

FOR_VALIDATION, MOST_FOR_VALIDATION = 0.15, 0.3
"""Shares of the time that validations should take, and that they may take for there to be FEWEST of them"""
FEWEST = 10
"""Validations of a run, so that the first comes within its first tenth"""
N_DECODED = 8
"""Sentences that are decoded for an estimate"""


@dataclass(frozen=True)
class Pace:
    """Seconds that things take."""

    update: float
    validation: float
    flops: float = 0.0
    """Floating-point operations a second that updates reach; 0: the model does not count its own"""


def measure_pace(config: Config, plugins: Plugins, world: World) -> Pace:
    """The pace of the run that this configuration describes."""
    with trial_run(config, plugins, world) as trainer:
        update, flops = time_updates(trainer)
        validation = _validation(trainer)
    del trainer
    gc.collect()  # before the next one is built
    slowest = max(world.all_gather((update, validation)))
    return Pace(slowest[0], slowest[1], flops)


def decide_steps(config: Config, pace: Pace, seconds: float) -> list[Decision]:
    """The length of the run, and what follows from it."""
    n = _n_validations(pace.validation / seconds)
    steps = max(int((seconds - n * pace.validation) / max(pace.update, 1e-4)), 1)
    why = f"{pace.update:.3g} s an update, {n} validations of {pace.validation:.3g} s"
    every = max(steps // n, 1) if n < VALIDATIONS else interval(steps)
    decisions = [Decision("train.steps", steps, why)]
    if hasattr(config.schedule, "warmup"):
        decisions.append(Decision("schedule.warmup", warmup(steps), f"a tenth of {steps:,} updates"))
    for key in ("valid.every", "checkpoint.every"):
        decisions.append(Decision(key, every, f"{n} times in {steps:,} updates"))
    return decisions


def _n_validations(share: float) -> int:
    """How many validations, each of which takes this share of the time."""
    if share <= 0:
        return VALIDATIONS
    fewest = min(FEWEST, max(int(MOST_FOR_VALIDATION / share), 1))
    return min(max(int(FOR_VALIDATION / share), fewest), VALIDATIONS)


def _validation(trainer: Trainer) -> float:
    """Seconds of a validation; of a model that has learnt nothing outputs are as long as they may be, and so their
    time is that of as many tokens, for outputs as long as the references."""
    validation = trainer.validation
    if not validation:
        return 0.0
    began = time.monotonic()
    validation.losses(trainer.stop)
    seconds = time.monotonic() - began
    examples = validation.examples[:N_DECODED]
    if not examples:
        return seconds
    began = time.monotonic()
    outputs = list(validation.generator(example.src for example in examples))
    decoding = time.monotonic() - began
    n_words = sum(len(example.tgt.split()) for example in examples)
    longer = max(sum(len(output.hyp.split()) for output in outputs) / max(n_words, 1), 1.0)
    return seconds + decoding / longer * len(validation.examples) / len(examples) / trainer.world.size
