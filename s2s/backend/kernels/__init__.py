"""Operators with an implementation in C beside the one in torch, and the table of them.

The functions in C are compiled once, by the machine's own compiler. They take fp32 tensors on a CPU; elsewhere, and
where nothing can be compiled, the reference in torch is called, which the tests hold equal. S2S_KERNELS says which:
auto, torch, or native, which makes it an error that nothing compiles.
"""

from __future__ import annotations

__all__ = [
    "BLOCKED",
    "OPERATORS",
    "Operator",
    "TreePaths",
    "add_norm",
    "attention_weights",
    "dequantize_rows",
    "description",
    "extend_paths",
    "label_smoothing_",
    "merge_candidates",
    "merge_finished",
    "padded_attention",
    "quantize_rows",
    "references_only",
    "reorder_paths",
    "search_finished",
    "top_k",
    "top_k_log_probs",
    "tree_attention",
    "unfinished_candidates",
]

from typing import Any

from s2s.backend.kernels.attention import BLOCKED, TreePaths, attention_weights, padded_attention, tree_attention
from s2s.backend.kernels.beam_search import (
    merge_candidates,
    merge_finished,
    search_finished,
    unfinished_candidates,
)
from s2s.backend.kernels.label_smoothing import label_smoothing_
from s2s.backend.kernels.library import native_library
from s2s.backend.kernels.operator import Operator, references_only
from s2s.backend.kernels.paths import extend_paths, reorder_paths
from s2s.backend.kernels.rows import add_norm, dequantize_rows, quantize_rows
from s2s.backend.kernels.topk import top_k, top_k_log_probs

OPERATORS: dict[str, Operator[Any, Any]] = {
    operator.name: operator
    for operator in (
        top_k,
        top_k_log_probs,
        merge_candidates,
        merge_finished,
        unfinished_candidates,
        search_finished,
        padded_attention,
        tree_attention,
        extend_paths,
        reorder_paths,
        add_norm,
        quantize_rows,
        dequantize_rows,
        label_smoothing_,
    )
}
"""Every operator by its name"""


def description() -> str:
    """Which implementations are used, and why."""
    return native_library().reason
