"""How operations are computed: operators that plugins implement, CUDA graphs, prepacked linear maps, devices."""

from __future__ import annotations

__all__ = [
    "Candidates",
    "Capture",
    "ConsistencyAndGradient",
    "ConsistencyWeights",
    "DecoderSublayers",
    "Device",
    "EncoderSublayers",
    "Finished",
    "FusedDecoder",
    "FusedEncoder",
    "FusedModel",
    "FusedState",
    "GrowingState",
    "HasFusedState",
    "HasPrepacked",
    "HasTable",
    "HasWeightRows",
    "LinearBackend",
    "LinearMap",
    "LossAndGradient",
    "Operator",
    "TreeCache",
    "TreePaths",
    "add_dropout",
    "add_dropout_norm",
    "add_norm",
    "apply_dropout",
    "apply_linear",
    "attention_weights",
    "available_memory",
    "bucket_size",
    "consistency_",
    "deterministic_backend",
    "device_of",
    "draw_mask",
    "extend_paths",
    "fused_decoder",
    "fused_encoder",
    "graph_decoding",
    "label_smoothing_",
    "linear_function",
    "lstm",
    "matmul_rate",
    "merge_candidates",
    "merge_finished",
    "pad_to_beam",
    "padded_attention",
    "prepack",
    "release_freed_memory",
    "reorder_paths",
    "search_finished",
    "select_matmul",
    "short_attention",
    "top_k",
    "top_k_log_probs",
    "training_threads",
    "tree_attention",
    "unfinished_candidates",
    "usable_cores",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.backend.cores import usable_cores
    from s2s.backend.cuda_graph import Capture, graph_decoding
    from s2s.backend.device import Device
    from s2s.backend.device_types import device_of
    from s2s.backend.fused import (
        DecoderSublayers,
        EncoderSublayers,
        FusedDecoder,
        FusedEncoder,
        FusedModel,
        FusedState,
        HasFusedState,
        TreeCache,
        fused_decoder,
        fused_encoder,
    )
    from s2s.backend.growing_state import GrowingState, bucket_size, pad_to_beam
    from s2s.backend.host import release_freed_memory, training_threads
    from s2s.backend.linear import (
        HasPrepacked,
        HasTable,
        HasWeightRows,
        LinearBackend,
        LinearMap,
        apply_linear,
        deterministic_backend,
        linear_function,
        prepack,
    )
    from s2s.backend.matmul import select_matmul
    from s2s.backend.memory import available_memory
    from s2s.backend.operators import (
        Candidates,
        ConsistencyAndGradient,
        ConsistencyWeights,
        Finished,
        LossAndGradient,
        Operator,
        TreePaths,
        add_dropout,
        add_dropout_norm,
        add_norm,
        apply_dropout,
        attention_weights,
        consistency_,
        draw_mask,
        extend_paths,
        label_smoothing_,
        lstm,
        merge_candidates,
        merge_finished,
        padded_attention,
        reorder_paths,
        search_finished,
        short_attention,
        top_k,
        top_k_log_probs,
        tree_attention,
        unfinished_candidates,
    )
    from s2s.backend.product_rate import matmul_rate

__getattr__ = lazy_names(
    __name__,
    "operators",
    "linear",
    "cores",
    "cuda_graph",
    "device",
    "device_types",
    "host",
    "matmul",
    "product_rate",
    "memory",
    "fused",
    "growing_state",
)
