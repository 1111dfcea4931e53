"""How operations are computed: C kernels, CUDA graphs, prepacked linear maps, and the selection among them."""

from __future__ import annotations

__all__ = [
    "OPERATORS",
    "DecoderSublayers",
    "FusedDecoder",
    "FusedModel",
    "FusedState",
    "Operator",
    "PrepackedLinear",
    "TreeCache",
    "add_norm",
    "attention_weights",
    "bucket_size",
    "linear_function",
    "padded_attention",
    "top_k",
    "top_k_log_probs",
    "tree_attention",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.backend.cuda_graph import bucket_size
    from s2s.backend.kernels import (
        OPERATORS,
        Operator,
        add_norm,
        attention_weights,
        padded_attention,
        top_k,
        top_k_log_probs,
        tree_attention,
    )
    from s2s.backend.kernels.beam_search_steps import FusedModel, FusedState
    from s2s.backend.kernels.decoder import DecoderSublayers, FusedDecoder, TreeCache
    from s2s.backend.kernels.linear import PrepackedLinear
    from s2s.backend.linear import linear_function

__getattr__ = lazy_names(
    __name__, "linear", "cuda_graph", "kernels", "kernels.decoder", "kernels.beam_search_steps", "kernels.linear"
)
