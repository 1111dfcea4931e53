"""train.budget during a run: the number of updates is adjusted so that the run ends in time.

The time of an update changes with the load of the machine. So twenty times in a run, at its points, the updates that
still fit are counted anew, and the schedule is stretched or shortened with the run. Each decision is stored in the run:
a run continued from an earlier checkpoint repeats those that it reaches again, and so ends with the same bytes.
"""

from __future__ import annotations

__all__ = ["LENGTHS", "Point", "TimeBudget", "ended_after", "read_points"]

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError, Observer
from s2s.checkpoint import step_name
from s2s.io import dump_record, read_record, write_file
from s2s_plan.options import plan_options
from s2s_plan.pace import interval, warmup

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from s2s import TrainerView

LENGTHS = "lengths.json"
"""The file of a run's points"""
TOLERANCE = 0.01
"""Share of the budget by which the run may miss it without an adjustment"""
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

    def __init__(self, trainer: TrainerView, seconds: float, planned: int) -> None:
        """seconds: of the whole run; planned: its updates, as decided before the first."""
        self.trainer, self.seconds, self.planned = trainer, seconds, planned
        found = [asdict(point) for point in read_points(trainer.directory)] if trainer.world.is_main else []
        self.points = {point["step"]: Point(**point) for point in trainer.world.all_gather(found)[0]}
        step, now = trainer.state.step, time.monotonic()
        last = max((point for point in self.points.values() if point.step <= step), key=_step, default=None)
        trainer.length.n_steps = last.length if last else planned
        self.began = now - (last.seconds * step / last.step if last else trainer.state.seconds)
        self.update_ended, self.validation, self.validating = now, 0.0, 0.0
        """When the last update ended; seconds of the newest validation, and of all since the last point"""
        self.previous, self.pace = (step, now), 0.0
        """Step and time of the last point; seconds of an update, a running mean that weights the newest most"""
        self.reported = trainer.length.n_steps

    def updated(self, record: Mapping[str, Any]) -> None:
        """At a point, make a decision, or repeat the stored one."""
        step, self.update_ended = record["step"], time.monotonic()
        if step % interval(self.planned):
            return
        point = self.points.get(step) or self._decided(step)
        self.previous, self.validating = (step, self.update_ended), 0.0
        if point.length != self.trainer.length.n_steps:
            self.trainer.length.n_steps = point.length
            self._report(point.length)

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
        point = Point(**world.all_gather(asdict(Point(step, seconds, self._length(step, seconds))))[0])
        self.points[step] = point
        if world.is_main:
            kept = [asdict(self.points[key]) for key in sorted(self.points)]
            write_file(self.trainer.directory / LENGTHS, dump_record({"points": kept}))
        return point

    def _length(self, step: int, seconds: float) -> int:
        """As many updates as fit, at least a few for the schedule to end; unchanged if the length is close enough."""
        config, (before, then) = self.trainer.config, self.previous
        length, every = self.trainer.length.n_steps, config.valid.every
        has_validations = self.trainer.validation and 0 < every < self.planned
        if step < warmup(self.planned) or step >= length or (has_validations and not self.validation):
            return length
        newest = max(self.update_ended - then - self.validating, 1e-6) / (step - before)
        self.pace = (newest + (self.pace or newest)) / 2
        pace = self.pace + (self.validation / every if has_validations else 0.0)
        left = max((self.seconds - seconds) / pace, interval(self.planned) / 4, 1)
        is_near = abs(step + left - length) * pace < TOLERANCE * self.seconds
        return length if is_near else step + round(left)


def _step(point: Point) -> int:
    return point.step
