"""The attention weights of layers, for alignments and pictures.

Shapes: B sentences, S source length, T target length, D = d_model, h heads.
"""

from __future__ import annotations

__all__ = ["attention_maps", "cross_attention_weights", "layer_number", "mean_of_heads"]

from typing import TYPE_CHECKING

from s2s import AttentionMap, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor, nn

    from s2s.nn import Layout, PaddedLayoutWithWeights
    from s2s_transformer.layers import DecoderLayer, EncoderLayer


def layer_number(layer: int | None, n_layers: int) -> int:
    """The decoder layer to read, from 1; None: the last but one, which aligns best (Garg et al., 2019, section 4.1).

    Of two layers the second: the first attends for its own input, the token before (`benchmarks/robustness.py`).
    """
    layer = max(min(2, n_layers), n_layers - 1) if layer is None else layer
    if not 1 <= layer <= n_layers:
        raise ConfigError(f"attention_layer={layer}: the decoder has {n_layers}, numbered from 1")
    return layer


def cross_attention_weights(
    layers: Sequence[DecoderLayer], x: Tensor, layout: Layout, memory: Tensor, memory_layout: PaddedLayoutWithWeights
) -> Tensor:
    """The first layer's input x [B, T, D], memory [B, S, D] -> the last layer's weights [B, h, T, S]"""
    for layer in layers:
        x = layer(x, layout, memory, memory_layout)
    assert memory_layout.weights is not None
    return memory_layout.weights.float()


def mean_of_heads(weights: Tensor, n: int | None = None) -> Tensor:
    """Weights [B, h, T, S] -> the mean of the first n heads, or of all: [B, T, S]"""
    return weights[:, :n].mean(1)


def attention_maps(
    encoder: Sequence[EncoderLayer], decoder: Sequence[DecoderLayer], weights: Mapping[nn.Module, Tensor]
) -> list[AttentionMap]:
    """Recorded weights of each attention -> maps [B, h, S, S], [B, h, T, T] and [B, h, T, S] of each layer"""
    maps = [AttentionMap("encoder", n, "src", "src", weights[of.attention]) for n, of in enumerate(encoder, 1)]
    for n, layer in enumerate(decoder, 1):
        if layer.attention in weights:  # a recurrent unit has none
            maps.append(AttentionMap("decoder", n, "tgt", "tgt", weights[layer.attention]))
        if layer.cross_attention:
            maps.append(AttentionMap("cross", n, "tgt", "src", weights[layer.cross_attention]))
    return maps
