"""What a search is given of one sentence, and what it finds. No torch at import: texts are read without it."""

from __future__ import annotations

__all__ = ["ActiveSentence", "Hypothesis", "SearchResult", "SourceSentence"]

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log

from s2s.decoding.batch_constraint import SentenceConstraint

NO_LIMIT = 1 << 60
HALF = log(0.5)


@dataclass(frozen=True)
class SourceSentence:
    """A sentence to be searched."""

    index: int
    """Identifies its result"""
    ids: Sequence[int]
    """Source tokens, eos included"""
    constraint: SentenceConstraint | None = None
    """Constraint on its output"""
    nbest: int | None = None
    """Hypotheses that its caller uses, the best of its result; None: all. Where those depend on how many are found, as
    in sampling, no more are found; else there may be more, up to `SearchRequest.nbest`."""
    starting_tokens: Sequence[int] = ()
    """Target tokens that the model is fed before the first prediction, such as the code of the sentence's language;
    empty: `Vocab.starting_tokens`. They are no part of the output"""
    align: bool = False
    """Whether `Hypothesis.source_positions` are needed, whatever the options say"""

    def sampling_key(self, seed: int, number: int) -> int:
        """Of one of its samples, in 64 bits: the seed of the random numbers in [0, 1) that draw its tokens.

        It depends on nothing but the seed, the sample's number and the source. Number i is the upper 53 bits of number
        i of SplitMix64, over 2^53.
        """
        numbers = struct.pack(f"<{2 + len(self.ids)}q", seed, number, *self.ids)
        return int.from_bytes(hashlib.blake2b(numbers, digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True)
class Hypothesis:
    """One finished output."""

    tokens: list[int]
    """Ids, without bos and eos"""
    score: float
    """The ranking criterion: the log-probability over the length penalty"""
    log_prob: float
    """log p(tokens, eos | src) under the model or ensemble; with shallow fusion, the sum of both models' terms; with
    transforms (`SearchRequest.transforms`), under the distribution that they change"""
    token_log_probs: list[float]
    """The terms of log_prob: one for each token, and the last for eos"""
    source_positions: list[int] | None = None
    """For each token the source position, eos excluded, with the most attention; None unless requested"""
    source_labels: list[int] | None = None
    """For each source word the index in `Vocab.labels` of its most probable label; None: the model has learnt none, or
    none were requested"""
    finished: bool = True
    """False: it was cut at the length limit, where it can only end"""


@dataclass(frozen=True)
class SearchResult:
    """The outputs of one sentence."""

    index: int
    """Of the `SourceSentence`"""
    hypotheses: list[Hypothesis]
    """Best first; fewer than requested if the search found no more, none if no allowed output fits the length limit"""


@dataclass(frozen=True)
class ActiveSentence:
    """The host's record of a sentence in the batch."""

    index: int
    """Identifies its result"""
    n_source: int
    """Source tokens, eos included"""
    limit: int = field(default=NO_LIMIT, kw_only=True)
    """Most tokens of its output, without eos"""

    def ends_itself(self, n_tokens: int, eos_log_prob: float) -> bool:
        """Whether an output of `n_tokens`, without eos, was not cut: at its limit eos has a probability over 0.5."""
        return n_tokens < self.limit or eos_log_prob > HALF

    def hypothesis(
        self, tokens: list[int], score: float, log_probs: list[float], labels: list[int] | None = None
    ) -> Hypothesis:
        """An output of the sentence; log_probs: those of its tokens and of eos; labels: of the source's words."""
        *before, last = log_probs
        finished = self.ends_itself(len(tokens), last)
        return Hypothesis(tokens, score, sum(before) + last, log_probs, source_labels=labels, finished=finished)

    def sampling_result(
        self, samples: Iterable[tuple[list[int], list[float]]], labels: list[int] | None = None
    ) -> SearchResult:
        """The result of sampling, the most probable output first: tokens of each sample, and log-probabilities of
        these and of eos."""
        outputs = [self.hypothesis(tokens, sum(log_probs), log_probs, labels) for tokens, log_probs in samples]
        return SearchResult(self.index, sorted(outputs, key=lambda output: -output.score))
