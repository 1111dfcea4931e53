"""The samples of a search that draws, while it goes on.

Shapes: B sentences that are still drawn for, K samples of each, L the longest limit with eos.
"""

from __future__ import annotations

__all__ = ["LazyBatch", "Samples", "Sentence"]

from dataclasses import dataclass
from typing import NamedTuple, Self

from torch import Tensor

from s2s.decoding import Hypothesis
from s2s.decoding.streaming import ActiveBatch
from s2s.tensors import join_tensors


class LazyBatch:
    """One sample's symbols so far, and their log-probabilities under the model."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.log_probs: list[float] = []

    def ends_with(self, eos: int) -> bool:
        """Whether it is an output."""
        return bool(self.tokens) and self.tokens[-1] == eos

    def hypothesis(self) -> Hypothesis:
        """The output."""
        log_prob = sum(self.log_probs)
        return Hypothesis(self.tokens[:-1], log_prob, log_prob, self.log_probs)


class Sentence(NamedTuple):
    """What the host knows of a sentence."""

    place: int
    """Its number among the sources"""
    n_source: int
    """Its symbols, with eos"""
    drawn: list[LazyBatch]
    """Its samples"""


@dataclass(frozen=True, kw_only=True)
class Samples(ActiveBatch[Sentence]):
    """All that is known of the samples being drawn."""

    uniform: Tensor
    """[B, K, L], what chance says at each step"""
    length: Tensor
    """[B], symbols of each sample, without bos"""
    limit: Tensor
    """[B], most symbols of an output, without eos"""
    token: Tensor
    """[B, 1] at first, then [B, K]: the newest symbols"""
    live: Tensor
    """[B, K], False: has ended, or nothing was allowed"""

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        joined = join_tensors(self.tensors(), other.tensors())
        return type(self)(sentences=self.sentences + other.sentences, state=self.state.join(other.state), **joined)
