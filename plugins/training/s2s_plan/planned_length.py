"""The length of a run as planned, from its time and the measured speed of its own model on its own data."""

from __future__ import annotations

__all__ = ["PlannedLength", "decide_steps"]

from typing import TYPE_CHECKING, NamedTuple

from s2s_plan.plan import Decision
from s2s_plan.run_length import VALIDATIONS, time_to_end, warmup

if TYPE_CHECKING:
    from collections.abc import Container

    from s2s.config import Config
    from s2s_plan.measured_pace import Pace

FOR_VALIDATION, MOST_FOR_VALIDATION = 0.15, 0.3
"""Target share of the time for validations, and the share allowed where it is needed for FEWEST of them"""
FEWEST = 10
"""Desired minimum number of validations of a run, so that the first comes within its first tenth"""
FEWEST_SENTENCES = 20
"""Sentences with which a score begins to mean something: rather fewer validations than fewer sentences"""
LEAST = 0.1
"""Share of the time that is for updates, even if what came before them took nearly all of it"""


class Validations(NamedTuple):
    """How often a run is validated, and how many sentences each validation decodes."""

    n: int
    n_sentences: int
    seconds: float
    """Of each validation"""


class PlannedLength(NamedTuple):
    """The number of updates, and what follows from it."""

    decisions: list[Decision]
    validation: float
    """Seconds of each validation, as estimated; 0: there is none"""


def decide_steps(
    config: Config, pace: Pace, seconds: float, passed: float = 0.0, user_keys: Container[str] = ()
) -> PlannedLength:
    """The length of the run, and what follows from it.

    seconds: for all of it, of which so many have passed; user_keys: the options that the user has set.
    """
    seconds = max(seconds - passed - time_to_end(passed), LEAST * seconds)
    may_decode_less = config.valid.best == "nll" and not any(
        key in user_keys for key in ("valid.sentences", "valid.score")
    )
    n, n_sentences, each = validations(pace, seconds, may_decode_less=may_decode_less)
    steps = max(int((seconds - n * each) / max(pace.update, 1e-4)), 1)
    decisions = [Decision("train.steps", steps, f"{pace.update:.3g} s an update, {n} validations of {each:.3g} s")]
    if "train.steps" in user_keys:  # what follows is for the length that the run has
        steps = config.train.steps
    if hasattr(config.schedule, "warmup"):
        decisions.append(Decision("schedule.warmup", warmup(steps), f"a tenth of {steps:,} updates"))
    for key, times in (("valid.every", n), ("checkpoint.every", max(n, FEWEST))):
        decisions.append(Decision(key, max(steps // times, 1), f"{times} times in {steps:,} updates"))
    if n_sentences < pace.n_sentences:
        why = f"of {pace.n_sentences:,}, {pace.sentence:.3g} s to decode a sentence"
        decisions.append(Decision("valid.sentences", n_sentences, why))
    return PlannedLength(decisions, each)


def validations(pace: Pace, seconds: float, *, may_decode_less: bool) -> Validations:
    """Up to VALIDATIONS within their share of the time; if fewer than FEWEST fit, FEWEST with fewer sentences each.

    If not even FEWEST_SENTENCES fit into so many, there are fewer validations; the last always decodes something.
    """
    each = pace.loss + pace.sentence * pace.n_sentences
    if each <= 0:
        return Validations(VALIDATIONS, 0, 0.0)
    n, n_sentences = min(int(FOR_VALIDATION * seconds / each), VALIDATIONS), pace.n_sentences
    if n < FEWEST:
        n_sentences = _n_sentences(pace, seconds) if may_decode_less else n_sentences
        each = pace.loss + pace.sentence * n_sentences
        n = min(FEWEST, max(int(MOST_FOR_VALIDATION * seconds / each), 1)) if each else FEWEST
    return Validations(n, n_sentences, each)


def _n_sentences(pace: Pace, seconds: float) -> int:
    """As many as FEWEST validations have time for; at least FEWEST_SENTENCES, or what a single one has time for."""
    if not pace.sentence:
        return 0
    of_each = int((FOR_VALIDATION * seconds / FEWEST - pace.loss) / pace.sentence)
    of_one = int((MOST_FOR_VALIDATION * seconds - pace.loss) / pace.sentence)
    return min(max(of_each, min(FEWEST_SENTENCES, of_one), 1), pace.n_sentences)
