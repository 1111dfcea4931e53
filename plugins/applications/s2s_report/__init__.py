"""Reports of runs, as a plugin: the command s2s-report, and a page in the directory of every finished run.

run_log (what training wrote) and outcome (outputs, scores, flags) → sections → document (one HTML file, or Markdown).
"""

from __future__ import annotations

__all__ = ["ReportConfig", "TrainingReport", "s2s_observe", "s2s_register"]

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Observer, hookimpl
from s2s.config import at_least, check_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import Registry, TrainerView


@dataclass(kw_only=True)
class ReportConfig:
    """s2s-report: one page about a run, or comparing several runs with the first.

    s2s-report run=my_run
    s2s-report run=[base,wider] output=comparison split=test
    """

    run: Any = ""
    """A run, as s2s-generate takes it, or several of one task, which are compared with the first."""
    output: str = ""
    """Files to write, without the extensions .html and .md; empty: report in the first run's directory."""
    split: Literal["test", "valid"] = "valid"
    """Examples that are decoded: the first run's development or test set."""
    sentences: int = 200
    """Number of examples; 0: none, and the report covers the training only."""
    samples: int = 1000
    """Bootstrap samples for 95% intervals and paired tests."""
    pairs: int = 20_000
    """Training pairs that are read for the statistics of the data; 0: none."""
    shown: int = 10
    """Sentences shown of each kind, such as the largest losses."""
    attention: int = 3
    """Number of these shown with the attention of every layer and head, if the architecture provides it; 0: none."""

    def __post_init__(self) -> None:
        if not self.run:
            raise ConfigError("run: which model? Give run=NAME, a run directory, run=last, or run=[A,B]")
        check_ranges("", self, sentences=at_least(0), samples=at_least(0), pairs=at_least(0), shown=at_least(0))
        check_ranges("", self, attention=at_least(0))

    @property
    def runs(self) -> list[str]:
        """The names of all runs."""
        return [str(run) for run in self.run] if isinstance(self.run, list) else [str(self.run)]


@hookimpl
def s2s_register(registry: Registry) -> None:
    """Pictures of attention, as formats of s2s-generate."""
    registry.add("output_format", "attention", Choice, "s2s_report.attention:AttentionPage")
    registry.add("output_format", "figures", Choice, "s2s_report.attention:AttentionFigures")


class TrainingReport(Observer):
    """Writes report.html in the directory of a finished run; never makes the run fail."""

    def __init__(self, trainer: TrainerView) -> None:
        self.trainer = trainer

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Write the report."""
        try:
            from s2s_report.command import write_training_report

            write_training_report(self.trainer)
        except Exception as error:
            logging.getLogger(__name__).warning("no report was written: %s: %s", type(error).__name__, error)


@hookimpl
def s2s_observe(trainer: TrainerView) -> TrainingReport | None:
    """The report's observer, on the first rank."""
    return TrainingReport(trainer) if trainer.world.is_main else None
