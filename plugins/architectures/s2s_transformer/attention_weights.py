"""The attention weights of a model, for alignments and pictures.

Shapes: B sentences, S source length, T target length, h heads.
"""

from __future__ import annotations

__all__ = ["attention_maps", "cross_attention_weights"]

from typing import TYPE_CHECKING

from s2s import AttentionMap, ConfigError
from s2s.nn import PaddedLayoutWithWeights, recording_weights
from s2s_transformer.layouts import target_layout

if TYPE_CHECKING:
    from torch import Tensor

    from s2s_transformer.model import Transformer


def cross_attention_weights(
    model: Transformer, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None
) -> Tensor | None:
    """src, pad [B, S], tgt [B, T] -> [B, T, S], the mean of a decoder layer's heads; None without cross-attention.

    layer: from 1; None: the last but one, which aligns best (Garg et al., 2019, section 4.1).
    """
    n_layers = len(model.decoder)
    layer = max(1, n_layers - 1) if layer is None else layer
    if not 1 <= layer <= n_layers:
        raise ConfigError(f"attention_layer={layer}: the decoder has {n_layers}, numbered from 1")
    if model.config.cross_attention == "none":
        return None
    memory = model.encode(src, pad)
    x, _ = model.target_input(tgt, memory)
    memory_layout = PaddedLayoutWithWeights.from_padding(memory.pad, x.dtype, model.kernel)
    for decoder_layer in list(model.decoder)[:layer]:
        x = decoder_layer(x, target_layout(model.config, model.kernel, tgt), memory.hidden, memory_layout)
    assert memory_layout.weights is not None
    weights = memory_layout.weights.float().mean(1)
    return model.words.spread(weights, src, pad) if model.pooled else weights


def attention_maps(model: Transformer, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
    """src, pad [B, S], tgt [B, T] -> each layer's weights, [B, h, S, S], [B, h, T, T] and [B, h, T, S]"""
    with recording_weights(model) as weights:
        model(src, pad, tgt)
    maps = [AttentionMap("encoder", n, "src", "src", weights[of.attention]) for n, of in enumerate(model.encoder, 1)]
    for n, layer in enumerate(model.decoder, 1):
        maps.append(AttentionMap("decoder", n, "tgt", "tgt", weights[layer.attention]))
        if layer.cross_attention:
            maps.append(AttentionMap("cross", n, "tgt", "src", weights[layer.cross_attention]))
    return maps
