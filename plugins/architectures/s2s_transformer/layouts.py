"""The positions that self-attention attends to: all, or a neighbourhood, as `arch.self_attention` says.

Shapes: B sentences, S source length, T target length.
"""

from __future__ import annotations

__all__ = ["source_layout", "step_layouts", "target_layout"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from s2s.nn import CachedAttention, PaddedLayout
from s2s_transformer.relative_bias import distances
from s2s_transformer.restricted import BLOCKED, RestrictedLayout, recent_layouts

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.nn import KVCacheState
    from s2s_transformer import TransformerConfig
    from s2s_transformer.relative_bias import RelativeBias
    from s2s_transformer.restricted import Kernel


def source_layout(
    config: TransformerConfig, kernel: Kernel, pad: Tensor, dtype: torch.dtype, relative: RelativeBias | None
) -> PaddedLayout:
    """The encoder's layout: pad [B, S]"""
    if config.self_attention == "restricted":
        return RestrictedLayout(kernel, config.neighbourhood // 2, pad, causal=False)
    layout = PaddedLayout.from_padding(pad, dtype, kernel)
    if relative is None:
        return layout
    return replace(layout, bias=layout.bias + relative(distances(pad.size(1), pad.device)).to(dtype))


def target_layout(
    config: TransformerConfig, kernel: Kernel, tgt: Tensor, dtype: torch.dtype, relative: RelativeBias | None
) -> PaddedLayout:
    """The decoder's layout: tgt [B, T], whose padding needs no masking."""
    if config.self_attention == "restricted":
        nothing = torch.zeros_like(tgt, dtype=torch.bool)
        return RestrictedLayout(kernel, config.neighbourhood // 2, nothing, causal=True)
    if relative is None:
        return PaddedLayout(kernel, causal=True)
    distance = distances(tgt.size(1), tgt.device)
    return PaddedLayout(kernel, (relative(distance) + (distance > 0) * BLOCKED)[None].to(dtype))


def step_layouts(
    config: TransformerConfig, kernel: Kernel, state: KVCacheState, relative: RelativeBias | None
) -> list[CachedAttention]:
    """The layout of each decoder layer in a decoding step."""
    if config.self_attention == "restricted" and config.decoder_self_attention == "attention":
        return recent_layouts(state, kernel, config.neighbourhood // 2)
    if relative is None:
        return CachedAttention.for_layers(state, kernel)
    paths = state.paths
    bias = relative(paths.distance) + paths.bias
    return [CachedAttention(kernel, nodes, paths, bias) for nodes in state.nodes]
