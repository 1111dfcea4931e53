"""The model's number of operations, against which the speed of a GPU or a core is measured."""

from __future__ import annotations

__all__ = ["forward_operations"]

from typing import TYPE_CHECKING

import numpy as np

from s2s_transformer.layers import heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from s2s import Vocab
    from s2s_transformer import TransformerConfig


def forward_operations(config: TransformerConfig, vocab: Vocab, src: Sequence[int], tgt: Sequence[int]) -> float:
    """Multiplications and additions of all products of one forward pass over pairs of these lengths, eos counted.

    Padding is not counted, nor is the half that a causal mask hides. A training step takes three times as many.
    """
    h, d = heads(config), config.d_model
    source, target = np.asarray(src, dtype=float), np.asarray(tgt, dtype=float)
    n_src, n_tgt = source.sum(), target.sum()
    attended = h.n * (h.d_k + h.d_v)  # per query and key
    to_queries_and_out, to_keys_values = attended * d, h.n_kv_heads * (h.d_k + h.d_v) * d
    at_distances = attended * (2 * config.relative_distance + 1) if config.positions == "relative" else 0
    feed_forward = (3 if config.gated else 2) * d * config.d_ff
    seen_src, seen_tgt = (source**2).sum(), (target**2).sum() / 2
    if config.self_attention == "restricted":
        reach = config.neighbourhood // 2
        seen_src = 2 * _near(source, reach) - n_src
        seen_tgt = _near(target, reach)
    layer_operations = to_queries_and_out + to_keys_values + at_distances + feed_forward
    encoder = n_src * layer_operations + attended * seen_src
    decoder = n_tgt * (layer_operations + to_queries_and_out) + n_src * to_keys_values
    decoder += attended * (seen_tgt + (source * target).sum())
    if config.decoder_self_attention == "ssru":
        self_attention = to_queries_and_out + to_keys_values + at_distances
        decoder += n_tgt * (2 * d * d - self_attention) - attended * seen_tgt
    layers = config.n_encoder_layers * encoder + config.n_decoder_layers * decoder
    return float(2 * (layers + n_tgt * d * vocab.tgt))


def _near(lengths: NDArray[np.float64], reach: int) -> float:
    """Number of pairs of a position with itself or one of the `reach` before it, in sequences of these lengths."""
    return float(sum((lengths - distance).clip(min=0).sum() for distance in range(reach + 1)))
