"""The model's number of operations, against which the speed of a GPU or a core is measured."""

from __future__ import annotations

__all__ = ["forward_operations"]

from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from s2s.nn import Linear
from s2s_recurrent.cells import GroupedLinear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_recurrent.model import RNN


def forward_operations(model: RNN, src: Sequence[int], tgt: Sequence[int]) -> float:
    """Multiplications and additions of all products of one forward pass over pairs of these lengths, eos counted.

    Padding is not counted. A training step takes three times as many.
    """
    source, target = np.asarray(src, dtype=float), np.asarray(tgt, dtype=float)
    n_src, n_tgt, n_pairs, pairs = source.sum(), target.sum(), len(source), (source * target).sum()
    attention, decoder = model.decoder.attention, weights(model.decoder)
    total = n_src * weights(model.encoder) + n_pairs * sum(map(weights, model.starts)) + n_tgt * weights(model.softmax)
    if attention is not None:
        d_memory = sum(column.d_out for column in model.encoder.columns)
        keys = weights(attention.keys)
        d_key = attention.keys.out_features if isinstance(attention.keys, Linear) else d_memory
        total += n_src * keys + pairs * (d_key + d_memory)
        decoder -= keys
    return float(2 * (total + n_tgt * decoder))


def weights(module: object) -> int:
    """Number of weights in a module's linear maps, each of which is used once per vector."""
    assert isinstance(module, nn.Module)
    return sum(
        part.weight.numel() if isinstance(part, GroupedLinear) else part.in_features * part.out_features
        for part in module.modules()
        if isinstance(part, Linear | GroupedLinear)
    )
