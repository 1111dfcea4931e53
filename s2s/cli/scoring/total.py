"""Sums of log-probabilities over a corpus, and perplexities."""

from __future__ import annotations

__all__ = ["Total", "perplexity"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2s.generation.scoring import ScoredTarget


@dataclass
class Total:
    """Sums over a corpus."""

    sentences: int = 0
    n_tokens: int = 0
    """Target tokens, each eos included"""
    words: int = 0
    """Target words, separated by spaces, plus one per sentence for its end"""
    log_prob: float = 0.0

    def add(self, scored: ScoredTarget, text: str) -> None:
        """Add a target, of which `text` is the original line."""
        self.sentences += 1
        self.n_tokens += len(scored.log_probs)
        self.words += len(text.split()) + 1
        self.log_prob += scored.log_prob

    @property
    def ppl(self) -> float:
        """Perplexity per token."""
        return perplexity(self.log_prob, self.n_tokens)

    @property
    def word_ppl(self) -> float:
        """Perplexity per word, which is comparable between models with different tokens."""
        return perplexity(self.log_prob, self.words)


def perplexity(log_prob: float, n: int) -> float:
    """exp(-log_prob / n); infinite on overflow."""
    try:
        return math.exp(-log_prob / n)
    except OverflowError:
        return math.inf
