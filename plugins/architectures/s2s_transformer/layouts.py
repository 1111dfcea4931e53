"""The positions that self-attention attends to: all, or a neighbourhood, as `arch.self_attention` says.

Shapes: B sentences, S source length, T target length.
"""

from __future__ import annotations

__all__ = ["source_layout", "step_layouts", "target_layout"]

from typing import TYPE_CHECKING

import torch

from s2s.nn import CachedAttention, PaddedLayout
from s2s_transformer.restricted import RestrictedLayout, recent_layouts

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.nn import KVCacheState
    from s2s_transformer import TransformerConfig
    from s2s_transformer.restricted import Kernel


def source_layout(config: TransformerConfig, kernel: Kernel, pad: Tensor, dtype: torch.dtype) -> PaddedLayout:
    """The encoder's layout: pad [B, S]"""
    if config.self_attention == "restricted":
        return RestrictedLayout(kernel, config.neighbourhood // 2, pad, causal=False)
    return PaddedLayout.from_padding(pad, dtype, kernel)


def target_layout(config: TransformerConfig, kernel: Kernel, tgt: Tensor) -> PaddedLayout:
    """The decoder's layout: tgt [B, T], whose padding needs no masking."""
    if config.self_attention == "restricted":
        nothing = torch.zeros_like(tgt, dtype=torch.bool)
        return RestrictedLayout(kernel, config.neighbourhood // 2, nothing, causal=True)
    return PaddedLayout(kernel, causal=True)


def step_layouts(config: TransformerConfig, kernel: Kernel, state: KVCacheState) -> list[CachedAttention]:
    """The layout of each decoder layer in a decoding step."""
    if config.self_attention == "restricted":
        return recent_layouts(state, kernel, config.neighbourhood // 2)
    return CachedAttention.for_layers(state, kernel)
