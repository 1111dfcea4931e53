"""What the sources of the training text are like, measured when they are encoded: sentences, lines, words, length.

It decides whether a trained model reads a text sentence by sentence, and which inputs are longer than any it has seen.
"""

from __future__ import annotations

__all__ = ["SourceCounts", "SourceShape"]

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from s2s.data.sentence_rules import RuleSegmenter
from s2s.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SAMPLED = 1024
"""Sources of a chunk whose text is measured, at least, or all"""
QUANTILES = {"50%": 0.5, "90%": 0.9, "99%": 0.99, "100%": 1.0}
MEASURES = ("sentences", "lines", "words", "characters")


@dataclass
class SourceCounts:
    """How many sources have how many sentences, lines, words and characters; of a sample."""

    sentences: dict[int, int] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    words: dict[int, int] = field(default_factory=dict)
    characters: dict[int, int] = field(default_factory=dict)
    longest: int = 0
    """Tokens of the longest of all sources, without eos"""

    @classmethod
    def measure(cls, texts: Sequence[str], longest: int) -> Self:
        """Those of a chunk of sources."""
        sample, segmenter = texts[:: max(1, len(texts) // SAMPLED)], RuleSegmenter(Choice(), "")
        lines = [text.splitlines() for text in sample]
        values = (
            (max(1, sum(len(segmenter.sentences(line)) for line in some)) for some in lines),
            (max(1, len(some)) for some in lines),
            (len(text.split()) for text in sample),
            map(len, sample),
        )
        counts = [dict(Counter(some)) for some in values]
        return cls(**dict(zip(MEASURES, counts, strict=True)), longest=longest)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """What `asdict` wrote, after JSON, whose keys are texts."""
        counts = {name: {int(value): n for value, n in record[name].items()} for name in MEASURES}
        return cls(**counts, longest=record["longest"])

    def add(self, other: SourceCounts) -> None:
        """Count the sources of another chunk or corpus as well."""
        for name in MEASURES:
            setattr(self, name, dict(Counter(getattr(self, name)) + Counter(getattr(other, name))))
        self.longest = max(self.longest, other.longest)


@dataclass(frozen=True)
class SourceShape:
    """The quantiles of `SourceCounts` over all training corpora, which a run keeps: "50%", "90%", "99%", "100%"."""

    sentences: dict[str, int]
    lines: dict[str, int]
    words: dict[str, int]
    characters: dict[str, int]
    longest: int
    """Tokens of the longest source, without eos"""

    @classmethod
    def summarize(cls, counts: Iterable[SourceCounts]) -> Self | None:
        """The shape of all corpora; None if nothing was measured."""
        total = SourceCounts()
        for some in counts:
            total.add(some)
        if not total.sentences:
            return None
        return cls(**{name: _quantiles(getattr(total, name)) for name in MEASURES}, longest=total.longest)

    @classmethod
    def read(cls, record: Any) -> Self | None:
        """The shape in the record of a run; None if it has none, or another form."""
        try:
            return cls(**record)
        except TypeError:
            return None

    def dump(self) -> dict[str, Any]:
        """The shape as a record."""
        return asdict(self)

    @property
    def is_sentences(self) -> bool:
        """Whether at least half of the sources were single sentences."""
        return self.sentences["50%"] <= 1

    @property
    def is_lines(self) -> bool:
        """Whether at least half of the sources were single lines."""
        return self.lines["50%"] <= 1


def _quantiles(counts: Mapping[int, int]) -> dict[str, int]:
    """For each quantile the smallest value that as many sources do not exceed."""
    total, result, n = sum(counts.values()), {}, 0
    values = iter(sorted(counts))
    value = 0
    for name, share in QUANTILES.items():
        while n < share * total:
            value = next(values)
            n += counts[value]
        result[name] = value
    return result
