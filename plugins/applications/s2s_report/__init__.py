"""Reports of runs, as a plugin: the command s2s-report, and a page in the directory of every finished run.

run_log (what training wrote) and outcome (outputs, scores, flags) → sections → document (one HTML file, or Markdown).
"""

from __future__ import annotations

__all__ = ["FigureOptions", "ReportConfig", "TrainingReport", "s2s_observe", "s2s_register"]

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Observer, hookimpl
from s2s.config import GenerateConfig, Mark, at_least, check_all_used, check_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import Registry, TrainerView


@dataclass(kw_only=True)
class ReportConfig:
    """s2s-report: one page about a run, or comparing several runs with the first.

    s2s-report run=my_run
    s2s-report run=[base,wider] output=comparison split=test
    s2s-report hyp=[ours.txt,theirs.txt] ref=test.de src=test.en train=train.de output=comparison
    """

    run: Any = ""
    """A run, as s2s-generate takes it, or several of one task, which are compared with the first."""
    hyp: Any = ""
    """Instead of runs a file of outputs, one per line, or several, which are compared with the first."""
    ref: str = ""
    """File of references for the files of `hyp`, one per line."""
    src: str = ""
    """File of their sources, one per line, where there is one."""
    train: str = ""
    """Training text of the outputs' language, by whose words their frequency is counted; empty: the references."""
    metrics: Any = None
    """Metrics by name, the main one first, or with options as in {name: bleu, tokenize: intl}; null: those of the runs'
    task, bleu and chrf of files."""
    output: str = ""
    """Files to write, without the extensions .html and .md; empty: report in the first run's directory, or here."""
    overwrite: bool = False
    """Replace what is there even if s2s did not write it, or it has been changed since."""
    split: Literal["test", "valid"] = "valid"
    """Examples that are decoded: the first run's development or test set."""
    sentences: int = 200
    """Number of examples; 0: none, and the report covers the training only."""
    outside: bool = False
    """Read the texts that a run names outside of the working folder and its own, too: a run of others may name
    any of your files, and the report quotes them."""
    samples: int = 1000
    """Bootstrap samples for 95% intervals and paired tests."""
    pairs: int = 20_000
    """Training pairs that are read for the statistics of the data; 0: none."""
    shown: int = 10
    """Sentences shown of each kind, such as the largest losses."""
    attention: int = 3
    """Number of these shown with the attention of every layer and head, if the architecture provides it; 0: none."""

    def __post_init__(self) -> None:
        if not self.run and not self.hyp:
            raise ConfigError("run: which model? Give run=NAME, run=last or run=[A,B], or files: hyp=[a,b] ref=c")
        if bool(self.hyp) != bool(self.ref) or (self.run and self.hyp):
            raise ConfigError(f"run={self.run} hyp={self.hyp} ref={self.ref}: give runs, or outputs with references")
        for option in ("src", "train"):
            check_all_used(self, option, "hyp", self.hyp)
        check_ranges("", self, sentences=at_least(0), samples=at_least(0), pairs=at_least(0), shown=at_least(0))
        check_ranges("", self, attention=at_least(0))

    @property
    def runs(self) -> list[str]:
        """The names of all runs."""
        return _names(self.run)

    @property
    def files(self) -> dict[str, str]:
        """The paths of all files of outputs, under their names, or whole where two have the same name."""
        paths = _names(self.hyp)
        if len(set(paths)) < len(paths):
            raise ConfigError(f"hyp=[{','.join(paths)}]: a file is named twice")
        names = [Path(path).name for path in paths]
        return dict(zip(names if len(set(names)) == len(names) else paths, paths, strict=True))


def _names(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


@dataclass(kw_only=True)
class FigureOptions(GenerateConfig):
    """Figures of attention as files."""

    figures_folder: str = field(default="", metadata=Mark.OF_FILES)
    """format=figures: a new folder, in which each figure is a file of its own, too, as SVG and PDF."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_all_used(self, "figures_folder", "format=figures", self.format == "figures")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """Pictures of attention, as formats of s2s-generate."""
    registry.options(FigureOptions)
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
