"""Searches that a configuration can name, and the contract between a search and its callers.

A search knows a model only as `Seq2Seq.encode`, `start` and `step`, and its state only as `State.reorder`, `keep` and
`join`: every architecture has every search.
"""

from __future__ import annotations

__all__ = [
    "PENALTIES",
    "ActiveBatch",
    "ActiveSentence",
    "BeamConfig",
    "BeamSearch",
    "Beams",
    "Candidates",
    "FinishedHypotheses",
    "GreedyConfig",
    "Hypothesis",
    "LexicalConstraint",
    "QueueClosedError",
    "RequestQueue",
    "SampleConfig",
    "Search",
    "SearchRequest",
    "SearchResult",
    "SentenceQueue",
    "SourceBatch",
    "SourceSentence",
    "StreamingSearch",
    "build_constraint",
    "gather_hypotheses",
    "greedy",
    "log_probs",
    "max_output_length",
    "pad_sources",
    "s2s_register",
    "search_all",
    "serve",
]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from s2s.config.ranges import Range, above, at_least, refuse_outside
from s2s.errors import ConfigError
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.decoding.beam_search import BeamSearch, greedy
    from s2s.decoding.constraints import build_constraint
    from s2s.decoding.hypotheses import Beams, Candidates, FinishedHypotheses
    from s2s.decoding.lexical import LexicalConstraint
    from s2s.decoding.log_probs import gather_hypotheses, log_probs
    from s2s.decoding.penalties import PENALTIES
    from s2s.decoding.request import (
        SearchRequest,
        SentenceQueue,
        SourceBatch,
        SourceSentence,
        max_output_length,
        search_all,
    )
    from s2s.decoding.request_queue import QueueClosedError, RequestQueue, serve
    from s2s.decoding.streaming import ActiveBatch, ActiveSentence, StreamingSearch, pad_sources


@dataclass(frozen=True)
class Hypothesis:
    """One finished output."""

    tokens: list[int]
    """Ids, without bos and eos"""
    score: float
    """The ranking criterion: the log-probability over the length penalty"""
    log_prob: float
    """log p(tokens, eos | src) under the model or ensemble; with shallow fusion, the sum of both models' terms"""
    token_log_probs: list[float]
    """The terms of log_prob: one for each token, and the last for eos"""
    source_positions: list[int] | None = None
    """For each token the source position, eos excluded, with the most attention; None unless requested"""


@dataclass(frozen=True)
class SearchResult:
    """The outputs of one sentence."""

    index: int
    """Of the `SourceSentence`"""
    hypotheses: list[Hypothesis]
    """Best first; fewer than requested if the search found no more, none if nothing that is allowed fits the limit"""


class Search(Protocol):
    """Finds outputs of high probability."""

    def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """One result for each sentence of `request.queue`, as soon as it is known, in any order."""
        ...


@dataclass(kw_only=True)
class BeamConfig(Choice):
    """Beam search as in section 6.1."""

    beam: int = 4
    """Unfinished hypotheses kept in each step."""
    alpha: float = 0.6
    """Exponent of the length penalty; 0 ranks by log-probability alone."""
    length_penalty: Literal["gnmt", "power", "none"] = "gnmt"
    """What the log-probability is divided by: gnmt: ((5 + |Y|) / 6) ** alpha. power: |Y| ** alpha, as in many
    other toolkits. none: 1, for any alpha. |Y| counts eos."""
    stop: Literal["exact", "best", "first_k"] = "exact"
    """When the search of a sentence ends. exact: no unfinished hypothesis can reach the score of the worst of the
    `beam` best finished ones. best: of the nbest-th finished one, the rule of the released code's later versions:
    the same outputs, sooner. first_k: as soon as `beam` hypotheses have finished."""
    max_len_a: float = 1.0
    """Longest output, in tokens without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a; parsing takes 300 (section 6.3)."""
    ban_unk: bool = False
    """Never generate the unknown token."""
    num_beam_groups: int = 1
    """Diverse beam search: the beam is divided into this many groups of equal size, which choose one after another in
    each step (Vijayakumar et al., 2018)."""
    diversity_penalty: float = 0.5
    """With groups, what a candidate loses for each hypothesis of an earlier group that chose the same token in this
    step; the scores of outputs stay those of the model."""

    def __post_init__(self) -> None:
        refuse_outside("search", self, beam=at_least(1, 10_000), alpha=at_least(-10, 10))
        refuse_outside("search", self, num_beam_groups=at_least(1), diversity_penalty=at_least(0))
        _check_limit(self)
        if self.beam % self.num_beam_groups:
            raise ConfigError(
                f"search.beam={self.beam} must be a multiple of search.num_beam_groups={self.num_beam_groups}"
            )

    @property
    def group_size(self) -> int:
        """Hypotheses of a group."""
        return self.beam // self.num_beam_groups


@dataclass(kw_only=True)
class GreedyConfig(Choice):
    """The most probable token at every step."""

    max_len_a: float = 1.0
    """Longest output, in tokens without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a."""
    ban_unk: bool = False
    """Never generate the unknown token."""

    def __post_init__(self) -> None:
        _check_limit(self)


@dataclass(kw_only=True)
class SampleConfig(Choice):
    """Outputs drawn at random; nbest=n draws n of each sentence, independently.

    The random numbers depend on the seed, the source and the sample's number alone: not on other sentences.
    """

    temperature: float = 1.0
    """Log-probabilities are divided by it before drawing; below 1 the distribution is sharper."""
    top_k: int = 0
    """Draw from this many most probable tokens; 0: from all."""
    top_p: float = 1.0
    """Draw from the fewest tokens whose probabilities, after temperature and top_k, sum to this."""
    seed: int = 1
    """Of the random numbers."""
    max_len_a: float = 1.0
    """Longest output, in tokens without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a."""
    ban_unk: bool = False
    """Never generate the unknown token."""

    def __post_init__(self) -> None:
        shares = Range(0, 1, without_low=True)
        refuse_outside("search", self, temperature=above(0), top_k=at_least(0), top_p=shares)
        refuse_outside("search", self, seed=at_least(0, 2**63 - 1))
        _check_limit(self)


def _check_limit(config: BeamConfig | GreedyConfig | SampleConfig) -> None:
    refuse_outside("search", config, max_len_a=at_least(0, 1000), max_len_b=at_least(0, 1_000_000))
    if not config.max_len_a and not config.max_len_b:
        raise ConfigError(
            "search.max_len_a=0 search.max_len_b=0: one must be positive, or no output could have a token"
        )


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.search("beam", BeamConfig, "s2s.decoding.diverse:build_beam_search")
    registry.search("greedy", GreedyConfig, "s2s.decoding.beam_search:greedy")
    registry.search("sample", SampleConfig, "s2s.decoding.sampling:Sampling")


__getattr__ = lazy_names(
    __name__,
    "penalties",
    "constraints",
    "lexical",
    "request",
    "hypotheses",
    "log_probs",
    "streaming",
    "request_queue",
    "beam_search",
)
