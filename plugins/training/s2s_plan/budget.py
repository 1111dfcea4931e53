"""train.budget=30m: the length of a run follows from the measured speed of its own model on its own data.

The time is that of the whole command. Before the run, a throw-away trainer times a few updates and a validation; from
these follow the number of updates, the warm-up and the intervals. During the run the speed changes with the load of the
machine: so sixty times, at its points, the updates that still fit are counted anew, and the schedule moves with the
run's end. Each decision is stored in the run: one continued from an earlier checkpoint repeats those that it reaches
again, and ends with the same bytes.
"""

from __future__ import annotations

__all__ = ["LENGTHS", "Point", "TimeBudget", "decide_steps", "ended_after", "read_points"]

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import CheckpointError, Observer
from s2s.checkpoint import step_name
from s2s.io import dump_record, read_record, write_file
from s2s_plan.plan import Decision
from s2s_plan.run_length import VALIDATIONS, interval, plan_options, warmup

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from pathlib import Path

    from s2s import TrainerView
    from s2s.config import Config
    from s2s_plan.measured_pace import Pace

FOR_VALIDATION, MOST_FOR_VALIDATION = 0.15, 0.3
"""Target share of the time for validations, and the share allowed where it is needed for FEWEST of them"""
FEWEST = 10
"""Desired minimum number of validations of a run, so that the first comes within its first tenth"""
FEWEST_SENTENCES = 20
"""Minimum number of sentences for which a score is meaningful"""
LENGTHS = "lengths.json"
"""The file of a run's points"""
POINTS = 3
"""Points between two validations as planned"""
END = 3.0
"""Seconds for starting the process, and for what follows the last validation: the average, the report, the exit"""
LEAST = 0.1
"""Share of the time that is for updates, even if what came before them took nearly all of it"""
TOLERANCE, UNCERTAIN = 0.015, 0.12
"""The run is adjusted if it would miss its time by more than this share of it, and by more than that share of what is
left of it, since the pace is known no better, and a total should settle"""
LOOK_BACK = 0.4
"""Share of the time that is left for which the pace is measured: what comes is like what was, for about as long"""
WORTH_A_LINE = 0.1
"""Relative change of the length that gets a line of its own; the live line shows every change"""


class Validations(NamedTuple):
    """How often a run is validated, and how many sentences each validation decodes."""

    n: int
    n_sentences: int
    seconds: float
    """Of each validation"""


def decide_steps(
    config: Config, pace: Pace, seconds: float, passed: float = 0.0, user_keys: Container[str] = ()
) -> list[Decision]:
    """The length of the run, and what follows from it.

    seconds: for all of it, of which so many have passed; user_keys: the options that the user has set.
    """
    seconds = max(seconds - passed - END, LEAST * seconds)
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
        why = f"{pace.sentence:.3g} s to decode a sentence"
        less = ("valid.sentences", n_sentences) if n_sentences else ("valid.score", False)
        decisions.append(Decision(*less, why))
    return decisions


def validations(pace: Pace, seconds: float, *, may_decode_less: bool) -> Validations:
    """Up to VALIDATIONS within their share of the time; if fewer than FEWEST fit, FEWEST with fewer sentences each."""
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
    """As many as FEWEST validations have time for; at least FEWEST_SENTENCES if the larger share allows, else 0."""
    fewest = pace.loss + FEWEST_SENTENCES * pace.sentence
    if not pace.sentence or fewest > MOST_FOR_VALIDATION * seconds / FEWEST:
        return 0
    n = int((FOR_VALIDATION * seconds / FEWEST - pace.loss) / pace.sentence)
    return min(max(n, FEWEST_SENTENCES), pace.n_sentences)


@dataclass(frozen=True)
class Point:
    """A decision about the length, made after an update."""

    step: int
    seconds: float
    """Since the run began, without the time between its sessions"""
    length: int
    """Updates of the whole run"""


def read_points(run: Path) -> list[Point]:
    """The points of a run in their order; raises CheckpointError if their file is damaged."""
    path = run / LENGTHS
    try:
        return [Point(**point) for point in read_record(path)["points"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error}): put it back, or delete it, and the length is decided anew from here on"
        ) from None


