"""s2s-score model=RUN: the probability of given outputs under models."""

from __future__ import annotations

__all__ = ["score_with_models"]

from typing import TYPE_CHECKING, Any

from s2s.cli.scoring.aligned_files import names, stream_aligned
from s2s.cli.scoring.model_report import JsonReport, ScoredOutput, ScoreReport, TextReport
from s2s.cli.scoring.total import Total
from s2s.distributed import pick_device
from s2s.errors import ConfigError, DataError
from s2s.generation import score
from s2s.run import Run, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        run = Run.load(find_run(name), config.model_checkpoint, plugins, device)
        report.model(name, run.checkpoint_path.name)
        for path in files:
            total = Total()
            report.file(path, _judged(run, pairs, path, config, total), total)
    return report.end()


def _judged(
    run: Run, pairs: Callable[[str], Iterator[Example]], path: str, config: ScoreConfig, total: Total
) -> Iterator[ScoredOutput]:
    device = next(run.model.parameters()).device
    scored = score(run.model, run.task, pairs(path), device, config.tokens)
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
