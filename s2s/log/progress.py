"""The lines of a run for people, from its records: means over the last updates, speed, remaining time."""

from __future__ import annotations

__all__ = ["RunLines"]

import shlex
import time
from typing import TYPE_CHECKING, Any

from s2s.config.duration import format_duration
from s2s.config.length_advice import length_advice
from s2s.log.lines import GAP, MovingMeans, UpdateLine, apart_line, doubt_of, scores, short, valid_line
from s2s.log.live import LiveScreen
from s2s.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from s2s.log.log import Log
    from s2s.observer import TrainerView


class RunLines(Observer):
    """One line every log.every updates, one for a validation with its checkpoint, and the summary."""

    def __init__(self, trainer: TrainerView, log: Log) -> None:
        self.trainer, self.log = trainer, log
        self.directory, self.by = trainer.directory, trainer.config.valid.best
        self.continues = log.step > 0
        self.means = MovingMeans(max(trainer.config.log.every, 1), trainer.train_step.objective.extras)
        self.pending: Mapping[str, Any] | None = None
        """A validation whose line will be shown with the following checkpoint"""

    def is_due(self, step: int) -> bool:
        """Whether a line is, or the live line."""
        screen = self.log.screen
        return self.log.is_due(step) or (isinstance(screen, LiveScreen) and screen.is_due())

    def updated(self, record: Mapping[str, Any]) -> None:
        """Show a line if one is due; on a terminal, redraw the live line if no newer update was read with this one."""
        self._flush()
        self.means.add(record)
        is_due, screen = self.log.is_due(record["step"]), self.log.screen
        is_newest = record["step"] == self.trainer.state.step
        if isinstance(screen, LiveScreen) and (is_due or is_newest):
            line = UpdateLine.of(record, self.log.n_steps, self.means)
            screen.draw(line)
            if is_due:
                self.log.write(str(line))
        elif is_due:
            self.log.show(str(UpdateLine.of(record, self.log.n_steps, self.means)))

    def validated(self, record: Mapping[str, Any]) -> None:
        """Keep loss and scores, whose line is shown with what follows."""
        self._flush()
        self.pending = record

    def saved(self, path: Path, seconds: float) -> None:
        """Show the checkpoint, in the line of the validation of the same step if there was one."""
        self._flush(f"saved {self.log.relative_path(path)} ({seconds:.1f} s, verified)")

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Show a summary, the best validation, that of the averaged weights, and the next command."""
        self._flush()
        validations = list(self.log.records("valid"))
        n_done = f"{summary['steps']:,} updates, {short(summary['tokens'])} tokens"
        self.log.show(f"done  {n_done}, {self._times(summary['seconds'], validations)}")
        best = [record for record in validations if record.get("best")]
        if best:
            self.log.show(f"best  by {self.by}: {valid_line(best[-1])}")
            if apart := apart_line(best[-1]):
                self.log.show(apart)
            if doubt := doubt_of(best[-1], length_advice(self.trainer.config.search)):
                self.log.warn(doubt)
            shown = {signature: name for name, signature in reversed(best[-1].get("signatures", {}).items())}
            for signature, name in reversed(shown.items()):
                self.log.show(f"      {name}: {signature}")
        if average := summary.get("average"):
            saved = f"saved {self.log.relative_path(average['path'])}"
            worse = (
                f"worse by {by} than the best, which checkpoint=auto takes" if (by := average.get("worse_by")) else ""
            )
            mixed = average.get("mixed", "")
            self.log.show(GAP.join(["mean", *scores(average), saved, *filter(None, (mixed, worse))]))
        self.log.show(f"next  s2s-generate run={shlex.quote(str(self.directory))} input=FILE")

    def _times(self, updating: float, validations: Sequence[Mapping[str, Any]]) -> str:
        """The time since the command began, and that of updates and validations in all sessions."""
        parts = [f"updates {format_duration(updating)}"]
        if validations:
            validating = sum(record.get("seconds", 0.0) for record in validations)
            parts.append(f"validation {format_duration(validating)}")
        total, spent = format_duration(time.monotonic() - self.log.length.began), ", ".join(parts)
        return f"{spent}; {total} since it was continued" if self.continues else f"{total}: {spent}"

    def close(self, error: BaseException | None) -> None:
        """Show a validation without a following checkpoint."""
        self._flush()

    def _flush(self, saved: str = "") -> None:
        """Show the pending validation, with its checkpoint, or the checkpoint alone."""
        record, self.pending = self.pending, None
        if text := valid_line(record, self.by, saved) if record else saved:
            self.log.show(text)
        if record and (apart := apart_line(record)):
            self.log.show(apart)
