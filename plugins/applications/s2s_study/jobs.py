"""Jobs of a study: one run for each row and seed, named by what it computes, so that a finished one is reused.

OUTPUT/jobs/NAME.yaml        the run's whole configuration      NAME.json         the job
            NAME.result.json its result, with a checksum        NAME.outputs.txt  the decoded outputs
            NAME.log         the output of its processes        NAME.manifest.json  the sha256 of NAME.yaml
OUTPUT/runs/NAME/            the run                            OUTPUT/table.md, .tex, .csv, .html
"""

from __future__ import annotations

__all__ = ["Study", "plan"]

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from s2s import ConfigError, DataError, Plugins
from s2s.checkpoint import steps
from s2s.compose import ComposedConfig, compose, to_yaml
from s2s.config import Config
from s2s.io import read_manifest, write_file, write_manifest
from s2s_study import StudyConfig
from s2s_study.examples import InputCheck
from s2s_study.job_spec import Job, anywhere, text_hash
from s2s_study.rows import Row, rows_of


@dataclass(frozen=True)
class Study:
    """The rows of a study, and their jobs."""

    rows: list[Row]
    jobs: dict[str, list[Job]]
    """Row -> its jobs, one for each seed; one in all for an ensemble"""

    def stages(self) -> list[list[Job]]:
        """Jobs that may run at the same time, each once; a stage depends on those before it.

        The first seed of every row comes first, so that the table soon covers all rows.
        """
        by_seed = itertools.zip_longest(*self.jobs.values())
        left = {job.name: job for jobs in by_seed for job in jobs if job}
        done: set[str] = set()
        stages = []
        while left:
            ready = [job for job in left.values() if done.issuperset(job.needs)]
            stages.append(ready)
            done |= {job.name for job in ready}
            left = {name: job for name, job in left.items() if name not in done}
        return stages


def plan(config: StudyConfig, plugins: Plugins, local: Sequence[str], output: Path, steps: int | None = None) -> Study:
    """Compose every run before any begins, and write its configuration; results of other data raise ConfigError.

    local: the user's own plugins. steps: train for this many updates instead of train.steps, from which the run's name
    and schedule still follow; a later job may continue the run.
    """
    (output / "jobs").mkdir(parents=True, exist_ok=True)
    rows, jobs = rows_of(config), dict[str, list[Job]]()
    check = InputCheck(plugins, output / "jobs")
    for row in rows:
        if row.ensemble_of:
            jobs[row.name] = [_ensemble(row, jobs[row.ensemble_of])]
        else:
            make = _JobFactory(config, plugins, local, output, steps, check)
            seeds = row.seeds or config.seeds
            jobs[row.name] = [make(row, seed, *_before(row, seed, jobs)) for seed in seeds]
    return Study(rows, jobs)


def _before(row: Row, seed: int, jobs: Mapping[str, Sequence[Job]]) -> list[Job | None]:
    """The job from whose run the row's job of this seed starts, and the one that it waits for; raises ConfigError."""
    found: list[Job | None] = []
    for link, name in (("init_from_row", row.init_from_row), ("after_row", row.after_row)):
        job = next((job for job in jobs.get(name, []) if job.seed == seed), None)
        if name and job is None:
            raise ConfigError(f"rows: {row.name}: {link}={name}: that row has no seed {seed}; give this row its seeds")
        found.append(job)
    return found


def _evaluate(shared: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """The study's `evaluate`, overridden by the row's own."""
    return {**shared, **row.evaluate, "options": {**shared["options"], **row.evaluate.get("options", {})}}


def _ensemble(row: Row, members: Sequence[Job]) -> Job:
    runs = [run for job in members for run in job.runs]
    if len(runs) < 2:
        raise ConfigError(f"rows: {row.name}: an ensemble_of {row.ensemble_of} needs two seeds or more")
    study = Path(runs[0]).parent.parent
    name = _name(_slug(row.name), " ".join(runs), study, ".json")
    needs = [job.name for job in members]
    evaluate = _evaluate(members[0].evaluate, row)
    return replace(members[0], name=name, row=row.name, seed=0, train=[], runs=runs, needs=needs, evaluate=evaluate)


@dataclass(frozen=True)
class _JobFactory:
    """Makes a job from a row and a seed."""

    config: StudyConfig
    plugins: Plugins
    local: Sequence[str]
    output: Path
    steps: int | None
    check_inputs: InputCheck

    def __call__(self, row: Row, seed: int, start: Job | None, before: Job | None) -> Job:
        folder, study = self.output.absolute(), self.config
        composed = self._composed(row, seed, start)
        whole = composed.config
        # hash only what is given, so that options added in later versions do not change the names of finished runs
        run = _name(f"{_slug(row.name)}-{seed}", to_yaml(composed.explicit), folder, ".yaml")
        name = run if self.steps is None else f"{run}-{self.steps}"
        path = folder / "jobs" / f"{run}.yaml"
        if start and not steps(folder / "runs" / run / "checkpoints"):
            path.unlink(
                missing_ok=True
            )  # the study may have been moved, and with it the run from which this one starts
        _write_once(path, to_yaml(replace(whole, run="")))
        local = [f"plugins=[{','.join(self.local)}]"] if self.local else []
        given_steps = [] if self.steps is None else [f"train.steps={self.steps}"]
        directory = str(folder / "runs" / run)
        job = Job(
            name=name,
            row=row.name,
            seed=seed,
            train=[str(path), f"run={directory}", *given_steps, *local],
            runs=[directory],
            evaluate=_evaluate(asdict(study.evaluate), row),
            samples=study.samples,
            plugins=list(self.local),
            tflops=study.device_tflops,
            steps=whole.train.steps,
            needs=[needed.name for needed in (start, before) if needed],
            commands=list(row.commands),
        )
        self.check_inputs(job, whole)
        return job

    def _composed(self, row: Row, seed: int, start: Job | None) -> ComposedConfig[Config]:
        """Base, then row, then seed; an error names the file."""
        sources = {"base": self.config.base, f"row-{_slug(row.name)}": row.settings}
        files = []
        for name, settings in sources.items():
            path = self.output / "jobs" / f"{name}.yaml"
            text = to_yaml(settings).replace("{output}", str(self.output)).replace("{seed}", str(seed))
            write_file(path, text)
            files.append(str(path))
        links = [f"train.init_from={start.runs[0]}"] if start else []
        composed = compose(Config, [*files, f"seed={seed}", *links], self.plugins, complete=True)
        if composed.config.run:
            raise ConfigError(
                f"rows: {row.name}: run={composed.config.run}: a study names its runs itself; leave run out"
            )
        return composed


def _name(prefix: str, text: str, study: Path, ending: str) -> str:
    """The name of a job with the hash of `text`, the same wherever the study lies; or that of an earlier version, whose
    file is in the study."""
    earlier, name = (f"{prefix}-{text_hash(one)[:8]}" for one in (text, anywhere(text, str(study))))
    return earlier if (study / "jobs" / f"{earlier}{ending}").is_file() else name


def _write_once(path: Path, text: str) -> None:
    """Write a file and its manifest, unless they are there; raises DataError if it is not as it was written."""
    manifest = path.with_suffix(".manifest.json")
    if not os.path.lexists(path):
        write_file(path, text)
        write_manifest(manifest, {}, [path.name])
    try:
        read_manifest(manifest)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not as s2s-study wrote it ({error}); remove it, and it is written again") from None


def _slug(name: str) -> str:
    """A name that is safe in files, runs and shells."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "row"
