"""Operators: functions in torch that plugins implement for some devices and types, and the table of them."""

from __future__ import annotations

__all__ = [
    "OPERATORS",
    "AttentionMaps",
    "Candidates",
    "ConsistencyAndGradient",
    "ConsistencyWeights",
    "Finished",
    "Kernel",
    "LossAndGradient",
    "SamplingRule",
    "TreePaths",
    "add_dropout",
    "add_dropout_norm",
    "add_norm",
    "apply_dropout",
    "attention_weights",
    "consistency_",
    "draw_mask",
    "extend_paths",
    "label_smoothing_",
    "lstm",
    "merge_candidates",
    "merge_finished",
    "output_loss",
    "padded_attention",
    "projected_attention",
    "random_int64",
    "reorder_paths",
    "sample_tokens",
    "search_finished",
    "short_attention",
    "tiled_attention",
    "top_k",
    "top_k_log_probs",
    "tree_attention",
    "unfinished_candidates",
]

from typing import Any

from s2s.backend.operators.attention import (
    AttentionMaps,
    Kernel,
    TreePaths,
    attention_weights,
    padded_attention,
    projected_attention,
    short_attention,
    tiled_attention,
    tree_attention,
)
from s2s.backend.operators.beam_search import (
    Candidates,
    Finished,
    merge_candidates,
    merge_finished,
    search_finished,
    unfinished_candidates,
)
from s2s.backend.operators.losses import (
    ConsistencyAndGradient,
    ConsistencyWeights,
    LossAndGradient,
    consistency_,
    label_smoothing_,
    output_loss,
)
from s2s.backend.operators.operator import Operator
from s2s.backend.operators.paths import extend_paths, reorder_paths
from s2s.backend.operators.recurrence import lstm
from s2s.backend.operators.rows import add_dropout, add_dropout_norm, add_norm, apply_dropout, draw_mask, random_int64
from s2s.backend.operators.sampling import SamplingRule, sample_tokens
from s2s.backend.operators.topk import top_k, top_k_log_probs

OPERATORS: dict[str, Operator[Any, Any]] = {
    name: value for name, value in globals().items() if isinstance(value, Operator)
}
"""The operators on tensors only, by name"""
