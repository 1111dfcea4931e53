"""The arithmetic of the model: what a GPU's or a core's speed is measured against."""

from __future__ import annotations

__all__ = ["forward_operations"]

from typing import TYPE_CHECKING

import numpy as np

from s2s_transformer.layers import heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Vocab
    from s2s_transformer import TransformerConfig


def forward_operations(config: TransformerConfig, vocab: Vocab, src: Sequence[int], tgt: Sequence[int]) -> float:
    """Multiplications and additions of all products of one forward pass over pairs of these lengths, eos counted.

    Padding is not counted, nor is half of what a causal mask hides. A training step takes three times as many.
    """
    h, d = heads(config), config.d_model
    source, target = np.asarray(src, dtype=float), np.asarray(tgt, dtype=float)
    n_src, n_tgt = source.sum(), target.sum()
    attended = h.n * (h.d_k + h.d_v)  # by a query, at each key
    two_maps = attended * d  # to queries and from values; or to keys and values
    feed_forward = 2 * d * config.d_ff
    encoder = n_src * (2 * two_maps + feed_forward) + attended * (source**2).sum()
    decoder = n_tgt * (3 * two_maps + feed_forward) + n_src * two_maps
    decoder += attended * ((target**2).sum() / 2 + (source * target).sum())
    layers = config.n_encoder_layers * encoder + config.n_decoder_layers * decoder
    return float(2 * (layers + n_tgt * d * vocab.tgt))
