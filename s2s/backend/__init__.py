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
    "deterministic_backend",
    "free_memory",
    "linear_function",
    "matmul_rate",
    "padded_attention",
    "prepack",
    "select_matmul",
    "top_k",
    "top_k_log_probs",
    "tree_attention",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.backend.cuda_graph import bucket_size
    from s2s.backend.device import free_memory, matmul_rate
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
    from s2s.backend.linear import deterministic_backend, linear_function, prepack
    from s2s.backend.matmul import select_matmul

__getattr__ = lazy_names(
    __name__,
    "linear",
    "cuda_graph",
    "device",
    "matmul",
    "kernels",
    "kernels.decoder",
    "kernels.beam_search_steps",
    "kernels.linear",
)
