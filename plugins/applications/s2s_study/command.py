"""s2s-study: many runs of one experiment, and their table."""

from __future__ import annotations

__all__ = ["main"]

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import ConfigError, DataError, load_plugins
from s2s.cli import Options, check_output, run_command
from s2s.compose import entry_config
from s2s.io import expand_user, write_output
from s2s_study import StudyConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Plugins
    from s2s.compose import ComposedConfig
    from s2s_study import Engine
    from s2s_study.job_spec import Job
    from s2s_study.jobs import Study


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the name of a shipped study stands for its file."""
    arguments = sys.argv[1:] if argv is None else argv
    return run_command(StudyConfig, run_study, [_file_of(argument) for argument in arguments])


def _file_of(argument: str) -> str:
    if not argument.isidentifier():
        return argument
    preset = load_plugins().registry.presets.get(("study", argument))
    return str(preset.source) if preset and isinstance(preset.source, Path) else argument


def run_study(composed: ComposedConfig[StudyConfig], plugins: Plugins, options: Options) -> int:
    """Run the unfinished jobs, write the tables, and print one; 1 if a job has failed."""
    from s2s_study.halving import halve
    from s2s_study.jobs import plan
    from s2s_study.table import FORMATS

    config, local = composed.config, composed.local_plugins
    output = _output(config, composed.arguments)
    tables = [output / f"table.{ending}" for ending in FORMATS]
    check_output(composed, "output", tables, overwrite=config.overwrite)
    config = replace(config, title=config.title or output.name)
    runner = Runner(config, output, plugins, quiet=options.quiet)
    if config.tune.method == "halving" and not options.dry_run:
        config, study = halve(config, runner.run, plugins, local, output)
    else:
        study = plan(config, plugins, local, output)
    if options.dry_run:
        return runner.describe(study)
    runner.run(study)
    return runner.report(config, study, show=not options.quiet)


def _remove(path: Path) -> None:
    """Remove a file, or whatever is in its place; raises DataError for a folder."""
    if path.is_dir() and not path.is_symlink():
        raise DataError(f"{path} is a folder, where a result should be; remove it")
    path.unlink(missing_ok=True)


def _output(config: StudyConfig, arguments: Sequence[str]) -> Path:
    if config.output:
        return expand_user(config.output, "output")
    files = [Path(a).stem for a in arguments if "=" not in a and a.endswith((".yaml", ".yml"))]
    if not files:
        raise ConfigError("no study is named; give a file, as in s2s-study my_study.yaml, or output=FOLDER")
    return Path("studies") / files[0]


class Runner:
    """Runs studies in one folder."""

    def __init__(self, config: StudyConfig, output: Path, plugins: Plugins, *, quiet: bool) -> None:
        self.config, self.output, self.plugins, self.quiet = config, output, plugins, quiet
        self.folder = output / "jobs"
        entry = plugins.registry.get("study_engine", config.engine)
        self.engine: Engine = entry.build(entry_config(entry, config.engine_options, "engine_options"))

    def run(self, study: Study) -> None:
        """Run all unfinished jobs, stage by stage; jobs that depend on a failed one are skipped."""
        for job in (job for jobs in study.jobs.values() for job in jobs):
            if damage := job.damage(self.folder):
                what = "left out" if self.config.only_table else "made again"
                print(f"s2s-study: warning: {damage}; it is {what}", file=sys.stderr, flush=True)
        if self.config.only_table:
            return
        for stage in study.stages():
            ready = [job for job in stage if job.result(self.folder) is None and self._has_all(study, job)]
            if ready:
                files = [job.write(self.folder) for job in ready]
                for job in ready:  # of another version of the job
                    _remove(job.result_path(self.folder))
                self.engine.run(files, self.config.jobs, lambda path: self.ended(study, path))

    def _has_all(self, study: Study, job: Job) -> bool:
        needed = [other for jobs in study.jobs.values() for other in jobs if other.name in job.needs]
        return all(other.result(self.folder) is not None for other in needed)

    def ended(self, study: Study, path: Path) -> None:
        """Print the result of a job."""
        job = next(job for jobs in study.jobs.values() for job in jobs if job.name == path.stem)
        result = job.result(self.folder)
        done, total = self.count(study)
        if result is None:
            log = self.folder / f"{job.name}.log"
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] if log.is_file() else []
            print(f"s2s-study: {job.name} failed: {' '.join(last)} (see {log})", file=sys.stderr, flush=True)
        elif not self.quiet:
            values = [(m, result["values"].get(m)) for m in self.config.measures]
            shown = "  ".join(f"{measure} {value:.5g}" for measure, value in values if value is not None)
            print(f"{done}/{total}  {job.row}, seed {job.seed}: {shown}", flush=True)

    def count(self, study: Study) -> tuple[int, int]:
        """The number of finished jobs, and of all jobs."""
        finished = {job.name: job.result(self.folder) is not None for jobs in study.jobs.values() for job in jobs}
        return sum(finished.values()), len(finished)

    def describe(self, study: Study) -> int:
        """Print the state of every job, for a dry run."""
        for jobs in study.jobs.values():
            for job in jobs:
                print("finished " if job.result(self.folder) else "to do    ", job.name)
        print("{} of {} jobs are finished".format(*self.count(study)))
        return 0

    def report(self, config: StudyConfig, study: Study, *, show: bool) -> int:
        """Write the tables."""
        from s2s_study.results import collect
        from s2s_study.table import FORMATS, markdown, table

        report_table = table(config.title, config.measures, *collect(config, study, self.folder, self.plugins))
        for ending, write in FORMATS.items():
            write_output(self.output / f"table.{ending}", write(report_table).encode())
        done, total = self.count(study)
        if show:
            print(
                f"\n{markdown(report_table)}\n{done} of {total} jobs are finished; "
                f"{self.output}/table.md, .tex, .csv, .html"
            )
        return 0 if done == total or config.only_table else 1
