"""The results of runs on the same examples: outputs, scores with intervals and tests, per sentence and in buckets."""

from __future__ import annotations

__all__ = ["Bucket", "DataStatistics", "Outcome", "bucket_names", "buckets", "decode", "judged", "read_statistics"]

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import ConfigError, Example, Rejected
from s2s.generation import Output
from s2s.metrics import Comparison, Metric, build_metrics, compare
from s2s_report.text_words import text_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Plugins, Side, Task, TrainedModel
    from s2s_report import ReportConfig

ENOUGH = 30
"""Minimum sentences for which a bucket's score is shown: below, its interval would be as wide as the scale"""
LENGTHS = (1, 6, 11, 21, 31, 51)
FREQUENCIES = (0, 1, 5, 20, 100, 1000)


@dataclass(frozen=True)
class Outcome:
    """The outputs of all runs for the same examples."""

    examples: list[Example]
    outputs: dict[str, list[Output]]
    """Run -> its outputs, in the order of the examples"""
    metrics: list[Metric]
    compared: list[list[Comparison]]
    """For each metric, a comparison for every run; the first run is the baseline"""
    sentences: dict[str, list[float]]
    """Run -> the main score of every sentence"""

    @property
    def main(self) -> Metric:
        """The main metric, by which runs are judged."""
        return self.metrics[0]

    def hyps(self, name: str) -> list[str]:
        """The best outputs of a run."""
        return [output.hyp for output in self.outputs[name]]


def decode(models: Mapping[str, TrainedModel], config: ReportConfig, plugins: Plugins) -> Outcome | None:
    """Decode the first examples of the split; None if the first run has no development set.

    Raises ConfigError if it has no test set and split=test asks for it.
    """
    (first, *others) = models.values()
    for name, other in zip(list(models)[1:], others, strict=True):
        if other.task.config.name != first.task.config.name:
            raise ConfigError(
                f"run: {name} has task={other.task.config.name}, the first has task={first.task.config.name}"
            )
    examples = read_examples(first.task, config.split, config.sentences)
    if not examples and config.split == "test":
        raise ConfigError(
            "split=test: the first run has no test set; give split=valid, or outputs as files: hyp=, ref="
        )
    if not examples:
        return None
    nbest = 4 if getattr(first.config.search, "beam", 1) >= 4 else 1
    outputs = {name: list(model.generate(examples, nbest=nbest)) for name, model in models.items()}
    return judged(examples, outputs, build_metrics(first.task, plugins.registry, config.metrics), config.samples)


def judged(examples: list[Example], outputs: dict[str, list[Output]], metrics: list[Metric], samples: int) -> Outcome:
    """The outputs with their scores by every metric, the first being the main one."""
    refs = [e.tgt for e in examples]
    hyps = {name: [output.hyp for output in run_outputs] for name, run_outputs in outputs.items()}
    compared = [compare(metric, hyps, [refs], samples) for metric in metrics]
    main = metrics[0]
    sentences = {name: [_main(row) for row in main.per_sentence(of, [refs])] for name, of in hyps.items()}
    return Outcome(examples, outputs, metrics, compared, sentences)


def read_examples(task: Task, split: str, n: int) -> list[Example]:
    """The first `n` usable examples of the split."""
    examples = (e for corpus, _ in task.corpora(split) for e in task.examples(split, corpus) if isinstance(e, Example))
    return list(islice(examples, n))


def _main(row: Mapping[str, Any]) -> float:
    """The first score of a sentence."""
    return next((float(value) for value in row.values() if isinstance(value, int | float)), 0.0)


class Bucket(NamedTuple):
    """Examples with similar values of one property."""

    name: str
    indices: list[int]


def buckets(values: Sequence[int], edges: Sequence[int]) -> list[Bucket]:
    """Indices grouped by value, each bucket from one edge up to the next, exclusive; empty buckets are left out."""
    rows = []
    for name, low, high in zip(bucket_names(edges), edges, [*edges[1:], None], strict=True):
        inside = [i for i, v in enumerate(values) if v >= low and (high is None or v < high)]
        rows += [Bucket(name, inside)] * bool(inside)
    return rows


def bucket_names(edges: Sequence[int]) -> list[str]:
    """The names of all buckets, empty ones included."""
    ends = zip(edges, [*edges[1:], None], strict=True)
    return [f"{low}" if high == low + 1 else f"{low}–{high - 1}" if high else f"{low} and more" for low, high in ends]


@dataclass
class DataStatistics:
    """Statistics of the training data, as far as it was read."""

    n_pairs: int = 0
    place: str = "training"
    """Where occurrences are counted"""
    rejected: Counter[str] = field(default_factory=Counter)
    """Pairs that cannot be used, by reason"""
    lengths: dict[str, list[int]] = field(default_factory=lambda: {"src": [], "tgt": []})
    """Words of each side"""
    words: dict[str, Counter[str]] = field(default_factory=lambda: {"src": Counter(), "tgt": Counter()})
    """How often each word of a side occurs"""
    pieces: Counter[int] = field(default_factory=Counter)
    """How often each token of the targets occurs, special ones left out"""

    n_vocab: int = 0
    """Size of the target vocabulary, special tokens left out"""

    def rarest(self, text: str, side: Side) -> int:
        """How often the rarest word of a text occurs."""
        return min((self.words[side][word] for word in text_words(text)), default=0)


def read_statistics(task: Task, n: int) -> DataStatistics:
    """Statistics of the first `n` training pairs of every corpus; empty if they can no longer be read."""
    special = {task.vocab.pad, task.vocab.unk, task.vocab.bos, task.vocab.eos}
    statistics = DataStatistics(n_vocab=task.vocab.tgt - len(special))
    for corpus, _ in task.corpora("train"):
        some: list[Example] = []
        for example in islice(task.examples("train", corpus), n):
            if isinstance(example, Rejected):
                statistics.rejected[example.reason] += 1
                continue
            some.append(example)
        statistics.n_pairs += len(some)
        for example in some:
            for side, text in (("src", example.src), ("tgt", example.tgt)):
                statistics.lengths[side].append(len(text.split()))
                statistics.words[side].update(text_words(text))
        for pair in task.encode(some):
            statistics.pieces.update(token for token in pair.tgt if token not in special)
    return statistics
