"""Guided alignment, as a plugin: attention that is trained to align words (Garg et al., 2019). No torch at import.

The alignments come from a file, or from two directions of IBM model 1 with a diagonal prior (Dyer et al., 2013).
"""

from __future__ import annotations

__all__ = ["GuidedAlignmentConfig", "s2s_register"]

from dataclasses import dataclass, field

from s2s import Choice, Registry, hookimpl
from s2s.config import Range, at_least, check_ranges


@dataclass(kw_only=True)
class GuidedAlignmentConfig(Choice):
    """Label smoothing, and cross-entropy of the attention for alignments to given ones (Garg et al., 2019, eq. 6).

    What is trained is what alignments are read from later: of a Transformer arch.alignment_layer, and with
    arch.alignment_heads=1 one of its heads, as in the paper.
    """

    weight: float = 0.05
    """Weight of the alignments' cross-entropy, lambda of eq. 6."""
    eps: float = 0.1
    """Label smoothing of the cross-entropy: probability moved to the wrong tokens."""
    alignments: dict[str, str] = field(default_factory=dict)
    """Files of word alignments in Pharaoh format (0-0 1-2) by the names of training corpora, one line for each pair
    that is not rejected; words are separated by blanks. Empty: tokens are aligned at the start of training."""
    pairs: int = 50_000
    """Training pairs of all corpora from which the aligner learns; the pairs of a batch are aligned as they come."""
    iterations: int = 5
    """Iterations of the aligner's EM."""
    tension: float = 4.0
    """How strongly the aligner prefers the diagonal; the first value of fast_align."""
    null: float = 0.08
    """The aligner's probability that a token is aligned to none, as in fast_align."""

    def __post_init__(self) -> None:
        check_ranges("objective", self, weight=at_least(0), eps=Range(0, 1, without_high=True), pairs=at_least(1))
        between = Range(0, 1, without_low=True, without_high=True)
        check_ranges("objective", self, iterations=at_least(1), tension=at_least(0), null=between)


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The objective, under its name."""
    registry.objective("guided_alignment", GuidedAlignmentConfig, "s2s_guided_alignment.objective:GuidedAlignment")
