"""What the sources of the training text are like, measured when they are encoded: sentences, lines, length in tokens.

It decides whether a trained model reads a text sentence by sentence, and which inputs are longer than any it has seen.
"""

from __future__ import annotations

__all__ = ["SourceCounts", "SourceShape"]

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from s2s.data.sentence_rules import RuleSegmenter
from s2s.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SAMPLED = 1024
"""Sources of a chunk whose text is measured, at least, or all"""


@dataclass
class SourceCounts:
    """How many of a sample of sources are one sentence, and one line."""

    sampled: int = 0
    sentences: int = 0
    """Sources of at most one sentence"""
    lines: int = 0
    """Sources of at most one line"""
    longest: int = 0
    """Tokens of the longest of all sources, without eos"""

    @classmethod
    def measure(cls, texts: Sequence[str], longest: int) -> Self:
        """Those of a chunk of sources."""
        sample, segmenter = texts[:: max(1, len(texts) // SAMPLED)], RuleSegmenter(Choice(), "")
        lines = [text.splitlines() for text in sample]
        n_sentences = (sum(len(segmenter.sentences(line)) for line in some) for some in lines)
        return cls(len(sample), sum(n <= 1 for n in n_sentences), sum(len(some) <= 1 for some in lines), longest)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self | None:
        """What `asdict` wrote; None for a record of another form."""
        known = record.keys() == asdict(cls()).keys() and all(isinstance(value, int) for value in record.values())
        return cls(**record) if known else None

    def add(self, other: SourceCounts) -> None:
        """Count the sources of another chunk or corpus as well."""
        self.sampled += other.sampled
        self.sentences += other.sentences
        self.lines += other.lines
        self.longest = max(self.longest, other.longest)


@dataclass(frozen=True)
class SourceShape:
    """The shares of `SourceCounts` over all training corpora, which a run keeps."""

    sentences: float
    """Share of the sources of at most one sentence"""
    lines: float
    """Share of the sources of at most one line"""
    longest: int
    """Tokens of the longest source, without eos"""

    @classmethod
    def summarize(cls, counts: Iterable[SourceCounts]) -> Self | None:
        """The shape of all corpora; None if nothing was measured."""
        total = SourceCounts()
        for some in counts:
            total.add(some)
        if not total.sampled:
            return None
        return cls(total.sentences / total.sampled, total.lines / total.sampled, total.longest)

    @classmethod
    def read(cls, record: Any) -> Self | None:
        """The shape in the record of a run; None if it has none, or another form."""
        try:
            shape = cls(**record)
        except TypeError:
            return None
        return shape if all(isinstance(value, int | float) for value in vars(shape).values()) else None

    def dump(self) -> dict[str, Any]:
        """The shape as a record."""
        return asdict(self)

    @property
    def is_sentences(self) -> bool:
        """Whether at least half of the sources were single sentences."""
        return self.sentences >= 0.5

    @property
    def is_lines(self) -> bool:
        """Whether at least half of the sources were single lines."""
        return self.lines >= 0.5
