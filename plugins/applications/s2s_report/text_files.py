"""Outputs and references in files, as the results of runs are: what a report about plain files is made of."""

from __future__ import annotations

__all__ = ["file_statistics", "read_outcome"]

from typing import TYPE_CHECKING

from s2s import DataError, Example
from s2s.data import parallel_pairs, read_lines
from s2s.generation import Candidate, Output
from s2s.io import expand_user
from s2s.metrics import build_metrics
from s2s_report.outcome import DataStatistics, Outcome, Part, judged
from s2s_report.text_words import text_words

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Plugins
    from s2s_report import ReportConfig


def read_outcome(config: ReportConfig, plugins: Plugins) -> Outcome:
    """The outputs of every file of `hyp`, scored; raises DataError for files that are not parallel."""
    ref_path = expand_user(config.ref, "ref")
    refs = list(read_lines(ref_path))
    if not refs:
        raise DataError(f"{ref_path}: is empty; expected one sentence a line")
    paths = {name: expand_user(path, "hyp") for name, path in config.files.items()}
    texts = {name: _parallel(path, ref_path) for name, path in paths.items()}
    sources = _parallel(expand_user(config.src, "src"), ref_path) if config.src else [""] * len(refs)
    examples = [Example(*pair) for pair in zip(sources, refs, strict=True)]
    outputs = {name: [_output(src, line) for src, line in zip(sources, of, strict=True)] for name, of in texts.items()}
    metrics = build_metrics(None, plugins.registry, config.metrics)
    return judged(examples, outputs, [Part("", range(len(examples)), metrics)], config.samples)


def file_statistics(config: ReportConfig, outcome: Outcome) -> DataStatistics:
    """How often words occur in the lines of `train`, or without it in the references."""
    texts = read_lines(expand_user(config.train, "train")) if config.train else (one.tgt for one in outcome.examples)
    statistics = DataStatistics(place="training" if config.train else "the references")
    for text in texts:
        statistics.n_pairs += 1
        statistics.words["tgt"].update(text_words(text))
    return statistics


def _output(src: str, line: str) -> Output:
    return Output(src, [Candidate(line, 0.0, [], [])])


def _parallel(path: Path, ref: Path) -> list[str]:
    """The lines of a file that has as many as the references."""
    return [pair.src for pair in parallel_pairs(path, ref, "error", Example) if isinstance(pair, Example)]
