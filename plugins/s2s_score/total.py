"""Sums of log-probabilities over a corpus, and perplexities."""

from __future__ import annotations

__all__ = ["Total", "perplexity"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2s.generation import Scored


@dataclass
class Total:
    """Sums over a corpus."""

    sentences: int = 0
    n_tokens: int = 0
    """Those of targets, each end counted"""
    words: int = 0
    """Of targets, parted by blanks, each end counted as one"""
    log_prob: float = 0.0

    def add(self, scored: Scored, text: str) -> None:
        """One more target, which was written so."""
        self.sentences += 1
        self.n_tokens += len(scored.log_probs)
        self.words += len(text.split()) + 1
        self.log_prob += scored.log_prob

    @property
    def ppl(self) -> float:
        """Perplexity of a token."""
        return perplexity(self.log_prob, self.n_tokens)

    @property
    def word_ppl(self) -> float:
        """Perplexity of a word, which can be compared between models of other tokens."""
        return perplexity(self.log_prob, self.words)


def perplexity(log_prob: float, n: int) -> float:
    """exp(-log_prob / n); infinite where no number holds it."""
    try:
        return math.exp(-log_prob / n)
    except OverflowError:
        return math.inf
