"""What goes into a generator and comes out of it, as text."""

from __future__ import annotations

__all__ = ["NOTHING", "UNANSWERED", "Candidate", "Counts", "Input", "Output"]

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Input:
    """One input, and what its output must be like."""

    src: str
    prefix: str = ""
    """How the output begins"""
    phrases: tuple[str, ...] = ()
    """What stands in the output, each at least once, in any order"""


@dataclass(frozen=True)
class Candidate:
    """One possible output for an input."""

    hyp: str
    """Text"""
    score: float
    """What candidates are ranked by: the log-probability over the length penalty, if nothing else is asked for"""
    tokens: list[int]
    """Ids of its symbols, without bos and eos"""
    log_probs: list[float]
    """Of each symbol under the model, and last of eos"""
    pieces: list[str] = field(default_factory=list)
    """Its symbols to read, where they are asked for"""
    align: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of source words and of words of the text that belong together, where they are asked for"""


NOTHING = Candidate(hyp="", score=0.0, tokens=[], log_probs=[])
"""All that an empty input can become: it is not searched"""
UNANSWERED = Candidate(hyp="", score=-math.inf, tokens=[], log_probs=[])
"""Stands for the output of an input for which the search found none, with what the task falls back on"""


@dataclass(frozen=True)
class Output:
    """What came out for one input."""

    src: str
    nbest: list[Candidate]
    """Best first; one of score -inf where the search found nothing"""

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.nbest[0]

    @property
    def hyp(self) -> str:
        """Text of the best candidate."""
        return self.best.hyp

    @property
    def score(self) -> float:
        """Score of the best candidate."""
        return self.best.score

    @property
    def tokens(self) -> list[int]:
        """Ids of the best candidate."""
        return self.best.tokens


@dataclass
class Counts:
    """What a generator has done so far."""

    inputs: int = 0
    empty: int = 0
    """Inputs without a symbol, whose output is empty"""
    split: int = 0
    """Inputs that were decoded in parts, being too long for one"""
    truncated: int = 0
    """Inputs of which something was cut off, to the longest allowed"""
    unanswered: int = 0
    """Inputs for which the search found no output"""
    tokens: int = 0
    """Symbols of the best outputs, with eos"""
