"""How outputs are judged: every score carries the signature that makes it comparable."""

from __future__ import annotations

__all__ = ["Metric", "Score"]

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """One number that judges a set of outputs, and how it came about."""

    name: str
    """Key, such as "bleu"."""
    value: float
    signature: str
    """Everything that must be equal for two such numbers to be comparable."""
    low: float | None = None
    """Lower end of the 95% interval."""
    high: float | None = None
    """Upper end of the 95% interval."""
    higher_is_better: bool = True
    detail: dict[str, Any] = field(default_factory=dict)
    """Parts of the number, such as the brevity penalty."""


class Metric(ABC):
    """Judges outputs against one or several references per sentence."""

    @abstractmethod
    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """Score, with a bootstrap interval of `samples` resamples, none if 0. refs: [n_refs][n_sentences]."""
