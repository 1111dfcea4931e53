"""s2s-score: outputs against references, systems against each other, or the probability of outputs under models."""

from __future__ import annotations

__all__ = ["main"]

import logging
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.cli.scoring.aligned_files import names, read_aligned
from s2s.cli.scoring.report import as_json, as_text
from s2s.config.score import ScoreConfig
from s2s.errors import ConfigError
from s2s.lasting import lasting_objects
from s2s.metrics import build_metrics, compare
from s2s.run import find_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import ComposedConfig
    from s2s.plugin import Plugins


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(ScoreConfig, score, argv)


def score(composed: ComposedConfig[ScoreConfig], plugins: Plugins, options: Options) -> None:
    """Print every metric of every system, the first being the baseline, or the log-probabilities of every file."""
    config = composed.config
    logging.basicConfig(format="warning: %(message)s")
    if config.model:
        for name in names(config.model, "model", "a run"):
            find_model(name, plugins, "model")
        with lasting_objects():
            from s2s.cli.scoring.models import score_with_models  # torch comes with it, and metrics do without

        return score_with_models(composed, plugins, options)
    task = plugins.registry.get("task", config.task.name).build(config.task) if config.task.name else None
    systems, refs = read_aligned(config.hyp, config.ref, task.as_object if task else str)
    own = [item.name for item in fields(ScoreConfig)]
    metrics = build_metrics(task, plugins.registry, config.metrics, config.metric_options, own)
    if not metrics:
        raise ConfigError(f"task={config.task.name} names no metrics; give some, as in metrics=[bleu,chrf]")
    if options.dry_run:
        return print(f"{len(refs[0]):,} sentences, {len(systems)} systems, {len(metrics)} metrics: ready")
    results = [
        compare(metric, systems, refs, config.samples, config.seed, test=config.paired_test) for metric in metrics
    ]
    if config.per_sentence:
        results = [
            [replace(c, sentences=metric.per_sentence(systems[c.system], refs)) for c in compared]
            for metric, compared in zip(metrics, results, strict=True)
        ]
    report = as_json if config.format == "json" else as_text
    return print(report(results, len(refs[0]), len(refs)))
