"""Signs of wrong files: pairs whose sides are equal, development sources in the target's language, a header line.

Read from a sample of what is prepared, as text; a task that cannot show its sources as text has none.
"""

from __future__ import annotations

__all__ = ["wrong_file_signs"]

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.data.mapped_corpus import MappedCorpus
    from s2s.data.prepared_data import PreparedData
    from s2s.task import Task

N_SAMPLED = 500
"""Pairs of each corpus, at equal distances"""
LEAST = 20
"""Pairs without which nothing is concluded"""
HEADERS = {"source", "target", "src", "tgt", "trg", "input", "output", "text", "translation", "reference"}
"""What a header line calls the columns of pairs"""
N_CHARACTERS = 3
CLEAR = 0.9
"""Share of the lines that must be on the same side"""


class Texts(NamedTuple):
    """The two sides of a sample of pairs."""

    src: list[str]
    tgt: list[str]

    @property
    def n_equal(self) -> int:
        """Pairs whose sides are the same text."""
        return sum(src == tgt for src, tgt in zip(self.src, self.tgt, strict=True))


def wrong_file_signs(task: Task, data: PreparedData) -> list[str]:
    """A line for each sign, none if there is none."""
    train = [_sample(task, corpus) for corpus, _ in data.train]
    valid = [_sample(task, corpus) for corpus in data.valid]
    equal = [
        f"source equals target in {texts.n_equal:,} of {len(texts.src):,} {name} pairs that were looked at"
        for name, many in (("training", train), ("development", valid))
        for texts in many
        if len(texts.src) >= LEAST and texts.n_equal > len(texts.src) / 2
    ]
    headers = [
        f"the first training pair is {texts.src[0]!r} and {texts.tgt[0]!r}: if that is a header line, remove it"
        for texts in train
        if texts.src and {texts.src[0].lower(), texts.tgt[0].lower()} <= HEADERS
    ]
    if equal:
        return equal + headers
    sides = Texts([line for texts in train for line in texts.src], [line for texts in train for line in texts.tgt])
    swapped = (
        "the development sources look like training targets, and not like training sources: are the files swapped?"
        for texts in valid
        if _look_like_targets(texts.src, sides)
    )
    return list(dict.fromkeys([*headers, *swapped]))


def _sample(task: Task, corpus: MappedCorpus) -> Texts:
    rows = range(0, len(corpus), max(len(corpus) // N_SAMPLED, 1))
    texts = Texts([], [])
    for src, tgt in (corpus[row] for row in rows):
        source = task.source_text(src.tolist())
        if source:
            texts.src.append(source)
            texts.tgt.append(task.detokenize(tgt.tolist(), source))
    return texts


def _look_like_targets(lines: Sequence[str], sides: Texts) -> bool:
    """Whether lines have the n-grams of targets; False where the training sides do not differ clearly.

    Half of the training lines are counted, and the counts must separate the other half.
    """
    if min(len(lines), len(sides.src)) < LEAST:
        return False
    src, tgt = _log_probs(sides.src[::2]), _log_probs(sides.tgt[::2])

    def share(texts: Sequence[str]) -> float:
        return sum(_score(text, tgt) > _score(text, src) for text in texts) / len(texts)

    distinct = share(sides.src[1::2]) < 1 - CLEAR and share(sides.tgt[1::2]) > CLEAR
    return distinct and share(lines) > CLEAR


def _n_grams(text: str) -> Iterator[str]:
    padded = f" {text} "
    return (padded[i : i + N_CHARACTERS] for i in range(len(padded) - N_CHARACTERS + 1))


def _log_probs(texts: Sequence[str]) -> dict[str, float]:
    """Of every n-gram, with 1 added to each count; that of one that does not occur is under the empty text."""
    counts = Counter(n_gram for text in texts for n_gram in _n_grams(text))
    total = math.log(counts.total() + len(counts) + 1)
    return {n_gram: math.log(n + 1) - total for n_gram, n in counts.items()} | {"": -total}


def _score(text: str, log_probs: dict[str, float]) -> float:
    return sum(log_probs.get(n_gram, log_probs[""]) for n_gram in _n_grams(text))
