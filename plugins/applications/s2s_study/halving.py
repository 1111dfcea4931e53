"""Successive halving (Jamieson & Talwalkar, 2016): all trials for a few updates, the best of them for more, and so on.

A surviving trial continues from its last checkpoint, so that no update is made twice. Whatever depends on train.steps,
such as the length of a cosine, stays that of the whole run.
"""

from __future__ import annotations

__all__ = ["halve", "rungs", "survivors"]

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s_study.jobs import Study, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from s2s import Plugins
    from s2s_study import StudyConfig, TuneConfig

LESS_IS_BETTER = ("nll", "ppl", "hours", "flops", "paper_flops", "memory", "parameters")


def rungs(tune: TuneConfig, n_trials: int, steps: int) -> list[int]:
    """The number of updates at each rung; the last is `steps`."""
    n_choices = math.ceil(math.log(n_trials, tune.eta) - 1e-9)
    first = tune.first or max(steps // tune.eta**n_choices, 1)
    found = []
    while first < steps:
        found.append(first)
        first *= tune.eta
    return [*found, steps]


def halve(
    config: StudyConfig, run: Callable[[Study], None], plugins: Plugins, local: Sequence[str], output: Path
) -> tuple[StudyConfig, Study]:
    """Run all rungs but the last; the study of the surviving trials, with tune.measure among its columns."""
    whole = plan(config, plugins, local, output)
    steps = _steps(whole)
    rows = whole.rows
    for rung in rungs(config.tune, len(rows), steps)[:-1]:
        made = plan(config, plugins, local, output, steps=rung)
        study = Study(rows, {row.name: made.jobs[row.name] for row in rows})
        run(study)
        results = {name: [job.result(output / "jobs") for job in jobs] for name, jobs in study.jobs.items()}
        kept = survivors(config.tune, results)
        rows = [row for row in rows if row.name in kept]
    last = plan(config, plugins, local, output, steps=steps)
    measures = list(dict.fromkeys([*config.measures, config.tune.measure]))
    return replace(config, measures=measures), Study(rows, {row.name: last.jobs[row.name] for row in rows})


def _steps(study: Study) -> int:
    """train.steps, which must be the same for all trials."""
    found = {job.steps for jobs in study.jobs.values() for job in jobs}
    if len(found) > 1:
        raise ConfigError(f"train.steps differs among the trials ({sorted(found)}); halving needs one number for all")
    return found.pop()


def survivors(tune: TuneConfig, results: Mapping[str, Sequence[Mapping[str, Any] | None]]) -> list[str]:
    """The best 1 / eta of the rows, at least one, by the mean of the measure over seeds; failed rows are excluded."""
    scores = {}
    for name, found in results.items():
        values = [r["values"].get(tune.measure) for r in found if r is not None]
        if values and len(values) == len(found) and None not in values:
            sign = _sign(tune.measure, [r for r in found if r is not None])
            scores[name] = sign * math.fsum(value for value in values if value is not None) / len(values)
    if not scores:
        raise ConfigError(f"tune.measure={tune.measure}: no trial gives it; see the logs of the jobs")
    best = sorted(scores, key=lambda name: -scores[name] if not math.isnan(scores[name]) else math.inf)
    return best[: max(len(results) // tune.eta, 1)]


def _sign(measure: str, results: Sequence[Mapping[str, Any]]) -> int:
    score = results[0]["scores"].get(measure)
    better = score["higher_is_better"] if score else measure not in LESS_IS_BETTER
    return 1 if better else -1
