"""Searches that a configuration can select, and the contract between a search and its callers (`contract`)."""

from __future__ import annotations

__all__ = [
    "ActiveBatch",
    "ActiveSentence",
    "AffineTransform",
    "BatchConstraint",
    "BeamConfig",
    "BeamSearch",
    "Beams",
    "Candidates",
    "ConstraintSet",
    "FinishedHypotheses",
    "FixedWidthConstraint",
    "GreedyConfig",
    "Hypothesis",
    "LogitsTransform",
    "Run",
    "SampleConfig",
    "Search",
    "SearchConfig",
    "SearchRequest",
    "SearchResult",
    "SentenceConstraint",
    "SentenceQueue",
    "SourceSentence",
    "StackAutomaton",
    "StreamingSearch",
    "TokenWindow",
    "fused_steps",
    "greedy",
    "option_rules",
    "search_all",
    "start_sentences",
]

from typing import TYPE_CHECKING

from s2s.decoding.config import BeamConfig, BiasConfig, GreedyConfig, SampleConfig, SearchConfig, ShortlistConfig
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl

if TYPE_CHECKING:
    from s2s.decoding.batch_constraint import BatchConstraint, SentenceConstraint
    from s2s.decoding.beam_search import BeamSearch, fused_steps, greedy
    from s2s.decoding.beams import Beams
    from s2s.decoding.candidates import Candidates, FinishedHypotheses
    from s2s.decoding.constraints import ConstraintSet, FixedWidthConstraint, StackAutomaton
    from s2s.decoding.contract import Search, SearchRequest, search_all
    from s2s.decoding.queue import SentenceQueue
    from s2s.decoding.sentences import ActiveSentence, Hypothesis, SearchResult, SourceSentence
    from s2s.decoding.starting import start_sentences
    from s2s.decoding.streaming import ActiveBatch, Run, StreamingSearch
    from s2s.decoding.token_constraints import TokenWindow, option_rules
    from s2s.decoding.transforms import AffineTransform, LogitsTransform
    from s2s.registry import Registry


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.search("greedy", GreedyConfig, "s2s.decoding.beam_search:greedy")
    registry.add("streamed_search", "greedy", GreedyConfig, GreedyConfig.as_beam)
    registry.add("logits_transform", "bias", BiasConfig, "s2s.decoding.token_transforms:token_bias")
    registry.add("logits_transform", "shortlist", ShortlistConfig, "s2s.decoding.token_transforms:token_shortlist")


__getattr__ = lazy_names(
    __name__,
    "sentences",  # these first: reading and writing texts finds its names without torch
    "batch_constraint",
    "queue",
    "candidates",
    "constraints",
    "token_constraints",
    "contract",
    "model_scores",
    "history",
    "transforms",
    "streaming",
    "starting",
    "beams",
    "beam_search",
)
