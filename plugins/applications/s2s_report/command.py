"""s2s-report: one page of HTML about a run."""

from __future__ import annotations

__all__ = ["main", "write_training_report"]

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.cli import Options, check_output, run_command
from s2s.io import write_file, write_output
from s2s.run import find_run
from s2s_report import ReportConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s import Plugins, TrainedModel, TrainerView
    from s2s.compose import ComposedConfig
    from s2s_report.document import Block, Section
    from s2s_report.outcome import DataStatistics, Outcome


MADE_BY = "Made by: "
"""Before the command, in what s2s-report writes"""
MORE = "With outputs, scores and sentences: "
"""The same in the report that ends a run"""
SPLITS = {"test": "test", "valid": "development"}


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(ReportConfig, report, argv)


def report(composed: ComposedConfig[ReportConfig], plugins: Plugins, options: Options) -> None:
    """Load the runs, decode, compare, and write both files."""
    config = composed.config
    if config.hyp:
        return _report_files(composed, plugins, options)
    directories = {Path(find_run(run)).name: find_run(run) for run in config.runs}
    if len(directories) < len(config.runs):
        raise ConfigError(f"run=[{','.join(config.runs)}]: two of them have one name")
    target = _target(composed, next(iter(directories.values())))
    if options.dry_run:
        return None
    from s2s import load  # torch

    # Not the backend that measures fastest at the moment, which may rank the alternatives in another order.
    models = {name: load(str(directory), matmul="exact") for name, directory in directories.items()}
    sections = _sections(config, plugins, models, directories)
    return _finish(target, f"{', '.join(directories)}: report", sections, options)


def _report_files(composed: ComposedConfig[ReportConfig], plugins: Plugins, options: Options) -> None:
    """Compare outputs in files, and write both files."""
    from s2s_report import outcome_sections as of_outputs
    from s2s_report.document import Section, Text
    from s2s_report.text_files import file_statistics, read_outcome

    config = composed.config
    target = _target(composed, Path())
    outcome = read_outcome(config, plugins)
    if options.dry_run:
        return
    said = of_outputs.verdict(outcome, Path(config.ref).name)
    sections = [Section("Verdict", [Text(said, strong=True), Text(f"{MADE_BY}{again(config)}")])]
    sections += _score_sections(outcome)
    sections += _outcome_sections(outcome, config, file_statistics(config, outcome), {})
    _finish(target, f"{', '.join(outcome.outputs)}: report", sections, options)


def _target(composed: ComposedConfig[ReportConfig], folder: Path) -> Path:
    """Where the files go, without extensions; raises ConfigError if something is there that may not be replaced."""
    config, default = composed.config, folder / "report"
    target = Path(config.output) if config.output else default
    if target != default or not (folder / "resolved.yaml").is_file():  # the report in a run is its own
        check_output(composed, "output", _files(target), overwrite=config.overwrite)
    return target


def _files(target: Path) -> list[Path]:
    return [target.with_name(f"{target.name}{ending}") for ending in (".html", ".md")]


def _finish(target: Path, title: str, sections: list[Section], options: Options) -> None:
    is_of_run = (target.parent / "resolved.yaml").is_file()
    _write(target, title, sections, write_file if is_of_run else write_output)
    if not options.quiet:
        print(f"written  {target}.html and {target}.md")


def _score_sections(outcome: Outcome) -> list[Section]:
    from s2s_report import outcome_sections as of_outputs
    from s2s_report.detail_section import detail_section

    parts = detail_section(outcome.compared[0])
    return [of_outputs.score_section(outcome), *([parts] if parts else [])]


def _outcome_sections(
    outcome: Outcome, config: ReportConfig, statistics: DataStatistics, models: dict[str, TrainedModel]
) -> list[Section]:
    """About outputs behind their scores: sentences, groups, words and n-grams, and signs of hallucination."""
    from s2s_report import outcome_sections as of_outputs
    from s2s_report.brackets import read
    from s2s_report.sentence_sections import sentence_sections
    from s2s_report.word_sections import ngram_section, word_section

    sections = sentence_sections(outcome, config, models)
    if len(outcome.parts) == 1:  # lengths and frequencies in several languages are not comparable
        sections.append(of_outputs.bucket_section(outcome, statistics, config.samples))
    if not read(outcome.examples[0].tgt):  # n-grams of brackets say nothing
        words = word_section(outcome, statistics, config.samples)
        sections += [*([words] if statistics.n_pairs else []), ngram_section(outcome, config.shown)]
    if any(example.src for example in outcome.examples):
        sections.append(of_outputs.flag_section(outcome, config.shown))
    return sections


