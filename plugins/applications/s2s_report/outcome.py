"""The results of runs on the same examples: outputs, scores with intervals and tests, per sentence and in buckets."""

from __future__ import annotations

__all__ = [
    "Bucket",
    "DataStatistics",
    "Outcome",
    "Part",
    "bucket_names",
    "buckets",
    "decode",
    "judged",
    "read_statistics",
]

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import ConfigError, Example, Rejected
from s2s.generation import Output
from s2s.metrics import Comparison, Metric, build_metrics, compare
from s2s_report.text_words import text_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s import Plugins, Side, Task, TrainedModel
    from s2s_report import ReportConfig

ENOUGH = 30
"""Minimum sentences for which a bucket's score is shown: below, its interval would be as wide as the scale"""
LENGTHS = (1, 6, 11, 21, 31, 51)
FREQUENCIES = (0, 1, 5, 20, 100, 1000)


class Part(NamedTuple):
    """Examples that have scores of their own, such as en-de/bleu."""

    name: str
    """Empty: all examples have one score"""
    rows: Sequence[int]
    metrics: list[Metric]
    """The main one, by which runs are judged, first"""


@dataclass(frozen=True)
class Outcome:
    """The outputs of all runs for the same examples."""

    examples: list[Example]
    outputs: dict[str, list[Output]]
    """Run -> its outputs, in the order of the examples"""
    parts: list[Part]
    compared: list[list[Comparison]]
    """For each metric, and for it each part, a comparison for every run; the first run is the baseline"""
    sentences: dict[str, list[float]]
    """Run -> the main score of every sentence"""

    @property
    def main(self) -> list[tuple[Part, list[Comparison]]]:
        """The comparisons by the main metric."""
        return list(zip(self.parts, self.compared, strict=False))

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
    named = read_examples(first.task, config.split, config.sentences)
    examples = [example for _, example in named]
    if not examples and config.split == "test":
        raise ConfigError(
            "split=test: the first run has no test set; give split=valid, or outputs as files: hyp=, ref="
        )
    if not examples:
        return None
    nbest = 4 if getattr(first.config.search, "beam", 1) >= 4 else 1
    outputs = {name: list(model.generate(examples, nbest=nbest)) for name, model in models.items()}
    parts = _parts(first.task, [name for name, _ in named], config.metrics, plugins)
    return judged(examples, outputs, parts, config.samples)


def _parts(task: Task, names: Sequence[str], requested: Any, plugins: Plugins) -> list[Part]:
    """The corpora that the task scores by themselves, with their examples; else all examples. names: of their corpora.

    The metrics of a corpus have the options that the task gives it, such as the language of its outputs.
    """
    options = {name: task.scored_apart(name) for name in dict.fromkeys(names)}
    parts = [
        Part(name, [row for row, one in enumerate(names) if one == name], metrics)
        for name, own in options.items()
        if own is not None
        for metrics in [build_metrics(task, plugins.registry, requested, defaults=own)]
    ]
    return parts or [Part("", range(len(names)), build_metrics(task, plugins.registry, requested))]


def judged(examples: list[Example], outputs: dict[str, list[Output]], parts: list[Part], samples: int) -> Outcome:
    """The outputs with the scores of every part."""
    sentences = {name: [0.0] * len(examples) for name in outputs}
    by_part: list[list[list[Comparison]]] = []
    for part in parts:
        refs = [[examples[row].tgt for row in part.rows]]
        hyps = {name: [of[row].hyp for row in part.rows] for name, of in outputs.items()}
        by_part.append([_of_part(part, compare(metric, hyps, refs, samples)) for metric in part.metrics])
        for name, of in hyps.items():
            for row, score in zip(part.rows, part.metrics[0].per_sentence(of, refs), strict=True):
                sentences[name][row] = _main(score)
    compared = list(chain.from_iterable(zip(*by_part, strict=True)))
    return Outcome(examples, outputs, parts, compared, sentences)


def _of_part(part: Part, compared: list[Comparison]) -> list[Comparison]:
    """Comparisons with the part in the names of scores."""
    if not part.name:
        return compared
    return [replace(one, score=replace(one.score, name=f"{part.name}/{one.score.name}")) for one in compared]


def read_examples(task: Task, split: str, n: int) -> list[tuple[str, Example]]:
    """The first `n` usable examples of the split, each with the name of its corpus; one of each corpus in turn where
    these have scores of their own."""
    names = [name for name, _ in task.corpora(split)]
    corpora = [_usable(task, split, name) for name in names]
    if any(task.scored_apart(name) is not None for name in names):
        in_turn = chain.from_iterable(zip_longest(*corpora))
        return list(islice((named for named in in_turn if named), n))
    return list(islice(chain.from_iterable(corpora), n))


def _usable(task: Task, split: str, name: str) -> Iterator[tuple[str, Example]]:
    """The usable examples of a corpus, each with its name."""
    return ((name, one) for one in task.examples(split, name) if isinstance(one, Example))


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
