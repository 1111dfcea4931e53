"""Which operator each function implements, and the arguments that it takes."""

from __future__ import annotations

__all__ = ["implement"]

from typing import TYPE_CHECKING, Any

import torch

from s2s.backend import fused, linear, operators
from s2s.decoding import fused_steps
from s2s_cpu import (
    attention,
    beam_search,
    linear_backends,
    losses,
    lstm,
    output_loss,
    projected_attention,
    quantization,
    residual,
    rows,
    sampling,
    stream_model,
    stream_search,
    training_feed_forward,
    training_linear,
)
from s2s_cpu.beam_search_steps import beam_search_steps
from s2s_cpu.fused_layers import FusedEncoder, accepts_layers, fused_decoder
from s2s_cpu.library import native_library
from s2s_cpu.rules import in_torch_func
from s2s_cpu.short_attention import short_attention
from s2s_cpu.tiled_attention import tiled_attention
from s2s_cpu.training_attention import accepts_attention

if TYPE_CHECKING:
    from collections.abc import Callable


def implement() -> str:
    """Let operators call the functions that this machine has; returns which kernels are used, and why."""
    linear.prepack.implement(linear_backends.prepack, on_cpu)
    linear.has_int8.implement(linear_backends.has_int8, lambda: True)
    linear.deterministic_backend.implement(linear_backends.deterministic_backend, on_cpu)
    linear.apply_linear.implement(training_linear.linear, training_linear.accepts_linear)
    linear.apply_feed_forward.implement(training_feed_forward.feed_forward, training_feed_forward.accepts_feed_forward)
    functions, reason = native_library()
    if functions is None:
        return reason
    operators.top_k.implement(beam_search.top_k, fp32(0))
    operators.top_k_log_probs.implement(beam_search.top_k_log_probs, fp32(0))
    operators.merge_candidates.implement(beam_search.merge_candidates, fp32(0, 2))
    operators.merge_finished.implement(beam_search.merge_finished, beam_search.accepts_merge_finished)
    operators.unfinished_candidates.implement(
        beam_search.unfinished_candidates, beam_search.accepts_unfinished_candidates
    )
    operators.search_finished.implement(beam_search.search_finished, fp32(0, 1))
    operators.sample_tokens.implement(sampling.sample_tokens, sampling.accepts_logits)
    operators.padded_attention.implement(
        attention.padded_attention, fp32(0, 1, 2, also=attention.accepts_padded_attention)
    )
    operators.tree_attention.implement(
        attention.tree_attention, fp32(0, 1, 2, 3, also=attention.accepts_tree_attention)
    )
    operators.extend_paths.implement(beam_search.extend_paths, beam_search.accepts_paths)
    operators.reorder_paths.implement(beam_search.reorder_paths, beam_search.accepts_paths)
    operators.add_norm.implement(rows.add_norm, rows.accepts_add_norm)
    operators.random_int64.implement(residual.random_int64, lambda *_: not in_torch_func())
    operators.apply_dropout.implement(residual.apply_dropout, residual.accepts_dropout)
    operators.add_dropout.implement(residual.add_dropout, residual.accepts_sum)
    operators.add_dropout_norm.implement(residual.add_dropout_norm, residual.accepts_sum_and_norm)
    operators.label_smoothing_.implement(losses.label_smoothing_, losses.accepts_logits)
    operators.output_loss.implement(output_loss.output_loss, output_loss.accepts_output)
    operators.consistency_.implement(losses.consistency_, losses.accepts_logits)
    operators.lstm.implement(lstm.lstm, lstm.accepts_lstm)
    operators.short_attention.implement(short_attention, accepts_attention)
    operators.tiled_attention.implement(tiled_attention, accepts_attention)
    operators.projected_attention.implement(
        projected_attention.projected_attention, projected_attention.accepts_projected_attention
    )
    fused.fused_decoder.implement(fused_decoder, accepts_layers)
    fused.fused_encoder.implement(FusedEncoder, accepts_layers)
    fused_steps.implement(beam_search_steps, lambda *_: True)
    fused.stream_search.implement(stream_search.StreamSearch, stream_model.accepts_models)
    quantization.quantize_rows.implement(rows.quantize_rows, fp32(0))
    quantization.dequantize_rows.implement(rows.dequantize_rows, fp32(0, 1, 2, also=contiguous))
    return reason


def fp32(*which: int, also: Callable[..., bool] | None = None) -> Callable[..., bool]:
    """A rule: the arguments at these indices are fp32 tensors on a CPU, and `also` accepts all arguments."""

    def accepts(*args: Any, **kwargs: Any) -> bool:
        for i in which:
            x = args[i]
            if x.dtype is not torch.float32 or not x.is_cpu:
                return False
        return also is None or also(*args, **kwargs)

    return accepts


def on_cpu(model: torch.nn.Module, *_: object) -> bool:
    """Whether all parameters of the model are on a CPU."""
    return all(p.is_cpu for p in model.parameters())


def contiguous(x: torch.Tensor, *_: object) -> bool:
    """Whether x, which is written in place, is contiguous."""
    return x.is_contiguous()
