"""Attention of a model to given outputs.

Shapes: T output tokens with eos, S source tokens with eos.
"""

from __future__ import annotations

__all__ = ["attention_weights", "coverage"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from s2s import batch_by_length, make_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from s2s import Seq2Seq, Vocab

Pair = tuple[Sequence[int], Sequence[int]]


def attention_weights(
    model: Seq2Seq,
    vocab: Vocab,
    pairs: Sequence[Pair],
    starts: Sequence[Sequence[int]],
    n_tokens: int,
    layer: int | None,
) -> Iterator[tuple[int, Tensor | None]]:
    """The index of each pair, and the attention [T, S - 1] of its target, with eos, to its source, without eos.

    starts: the starting tokens of each target. n_tokens: of a batch. layer: of the decoder, from 1; None: the model's
    choice. None in place of weights: the architecture gives none.
    """
    device = next(model.parameters(), torch.empty(0)).device
    for indices in batch_by_length(pairs, n_tokens):
        batch = make_batch([pairs[i] for i in indices], vocab, [starts[i] for i in indices]).to(device)
        with torch.no_grad():
            weights = model.attention(batch.src, batch.src_pad, batch.tgt_in, layer)
        weights = None if weights is None else weights.cpu()
        for row, index in enumerate(indices):
            (src, tgt), before = pairs[index], len(starts[index]) - 1  # predictions of starting tokens
            yield index, None if weights is None else weights[row, before : before + len(tgt) + 1, : len(src)]


def coverage(weights: Tensor) -> float:
    """sum_i log(min(sum_j p_ij, 1)), from Wu et al. (2016), eq. 14: weights [T, S] of target j and source i."""
    least = torch.finfo(torch.float32).tiny  # a source token without attention must not make the score -inf
    return float(weights.cpu().double().sum(0).clamp(least, 1.0).log().sum())
