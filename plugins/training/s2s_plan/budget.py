"""train.budget=30m: the length of a run follows from the measured speed of its own model on its own data.

The time is that of the whole command. Before the run, a throw-away trainer times a few updates and a validation; from
these follow the number of updates, the warm-up and the intervals. During the run the speed changes with the load of the
machine: so each time that two thirds of the time left have passed, the updates that still fit are counted anew, and
the schedule moves with the run's end. Sixty points of a run record the decision, or that there was none, which is so
during the warm-up: one continued from an earlier checkpoint repeats those that it reaches again, and ends with the same
bytes. What passed before the first update, such as reading the corpus, is part of a point's time.
"""

from __future__ import annotations

__all__ = ["LENGTHS", "Point", "TimeBudget", "ended_after", "read_points"]

import math
import time
from dataclasses import asdict, dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError, Observer
from s2s.checkpoint import step_name
from s2s.io import dump_record, read_record, write_file
from s2s_plan.run_length import interval, plan_options, time_to_end, warmup

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from s2s import TrainerView

LENGTHS = "lengths.json"
"""The file of a run's points"""
POINTS = 3
"""Points between two validations as planned"""
TOLERANCE, UNCERTAIN = 0.025, 0.25
"""The run is adjusted if it would miss its time by more than this share of it, and by more than that share of what is
left of it, since the pace is known no better, and a total should settle"""
FIRST_LEFT, NEXT_LEFT = 0.8, 1 / 3
"""Share of the time that is left at the first decision, and at each further one, of what was left at the one before"""
LOOK_BACK = 0.8
"""Share of the time that is left for which the pace is measured: what comes is like what was, for about as long"""
WORTH_A_LINE = 0.1
"""Relative change of the length that gets a line of its own; the live line shows every change"""


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

    def __init__(self, trainer: TrainerView, seconds: float, planned: int, validation: float) -> None:
        """seconds: of the whole run; planned: its updates, as decided before the first; validation: its seconds."""
        self.trainer, self.seconds, self.planned = trainer, seconds, planned
        stored = read_points(trainer.directory) if trainer.world.is_main else []
        self.points = {point.step: point for point in trainer.world.all_gather(stored)[0]}
        step, now = trainer.state.step, time.monotonic()
        reached = sorted((point for point in self.points.values() if point.step <= step), key=_step)
        for point in reached:
            self._move(point)
        last = reached[-1] if reached else Point(0, 0.0, 0)
        self.began = trainer.length.began - last.seconds - trainer.state.seconds * (step - last.step) / max(step, 1)
        self.update_ended, self.validating = now, 0.0
        """When the last update ended; seconds of all validations in this session"""
        self.validation = validation if trainer.validation else 0.0
        """Seconds of the newest validation, or as expected"""
        self.marks = [(step, now)]
        """Step and time of the points of this session, without its validations"""
        self.reported = trainer.length.n_steps

    def is_due(self, step: int) -> bool:
        """At a point."""
        return step % max(interval(self.planned) // POINTS, 1) == 0

    def updated(self, record: Mapping[str, Any]) -> None:
        """At a point, make a decision, or repeat the stored one."""
        step, self.update_ended = record["step"], time.monotonic()
        if not self.is_due(step):
            return
        self.marks.append((step, self.update_ended - self.validating))
        point = self.points.get(step) or (self._decided(step) if step < self.trainer.length.n_steps else None)
        if point and self._move(point):
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
        first = warmup(self.planned)
        decided = (point for point in self.points.values() if first <= point.step < step)
        before = max(decided, key=_step, default=Point(0, 0.0, 0))
        is_due = step >= first and self._n_due(step, seconds) > self._n_due(before.step, before.seconds)
        length = self._length(step, seconds) if is_due else self.trainer.length.n_steps
        point = world.all_gather(Point(step, seconds, length))[0]
        self.points[step] = point
        if world.is_main:
            kept = [asdict(self.points[key]) for key in sorted(self.points)]
            write_file(self.trainer.directory / LENGTHS, dump_record({"points": kept}))
        return point

    def _n_due(self, step: int, seconds: float) -> int:
        """Decisions due so far, by what is left of the time and of the updates."""
        left = min(1 - step / self.trainer.length.n_steps, 1 - seconds / self.seconds)
        return max(math.floor(math.log(max(left, 1e-3) / FIRST_LEFT, NEXT_LEFT)) + 1, 0)

    def _length(self, step: int, seconds: float) -> int:
        """As many updates as fit, at least a few for the schedule to end; unchanged if the length is close enough."""
        length, now = self.trainer.length.n_steps, self.update_ended
        time_left = self.seconds - seconds - time_to_end(now - self.trainer.length.began)
        pace = self._pace(step, LOOK_BACK * time_left)
        fitting = next(
            step + int((time_left - n * self.validation) / pace)
            for n in count(1)
            if self._n_validations(step, step + int((time_left - n * self.validation) / pace)) <= n
        )
        fitting = max(fitting, step + max(interval(self.planned) // 4, 1))
        needed = (length - step) * pace + self._n_validations(step, length) * self.validation
        is_near = abs(needed - time_left) < max(TOLERANCE * self.seconds, UNCERTAIN * time_left)
        return length if is_near else fitting

    def _n_validations(self, step: int, length: int) -> int:
        """Validations from update `step` on in a run of this length, of which the last is at its end."""
        every = self.trainer.config.valid.every or length
        return (length - 1) // every - (step - 1) // every + 1

    def _pace(self, step: int, seconds: float) -> float:
        """Seconds of an update in about the last `seconds`."""
        now = self.update_ended - self.validating
        before, then = next((mark for mark in reversed(self.marks) if now - mark[1] >= seconds), self.marks[0])
        return max(now - then, 1e-6) / max(step - before, 1)


def _step(point: Point) -> int:
    return point.step
