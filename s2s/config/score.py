"""The options of s2s-score."""

from __future__ import annotations

__all__ = ["ScoreConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s.config.ranges import at_least, check_all_used, check_ranges
from s2s.errors import ConfigError
from s2s.registry import Choice


@dataclass(kw_only=True)
class ScoreConfig:
    """s2s-score: score outputs against references, or by a model's probability.

    s2s-score hyp=output.txt ref=reference.txt
    s2s-score hyp=[a.txt,b.txt] ref=reference.txt metrics=bleu
    s2s-score model=my_run src=input.txt ref=reference.txt per_sentence=true
    s2s-score model=my_run contrastive=pronouns.jsonl
    """

    task: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    """The task whose metrics are used; with `model`, the run's. Without any, outputs are texts: bleu, chrf."""
    hyp: Any = ""
    """File of outputs, one per line; a list of several compares them with the first."""
    ref: Any = ""
    """File of references, one per line; a list of several gives each sentence several references."""
    model: Any = ""
    """A run, as s2s-generate takes it, or several as model=[a,b]: scores each line of the files in `hyp` and `ref` as
    an output for the same line of `src`, by log-probability and perplexity under each model."""
    model_checkpoint: str = "auto"
    """Checkpoint of the model: auto (the average, unless it validated worse than the best; else the best, else the
    last), average, best, last, or a name or path."""
    src: str = ""
    """File of inputs for the model, one per line."""
    contrastive: str = ""
    """JSON lines of cases for the model, {"src": …, "ref": …, "contrastive": [wrong outputs], "context": [previous
    sentences], "phenomenon": …}, the last two where there are any: how often `ref` is the most probable output, in all
    cases and by phenomenon, with Wilson's 95% interval."""
    tokens: int = 4000
    """Tokens of both sides in one batch of the model, padding counted."""
    device: str = "auto"
    """Device of the model: auto, cpu, cuda, mps, xpu, or a plugin's device; cuda:1 is the second of its type."""
    metrics: Any = None
    """Metrics by name, or with options as in {name: bleu, tokenize: intl}; null: those of the task."""
    metric_options: dict[str, Any] = field(default_factory=dict, metadata={"takes_others": True})
    """Options of metrics, each by its own name on the command line, such as lowercase=true; applies to every metric
    that has the option, unless `metrics` sets it."""
    per_sentence: bool = False
    """Also print the score of each sentence by every metric, or by the model; like any boolean option, it can be given
    as --per-sentence."""
    format: Literal["text", "json"] = "text"
    """Format of the output."""
    samples: int = 1000
    """Bootstrap samples for the 95% interval and for comparisons; 0: none."""
    seed: int = 12345
    """Seed of the bootstrap."""
    paired_test: Literal["bootstrap", "randomization"] = "bootstrap"
    """Test of the difference between two systems: paired bootstrap, or paired approximate randomisation, whose trials
    are as many as `samples`; sacrebleu's default of the second is 10_000."""

    def __post_init__(self) -> None:
        check_ranges("", self, samples=at_least(0, 1_000_000), seed=at_least(1), tokens=at_least(1))
        if self.contrastive and (self.src or self.hyp or self.ref):
            raise ConfigError(f"contrastive={self.contrastive} has sources and outputs; give no src, hyp and ref")
        if bool(self.model) != bool(self.src or self.contrastive):
            raise ConfigError(
                f"model={self.model} src={self.src} contrastive={self.contrastive}: give a model with one of the "
                "others, for the probability of outputs, or none of them, for metrics"
            )
        check_all_used(self, "paired_test", "samples above 0", self.samples)
        for option in ("model_checkpoint", "tokens", "device"):
            check_all_used(self, option, "model", self.model)
