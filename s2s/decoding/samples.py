"""The samples of a search that draws its outputs.

Shapes: B sentences being sampled for, K samples of each, L the longest limit, eos included.
"""

from __future__ import annotations

__all__ = ["Sample", "SampledSentence", "Samples"]

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from s2s.decoding import Hypothesis
from s2s.decoding.streaming import ActiveBatch
from s2s.tensors import join_tensors


class Sample:
    """One sample's tokens so far, and their log-probabilities under the model."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.log_probs: list[float] = []

    def ends_with(self, eos: int) -> bool:
        """Whether it is complete."""
        return bool(self.tokens) and self.tokens[-1] == eos

    def hypothesis(self) -> Hypothesis:
        """The complete sample as an output."""
        log_prob = sum(self.log_probs)
        return Hypothesis(self.tokens[:-1], log_prob, log_prob, self.log_probs)


@dataclass(frozen=True)
class SampledSentence:
    """What the host keeps of a sentence."""

    index: int
    """Identifies its result"""
    n_source: int
    """Source tokens, eos included"""
    samples: list[Sample]


@dataclass(frozen=True, kw_only=True)
class Samples(ActiveBatch[SampledSentence]):
    """The samples of every sentence."""

    uniform: Tensor
    """[B, K, L], a random number in [0, 1) for each step"""
    length: Tensor
    """[B], tokens of each sample, without bos"""
    limit: Tensor
    """[B], most tokens of an output, without eos"""
    token: Tensor
    """[B, 1] before the first step, then [B, K]: the newest tokens"""
    live: Tensor
    """[B, K], False: has ended, or no token was allowed"""

    @property
    def n_hypotheses(self) -> int:
        """1 before the first step, then K"""
        return self.token.size(1)

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        joined = join_tensors(self.tensors(), other.tensors())
        return type(self)(sentences=self.sentences + other.sentences, state=self.state.join(other.state), **joined)
