"""Turns the results of jobs into the cells of a table: means over seeds, intervals, differences from the first row."""

from __future__ import annotations

__all__ = ["collect"]

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s import ConfigError, Plugins, did_you_mean
from s2s.compose import compose
from s2s.config import Config
from s2s.io import read_json
from s2s.metrics import build_metrics, compare
from s2s_study.cells import VERDICTS, Cell, Line, corrected
from s2s_study.jobs import Study
from s2s_study.t_test import half_width, welch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Task
    from s2s_study import StudyConfig
    from s2s_study.job_spec import Job
    from s2s_study.rows import Row


def collect(config: StudyConfig, study: Study, folder: Path, plugins: Plugins) -> tuple[list[Line], list[str]]:
    """A line for every row, and notes: signatures, checkpoints, machines."""
    results = {name: [job.result(folder) for job in jobs] for name, jobs in study.jobs.items()}
    finished = {name: [r for r in row_results if r is not None] for name, row_results in results.items()}
    every = [result for row_results in finished.values() for result in row_results]
    unknown = _unknown_measure(config, every)
    if unknown and all(finished.values()):
        raise ConfigError(unknown)
    compared = config.compare or _main_metric(config, every)
    first = study.rows[0].name
    tests = _Tests(study, folder, plugins, config.samples)
    lines = []
    for row in study.rows:
        row_results, base = finished[row.name], finished[first]
        cells = {measure: _cell(row_results, measure) for measure in config.measures}
        for measure in compared if row.name != first and base else ():
            scored = row_results and measure in row_results[0]["scores"]
            p = tests.p_sentences(measure, first, row.name) if scored else None
            cells[measure] = _compared(cells[measure], _cell(base, measure), p, _published(measure, row, study.rows[0]))
        lines.append(Line(row.name, cells, len(row_results), len(results[row.name])))
    lines = corrected(lines, compared)
    return lines, [*_notes(config, study, every), *_test_notes(lines), *([unknown] if unknown else [])]


def _published(measure: str, row: Row, first: Row) -> float | None:
    if measure not in row.published or measure not in first.published:
        return None
    return row.published[measure] - first.published[measure]


def _cell(results: Sequence[Mapping[str, Any]], measure: str) -> Cell:
    values = tuple(float(r["values"][measure]) for r in results if r["values"].get(measure) is not None)
    if len(values) == 1 and measure in results[0]["scores"]:
        score = results[0]["scores"][measure]
        return Cell(values, score["low"], score["high"])
    half, mean = half_width(values), float(np.mean(values)) if values else 0.0
    return Cell(values) if half is None else Cell(values, mean - half, mean + half)


def _compared(cell: Cell, base: Cell, p_sentences: float | None, published: float | None) -> Cell:
    if cell.mean is None or base.mean is None:
        return cell
    difference, p_seeds = cell.mean - base.mean, welch(cell.values, base.values)
    return replace(cell, difference=difference, p_seeds=p_seeds, p_sentences=p_sentences, published=published)


@dataclass
class _Tests:
    """Paired tests over sentences of the rows' outputs."""

    study: Study
    folder: Path
    plugins: Plugins
    samples: int

    def p_sentences(self, measure: str, first: str, row: str) -> float | None:
        """The p-value of the difference; None unless both rows have outputs for the same sentences and seeds.

        Rows with different seeds are compared by those that both have; a row with one job, such as an ensemble, with
        every seed of the other.
        """
        one, two = self._outputs(first), self._outputs(row)
        if len(two) == 1:
            two = dict.fromkeys(one, next(iter(two.values())))
        elif len(one) == 1:
            one = dict.fromkeys(two, next(iter(one.values())))
        pairs = []
        for seed in sorted(one.keys() & two.keys()):
            a, b = one[seed], two[seed]
            if a is None or b is None or a["refs"] != b["refs"]:
                return None
            pairs.append((a, b))
        if not self.samples or not pairs:
            return None
        hyps = [[hyp for pair in pairs for hyp in pair[side]["hyps"]] for side in (0, 1)]
        refs = [[ref for a, _ in pairs for ref in a["refs"]]]
        for metric in build_metrics(self._task(), self.plugins.registry):
            if metric.name == measure:
                return compare(metric, {"first": hyps[0], "row": hyps[1]}, refs, self.samples)[1].p_value
        return None

    def _outputs(self, row: str) -> dict[int, dict[str, Any] | None]:
        """Seed -> outputs."""
        return {job.seed: self._read(job) for job in self.study.jobs[row]}

    def _read(self, job: Job) -> dict[str, Any] | None:
        result = job.result(self.folder)  # which describes the file of outputs, if there is one
        path = job.outputs_path(self.folder)
        return read_json(path) if result is not None and path.name in result["files"] else None

    def _task(self) -> Task:
        """The task of the first row, for its metrics."""
        config = compose(Config, [next(iter(self.study.jobs.values()))[0].train[0]], self.plugins).config
        task: Task = self.plugins.registry.get("task", config.task.name).build(config.task)
        return task


def _main_metric(config: StudyConfig, results: Sequence[Mapping[str, Any]]) -> list[str]:
    scored = {name for result in results for name in result["scores"]}
    return [measure for measure in config.measures if measure in scored][:1]


def _unknown_measure(config: StudyConfig, results: Sequence[Mapping[str, Any]]) -> str:
    """An error about a measure that no run reports, perhaps because its row is not finished; empty: there is none."""
    known = {name for result in results for name in result["values"]}
    for measure in (*config.measures, *config.compare):
        if results and measure not in known:
            return f"measures: {measure}: no run gives it.{did_you_mean(measure, known)}"
    return ""


def _notes(config: StudyConfig, study: Study, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader needs to judge the numbers."""
    seeds = "; ".join(
        [_listed(config.seeds), *(f"{row.name}: {_listed(row.seeds)}" for row in study.rows if row.seeds)]
    )
    notes = [f"Seeds: {seeds}. Intervals: 95%, {_interval_kind(study, config.samples)}."]
    scores = {(name, s["signature"]) for r in results for name, s in r["scores"].items() if name in config.measures}
    notes += [f"{name}: {signature}" for name, signature in sorted(scores)]
    if results:
        split, n = config.evaluate.split, config.evaluate.sentences
        decoded = f"the first {n:,} sentences" if n else "all sentences"
        notes.append(f"Decoded: {decoded} of {split}, checkpoint {config.evaluate.checkpoint}.")
    return notes + [f"Machine: {machine}." for machine in sorted({r["machine"] for r in results})]


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _test_notes(lines: Sequence[Line]) -> list[str]:
    """How differences were tested, and what a verdict means."""
    cells = [cell for line in lines for cell in line.cells.values()]
    n = max((sum(line.cells[m].p_holm is not None for line in lines) for m in lines[0].cells), default=0)
    notes = [f"p over seeds: Welch's test, corrected for {n} rows by Holm's method."] if n else []
    return [*notes, VERDICTS] if any(cell.verdict for cell in cells) else notes


def _interval_kind(study: Study, samples: int) -> str:
    one_seed = f"over sentences by bootstrap of {samples:,} samples"
    if all(len(jobs) == 1 for jobs in study.jobs.values()):
        return one_seed
    return f"of the mean over seeds by Student's t; of a single finished seed {one_seed}"