def ended_after(run: Path) -> int | None:
    """The last update of a run that has ended at the length of its last point; None if it has not or has no point."""
    length = max(read_points(run), key=_step, default=Point(0, 0.0, 0)).length
    return length if (run / "checkpoints" / step_name(length)).is_dir() else None


class TimeBudget(Observer):
    """Adjusts the number of updates of a run to its time budget."""

    def __init__(self, trainer: TrainerView, seconds: float, planned: int) -> None:
        """seconds: of the whole run; planned: its updates, as decided before the first."""
        self.trainer, self.seconds, self.planned = trainer, seconds, planned
        stored = read_points(trainer.directory) if trainer.world.is_main else []
        self.points = {point.step: point for point in trainer.world.all_gather(stored)[0]}
        step, now = trainer.state.step, time.monotonic()
        reached = sorted((point for point in self.points.values() if point.step <= step), key=_step)
        for point in reached:
            self._move(point)
        last = reached[-1] if reached else None
        self.began = trainer.length.began - (last.seconds * step / last.step if last else trainer.state.seconds)
        self.update_ended, self.validation, self.validating = now, 0.0, 0.0
        """When the last update ended; seconds of the newest validation, and of all in this session"""
        self.marks = [(step, now)]
        """Step and time of the points of this session, without its validations"""
        self.reported = trainer.length.n_steps

    def updated(self, record: Mapping[str, Any]) -> None:
        """At a point, make a decision, or repeat the stored one."""
        step, self.update_ended = record["step"], time.monotonic()
        if step % max(interval(self.planned) // POINTS, 1):
            return
        point = self.points.get(step) or self._decided(step)
        self.marks.append((step, self.update_ended - self.validating))
        if self._move(point):
            self._report(point.length)

    def _move(self, point: Point) -> bool:
        """Give the run the length that was decided at a point; returns whether it is another one."""
        length = self.trainer.length
        if is_other := point.length != length.n_steps:
            length.move(point.step, point.length)
        return is_other

    def _report(self, length: int) -> None:
        if abs(length - self.reported) > WORTH_A_LINE * self.reported:
            budget = plan_options(self.trainer.config).budget
            self.trainer.log.info(f"train.budget={budget}: {length:,} updates instead of {self.reported:,}")
            self.reported = length

    def validated(self, record: Mapping[str, Any]) -> None:
        """Record the time of the validation separately from that of updates."""
        self.validation = time.monotonic() - self.update_ended
        self.validating += self.validation

    def _decided(self, step: int) -> Point:
        """The decision of the first process, which stores it before it takes effect."""
        seconds, world = self.update_ended - self.began, self.trainer.world
        point = world.all_gather(Point(step, seconds, self._length(step, seconds)))[0]
        self.points[step] = point
        if world.is_main:
            kept = [asdict(self.points[key]) for key in sorted(self.points)]
            write_file(self.trainer.directory / LENGTHS, dump_record({"points": kept}))
        return point

    def _length(self, step: int, seconds: float) -> int:
        """As many updates as fit, at least a few for the schedule to end; unchanged if the length is close enough."""
        length, every = self.trainer.length.n_steps, self.trainer.config.valid.every
        has_validations = self.trainer.validation and 0 < every < self.planned
        if step < warmup(self.planned) or step >= length or (has_validations and not self.validation):
            return length
        time_left = self.seconds - seconds - END - (self.validation if has_validations else 0.0)
        pace = self._pace(step, LOOK_BACK * time_left) + (self.validation / every if has_validations else 0.0)
        left = max(time_left / pace, interval(self.planned) / 4, 1)
        missed = abs(step + left - length) * pace
        is_near = missed < max(TOLERANCE * self.seconds, UNCERTAIN * time_left)
        return length if is_near else step + round(left)

    def _pace(self, step: int, seconds: float) -> float:
        """Seconds of an update in about the last `seconds`."""
        now = self.update_ended - self.validating
        before, then = next((mark for mark in reversed(self.marks) if now - mark[1] >= seconds), self.marks[0])
        return max(now - then, 1e-6) / max(step - before, 1)


def _step(point: Point) -> int:
    return point.step
