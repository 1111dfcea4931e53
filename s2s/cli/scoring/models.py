"""s2s-score model=RUN: the probability of given outputs under models."""

from __future__ import annotations

__all__ = ["score_with_models"]

import json
from typing import TYPE_CHECKING, Any

from s2s.cli.scoring.aligned_files import names, stream_aligned
from s2s.cli.scoring.contrastive import Accuracies, judged_cases, read_cases
from s2s.cli.scoring.contrastive_report import contrastive_json, contrastive_lines
from s2s.cli.scoring.model_report import JsonReport, ScoredOutput, ScoreReport, TextReport
from s2s.cli.scoring.total import Total
from s2s.data.context import in_documents
from s2s.distributed import pick_device
from s2s.errors import ConfigError, DataError
from s2s.generation import score
from s2s.io.paths import expand_user
from s2s.run import Run, find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from s2s.cli.command import Options
    from s2s.compose import ComposedConfig
    from s2s.config.score import ScoreConfig
    from s2s.plugin import Plugins
    from s2s.task import Example


def score_with_models(composed: ComposedConfig[ScoreConfig], plugins: Plugins, options: Options) -> None:
    """Print the scores of every file of `hyp` and `ref` under every model."""
    config = composed.config
    _check_others(composed)
    models = names(config.model, "model", "a run")
    if config.contrastive:
        return _score_cases(models, config, plugins, options)
    files = [path for key in ("hyp", "ref") for path in _files(getattr(config, key), key)]
    if not files:
        raise ConfigError(f"model={config.model}: of which outputs? Give hyp=FILE, ref=FILE or both")
    n_sentences, pairs = stream_aligned(config.src, files)
    if options.dry_run:
        return print(f"{n_sentences:,} sentences, {len(files)} files, {len(models)} models: ready")
    form = JsonReport if config.format == "json" else TextReport
    report: ScoreReport = form(n_sentences, config.per_sentence)
    device = pick_device(config.device, "device")
    for name in models:
        run = Run.load(find_model(name, plugins, "model"), config.model_checkpoint, plugins, device)
        report.model(name, run.checkpoint_path.name)
        for path in files:
            total = Total()
            report.file(path, _judged(run, pairs, path, config, total), total)
    return report.end()


def _score_cases(models: Sequence[str], config: ScoreConfig, plugins: Plugins, options: Options) -> None:
    """Print how often each model finds the reference of a case the most probable output."""
    cases = read_cases(expand_user(config.contrastive, "contrastive"))
    if options.dry_run:
        return print(f"{len(cases):,} cases, {len(models)} models: ready")
    device, results = pick_device(config.device, "device"), []
    for name in models:
        run = Run.load(find_model(name, plugins, "model"), config.model_checkpoint, plugins, device)
        judged = list(judged_cases(run, cases, device, config.tokens))
        accuracies, shown = Accuracies.count(judged), judged if config.per_sentence else []
        of = {"model": name, "checkpoint": run.checkpoint_path.name}
        results.append({**of, **contrastive_json(accuracies, shown)})
        if config.format == "text":
            head = f"accuracy  model:{name}|checkpoint:{of['checkpoint']}|by:log p|context:{run.task.context}"
            print(head, *contrastive_lines(accuracies, shown), sep="\n")
    if config.format == "json":
        print(json.dumps({"cases": len(cases), "scores": results}, ensure_ascii=False, indent=2))
    return None


def _judged(
    run: Run, pairs: Callable[[str], Iterator[Example]], path: str, config: ScoreConfig, total: Total
) -> Iterator[ScoredOutput]:
    device = next(run.model.parameters()).device
    examples = pairs(path)
    if run.task.context:
        examples = in_documents(examples, run.task.context, path, blank_ends=True)
    scored = score(run.model, run.task, examples, device, config.tokens)
    for example in pairs(path):
        try:
            one = next(scored)
        except DataError as error:
            raise DataError(f"{config.src} and {path}, {error}") from None
        total.add(one, example.tgt)
        yield ScoredOutput(one, run.task.pieces(one.tokens, example.src) if config.per_sentence else [])


def _files(value: Any, key: str) -> list[str]:
    return names(value, key, "a file") if value else []


def _check_others(composed: ComposedConfig[ScoreConfig]) -> None:
    """Raise ConfigError for options that only apply to metrics, rather than ignore them silently."""
    config = composed.config
    for key in config.metric_options:
        raise ConfigError(f"{key}: no such option of s2s-score with model={config.model}")
    if config.metrics is not None or composed.explicit.get("task"):
        key = "task" if config.metrics is None else "metrics"
        raise ConfigError(f"model={config.model} and {key}: the task is the run's, and no metric is taken; give one")