def _sections(
    config: ReportConfig, plugins: Plugins, models: dict[str, TrainedModel], directories: dict[str, Path]
) -> list[Section]:
    from s2s.run import Run
    from s2s_report import outcome_sections as of_outputs
    from s2s_report import training_sections as of_training
    from s2s_report.document import Section, Text
    from s2s_report.ledger_section import ledger_section
    from s2s_report.outcome import DataStatistics, decode, read_statistics
    from s2s_report.run_log import read_log

    logs = [read_log(directory) for directory in directories.values()]
    first = next(iter(models.values()))
    left_out = _left_out(config, first, next(iter(directories.values())))
    outcome = decode(models, config, plugins) if config.sentences and not left_out else None
    statistics = read_statistics(first.task, config.pairs) if config.pairs and not left_out else DataStatistics()
    criteria = [model.config.valid.best for model in models.values()]
    said = [of_training.training_verdict(*of) for of in zip(logs, criteria, strict=True)]
    said = [of_outputs.verdict(outcome, f"the {SPLITS[config.split]} set"), *said] if outcome else said
    said += [left_out] if left_out else []
    origins = {name: Run.read_origin(directory) for name, directory in directories.items()}
    said += [f"{name}: {origin.sentence()}" for name, origin in origins.items() if origin]
    verdict: list[Block] = [
        *(Text(each, strong=i == 0) for i, each in enumerate(said)),
        Text(f"{MADE_BY}{again(config)}"),
    ]
    sections = [Section("Verdict", verdict), *(_score_sections(outcome) if outcome else [])]
    sections.append(of_training.curves(logs))
    if outcome:
        sections += _outcome_sections(outcome, config, statistics, models)
    sections += [of_outputs.data_section(statistics, config.pairs), ledger_section(logs)]
    sections.append(of_training.cost(logs, {name: n_parameters(model, plugins) for name, model in models.items()}))
    sections.append(of_training.configuration({name: model.config for name, model in models.items()}))
    return sections


def _left_out(config: ReportConfig, model: TrainedModel, directory: Path) -> str:
    """What the report lacks since the run names texts elsewhere, in a sentence that is shown, too; empty: nothing."""
    from s2s.run import outside_files

    outside = [] if config.outside else outside_files(model.task, directory)
    if not outside or not (config.sentences or config.pairs):
        return ""
    more = f" and {len(outside) - 1:,} more" if len(outside) > 1 else ""
    said = (
        f"Left out: outputs, scores and statistics of the data, since {directory.name} names {outside[0]}{more}, "
        "outside of the working folder and its own; outside=true reads them"
    )
    print(f"warning: {said}", file=sys.stderr)
    return said


def n_parameters(model: TrainedModel, plugins: Plugins) -> int:
    """Parameters of a run as it was trained: the loaded model's own weights may be in the layout of another library."""
    import torch

    with torch.device("meta"):
        trained = plugins.hook.s2s_build_model(config=model.config, vocab=model.task.vocab, registry=plugins.registry)
    return sum(parameter.numel() for parameter in trained.parameters())


def again(config: ReportConfig) -> str:
    """The command that reproduces the report."""
    default = ReportConfig(run="any")
    what = f"hyp={_listed(list(config.files.values()))}" if config.hyp else f"run={_listed(config.runs)}"
    options = [each.name for each in fields(config) if each.name not in ("run", "hyp", "output", "overwrite")]
    changed = [(name, getattr(config, name)) for name in options if getattr(config, name) != getattr(default, name)]
    return " ".join([f"s2s-report {what}", *(f"{name}={value}" for name, value in changed)])


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"[{','.join(names)}]"


def write_training_report(trainer: TrainerView) -> None:
    """Write the report that ends every run: from its log alone, without decoding.

    A report by s2s-report, which has more, is kept: the new one has another name then.
    """
    from s2s_report.document import Section, Text
    from s2s_report.ledger_section import ledger_section
    from s2s_report.run_log import read_log
    from s2s_report.training_sections import configuration, cost, curves, training_verdict

    log, target = read_log(trainer.directory), trainer.directory / "report"
    if not all(map(_is_of_training, _files(target))):
        kept, target = target, trainer.directory / "training_report"
        trainer.log.info(f"report  {kept}.html, which has more, stays as it is; of this training: {target}.html")
    more = f"{MORE}s2s-report run={log.name}"
    verdict = Section("Verdict", [Text(training_verdict(log, trainer.config.valid.best), strong=True), Text(more)])
    size = sum(parameter.numel() for parameter in trainer.train_step.model.parameters())
    sections = [ledger_section([log]), cost([log], {log.name: size}), configuration({log.name: trainer.config})]
    _write(target, f"{log.name}: report", [verdict, curves([log]), *sections], write_file)


def _is_of_training(file: Path) -> bool:
    """Whether a file is a report that a run has ended with, or does not exist."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    except ValueError:  # no report of s2s
        return False
    return MORE in text and MADE_BY not in text


def _write(target: Path, title: str, sections: list[Section], write: Callable[[Path, bytes], None]) -> None:
    from s2s_report.attention import script
    from s2s_report.document import as_html, as_markdown

    target.parent.mkdir(parents=True, exist_ok=True)
    html, markdown = _files(target)
    write(html, as_html(title, sections, script()).encode())
    write(markdown, as_markdown(title, sections).encode())


if __name__ == "__main__":
    sys.exit(main())
