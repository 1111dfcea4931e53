"""Prepared corpora, ready to be read in batches, with what was counted while they were encoded."""

from __future__ import annotations

__all__ = ["TOKENIZER", "PreparedData"]

from dataclasses import dataclass
from pathlib import Path

from s2s.data.ledger import CorpusReport
from s2s.data.mapped_corpus import MappedCorpus
from s2s.data.source_shape import SourceShape

TOKENIZER = "tokenizer"


@dataclass(frozen=True)
class PreparedData:
    """A complete prepared folder with its corpora mapped."""

    directory: Path
    train: list[tuple[MappedCorpus, float]]
    """Each with its weight"""
    valid: list[MappedCorpus]
    identity: str
    """Hash of the encoded training corpora: equal if and only if the training data are equal"""
    report: list[str]
    """Lines for the first screen: the folder, and the counts of each corpus"""
    ledger: list[CorpusReport]
    """What each corpus lost"""
    sources: SourceShape | None = None
    """What the training sources are like; None for a folder of an earlier version"""

    @property
    def tokenizer(self) -> Path:
        """Argument of `Task.load`."""
        return self.directory / TOKENIZER

    @property
    def overlap_warnings(self) -> list[str]:
        """That training text stands in development or test sets, where that needs a decision of the user's."""
        training = [one for one in self.ledger if one.split == "train"]
        n_overlap, n_kept = sum(one.n_overlap for one in training), sum(one.n_kept for one in training)
        if n_overlap:
            return [
                f"{n_overlap:,} of {n_kept:,} training pairs stand in the development or test sets: that is most of "
                "them, so that none is dropped, and scores are of text that was trained on. Give other sets, or "
                "data.decontaminate=false if that is meant"
            ]
        return [
            f"train corpus {one.name}: nothing is left of it, since all of it stands in the development or test sets; "
            "leave it out, or give data.decontaminate=false"
            for one in training
            if not one.n_kept
        ]

    @property
    def epoch_pairs(self) -> float:
        """Training pairs of an epoch, each as often as the weight of its corpus says."""
        return sum(weight * len(corpus) for corpus, weight in self.train)
