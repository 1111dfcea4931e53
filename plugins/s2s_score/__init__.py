"""s2s-score: outputs against references, systems against each other, or how probable models find given outputs."""

from __future__ import annotations

__all__ = ["ScoreConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s import Choice, ConfigError
from s2s.config import at_least, refuse_outside


@dataclass(kw_only=True)
class ScoreConfig:
    """s2s-score: score outputs against references, or by a model's probability.

    s2s-score task=translation hyp=output.txt ref=reference.txt
    s2s-score task=translation hyp=[a.txt,b.txt] ref=reference.txt metrics=bleu
    s2s-score model=my_run src=input.txt ref=reference.txt --per-sentence
    """

    task: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    """The task whose metrics are used; with `model`, the run's."""
    hyp: Any = ""
    """File of outputs, one a line; a list of several compares them with the first."""
    ref: Any = ""
    """File of references, one a line; a list of several gives each sentence several references."""
    model: Any = ""
    """A run, as s2s-generate takes it, or several as model=[a,b]: log-probabilities and perplexity, under each, of the
    lines of every file of `hyp` and `ref` as outputs for those of `src`."""
    model_checkpoint: str = "auto"
    """Its checkpoint: auto (the average, else the best, else the last), average, best, last, or a name or path."""
    src: str = ""
    """File of inputs for the model, one a line."""
    tokens: int = 4000
    """Tokens of both sides in one batch of the model, padding counted."""
    device: str = "auto"
    """Where the model computes: auto, cpu, cuda, cuda:1."""
    metrics: Any = None
    """Metrics by name, or as {name: bleu, tokenize: intl} with options; null takes the task's."""
    metric_options: dict[str, Any] = field(default_factory=dict, metadata={"takes_others": True})
    """Options of metrics, each by its own name on the command line, such as lowercase=true: every metric that has it
    gets it, unless `metrics` says otherwise."""
    per_sentence: bool = False
    """Also print the score of each sentence by every metric, or by the model; like any such option, it can be given as
    --per-sentence."""
    format: Literal["text", "json"] = "text"
    """Format of the output."""
    samples: int = 1000
    """Bootstrap samples for the 95% interval and for comparisons; 0: none."""
    seed: int = 12345
    """Seed of the bootstrap."""

    def __post_init__(self) -> None:
        refuse_outside("", self, samples=at_least(0, 1_000_000), seed=at_least(1), tokens=at_least(1))
        if bool(self.model) != bool(self.src):
            raise ConfigError(
                f"model={self.model} src={self.src}: give both, for the probability of outputs, or neither, for metrics"
            )
