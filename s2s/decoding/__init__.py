"""Searches that a configuration can select, and the contract between a search and its callers.

A search uses only `encode`, `start` and `step` of a `Seq2Seq`, and only `reorder`, `select` and `join` of its `State`,
so every search works with every architecture.
"""

from __future__ import annotations

__all__ = [
    "PENALTIES",
    "ActiveBatch",
    "ActiveSentence",
    "BeamAllocation",
    "BeamConfig",
    "BeamSearch",
    "Beams",
    "Candidates",
    "ConstraintSet",
    "FinishedHypotheses",
    "FixedQueue",
    "FixedWidthConstraint",
    "GreedyConfig",
    "GrowingConstraint",
    "Hypothesis",
    "Search",
    "SearchConfig",
    "SearchRequest",
    "SearchResult",
    "SentenceConstraint",
    "SentenceQueue",
    "SourceBatch",
    "SourceSentence",
    "StackAutomaton",
    "StreamingSearch",
    "fused_steps",
    "gather_hypotheses",
    "greedy",
    "log_probs",
    "max_output_length",
    "search_all",
    "start_sentences",
]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from s2s.config.ranges import at_least, check_ranges
from s2s.errors import ConfigError
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.decoding.beam_search import BeamSearch, fused_steps, greedy
    from s2s.decoding.constraints import (
        BeamAllocation,
        ConstraintSet,
        FixedWidthConstraint,
        GrowingConstraint,
        SentenceConstraint,
        StackAutomaton,
    )
    from s2s.decoding.hypotheses import Beams, Candidates, FinishedHypotheses
    from s2s.decoding.model_scores import gather_hypotheses, log_probs
    from s2s.decoding.penalties import PENALTIES
    from s2s.decoding.request import (
        FixedQueue,
        SearchRequest,
        SentenceQueue,
        SourceBatch,
        SourceSentence,
        search_all,
    )
    from s2s.decoding.starting import max_output_length, start_sentences
    from s2s.decoding.streaming import ActiveBatch, ActiveSentence, StreamingSearch


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
    source_labels: list[int] | None = None
    """For each source word the index in `Vocab.labels` of its most probable label; None unless requested"""


@dataclass(frozen=True)
class SearchResult:
    """The outputs of one sentence."""

    index: int
    """Of the `SourceSentence`"""
    hypotheses: list[Hypothesis]
    """Best first; fewer than requested if the search found no more, none if no allowed output fits the length limit"""


class Search(Protocol):
    """Finds outputs of high probability."""

    def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """One result for each sentence of `request.queue`, as soon as it is known, in any order."""


@dataclass(kw_only=True)
class SearchConfig(Choice):
    """Options of every search: a limit on the length of outputs."""

    max_len_a: float = 1.0
    """Maximum output length, in tokens without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a; parsing takes 300 (section 6.3)."""
    ban_unk: bool = False
    """Never generate the unknown token."""

    def __post_init__(self) -> None:
        check_ranges("search", self, max_len_a=at_least(0, 1000), max_len_b=at_least(0, 1_000_000))
        if not self.max_len_a and not self.max_len_b:
            raise ConfigError(
                "search.max_len_a=0 search.max_len_b=0: one must be positive, or no output could have a token"
            )


@dataclass(kw_only=True)
class BeamConfig(SearchConfig):
    """Beam search as in section 6.1."""

    beam: int = 4
    """Unfinished hypotheses kept at each step."""
    alpha: float = 0.6
    """Exponent of the length penalty; 0 ranks by log-probability alone."""
    length_penalty: Literal["gnmt", "power", "none"] = "gnmt"
    """Divisor of the log-probability. gnmt: ((5 + |Y|) / 6) ** alpha. power: |Y| ** alpha, as in many other toolkits.
    none: 1, for any alpha. |Y| counts eos."""
    stop: Literal["best", "exact", "first_k"] = "best"
    """When the search of a sentence ends. best: when no unfinished hypothesis can reach the score of the nbest-th
    finished one, the rule of the released code's later versions. exact: when none can reach that of the worst of the
    `beam` best finished ones; the outputs are the same, but take longer (with groups they differ, since finished
    hypotheses carry no diversity penalty). first_k: when `beam` hypotheses have finished, even if a better one may
    follow."""

    def __post_init__(self) -> None:
        check_ranges("search", self, beam=at_least(1, 10_000), alpha=at_least(-10, 10))
        super().__post_init__()


@dataclass(kw_only=True)
class GreedyConfig(SearchConfig):
    """The most probable token at every step."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.search("greedy", GreedyConfig, "s2s.decoding.beam_search:greedy")


__getattr__ = lazy_names(
    __name__,
    "penalties",
    "constraints",
    "request",
    "hypotheses",
    "model_scores",
    "starting",
    "streaming",
    "beam_search",
)
