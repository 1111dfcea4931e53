"""What a corpus loses: pairs read, kept, and dropped by reason, with a sample of those dropped for each."""

from __future__ import annotations

__all__ = ["N_SAMPLES", "CorpusReport", "Drops", "Sample", "ledger_record"]

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from s2s.data.mixing import mix
from s2s.data.source_shape import SourceCounts
from s2s.task import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.task import Example

N_SAMPLES = 5
"""Pairs that are shown for each reason"""
N_SHOWN = 200
"""Characters of a text that are shown"""


class Sample(NamedTuple):
    """A dropped pair."""

    number: int
    """Its place in the corpus, from 1: in two parallel files, its line"""
    src: str = ""
    """The beginnings of its texts; empty if the corpus itself could not use it"""
    tgt: str = ""


@dataclass
class Drops:
    """Dropped pairs by reason."""

    counts: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    """At most N_SAMPLES for each reason, in the order of the corpus"""

    @classmethod
    def collect(cls, chunk: Sequence[Example | Rejected], reasons: Sequence[str], n_before: int) -> Self:
        """Those of consecutive pairs.

        reasons: why each is dropped; empty: it is kept. n_before: pairs of the corpus before these.
        """
        indices = defaultdict[str, list[int]](list)
        for index, reason in enumerate(reasons):
            if reason:
                indices[reason].append(index)
        samples = {
            reason: [_sample(number, chunk[number - n_before - 1]) for number in _drawn([n_before + 1 + i for i in of])]
            for reason, of in indices.items()
        }
        return cls({reason: len(of) for reason, of in indices.items()}, samples)

    def add(self, others: Drops) -> None:
        """Count the pairs of another chunk as well."""
        for reason, count in others.counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count
            both = {sample.number: sample for sample in (*self.samples.get(reason, ()), *others.samples[reason])}
            self.samples[reason] = [both[number] for number in _drawn(list(both))]

    @property
    def total(self) -> int:
        """Pairs dropped for any reason."""
        return sum(self.counts.values())


def _drawn(numbers: Sequence[int]) -> list[int]:
    """N_SAMPLES of these in their order, those of the least hash: a uniform sample, whatever the chunks."""
    if len(numbers) <= N_SAMPLES:
        return sorted(numbers)
    array = np.array(numbers, np.uint64)
    return sorted(array[np.argsort(mix(array))[:N_SAMPLES]].tolist())


def _sample(number: int, pair: Example | Rejected) -> Sample:
    return Sample(number) if isinstance(pair, Rejected) else Sample(number, pair.src[:N_SHOWN], pair.tgt[:N_SHOWN])


@dataclass
class CorpusReport:
    """Counts of one corpus: pairs read, kept and dropped, and tokens."""

    split: str
    name: str
    n_read: int = 0
    n_kept: int = 0
    drops: Drops = field(default_factory=Drops)
    n_src: int = 0
    """Source tokens kept, without eos"""
    n_tgt: int = 0
    n_unk: int = 0
    """Unknown tokens of both sides"""
    n_overlap: int = 0
    """Pairs kept although they stand in development or test sets, as most of the training text does"""
    sources: SourceCounts | None = None
    """What the sources of a training corpus are like; None: not measured"""

    def add(self, other: CorpusReport) -> None:
        """Count another part of the corpus as well."""
        for name in ("n_read", "n_kept", "n_src", "n_tgt", "n_unk"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.drops.add(other.drops)
        if self.sources and other.sources:
            self.sources.add(other.sources)

    def summary(self, weight: float = 1.0) -> str:
        """The counts on one line, with the weight where it is not 1."""
        name = f"{self.split} {self.name}" + (f" (weight {weight:.3g})" if weight != 1 else "")
        share = self.n_unk / max(self.n_src + self.n_tgt, 1)
        return (
            f"{name}: {self.n_read:,} pairs read, {self.n_kept:,} kept{self.drop_summary()}; "
            f"{self.n_src:,} source and {self.n_tgt:,} target tokens, {share:.2%} unknown"
        )

    def n_dropped(self, reasons: Iterable[str]) -> int:
        """Pairs dropped for any of these reasons."""
        return sum(self.drops.counts.get(reason, 0) for reason in reasons)

    def drop_summary(self) -> str:
        """How many pairs were dropped by reason, the most common first; empty if none were."""
        if not self.drops.counts:
            return ""
        reasons = sorted(self.drops.counts.items(), key=lambda item: (-item[1], item[0]))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        return f", {self.drops.total:,} dropped ({counts})"


def ledger_record(reports: Iterable[CorpusReport]) -> dict[str, Any]:
    """What each corpus lost, for a run to keep: ledger.json."""
    return {"corpora": [_as_record(report) for report in reports]}


def _as_record(report: CorpusReport) -> dict[str, Any]:
    drops = report.drops
    dropped = [
        {"reason": reason, "pairs": count, "samples": [one._asdict() for one in drops.samples.get(reason, ())]}
        for reason, count in drops.counts.items()
    ]
    named = {"split": report.split, "name": report.name, "read": report.n_read, "kept": report.n_kept}
    return {**named, "dropped": dropped, "overlap": report.n_overlap}
