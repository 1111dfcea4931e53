"""R-Drop (Liang et al., 2021): cross-entropy of two dropout passes, and the divergence between them.

Shapes: N target positions, n of a chunk, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["RDrop"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s import Context, Objective, Sums
from s2s_objectives.chunks import smoothed, sum_over_chunks

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq
    from s2s_objectives import RDropConfig


class RDrop(Objective):
    """Sum over target tokens of CE_1 + CE_2 + alpha / 2 * (KL(p_1 || p_2) + KL(p_2 || p_1)), eq. 4 of the paper.

    Both cross-entropies count, so that the loss is about twice that of objective=label_smoothed.
    """

    extras = ("nll", "kl")
    valid_extras = ()  # without dropout both passes are the same
    packs = True

    def __init__(self, config: RDropConfig, context: Context) -> None:
        self.config, self.context = config, context

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll, the mean of both passes; kl, the mean of both directions. Each per target token."""
        counts, eps = ~batch.tgt_pad.flatten(), self.config.eps

        def sums(first: Tensor, second: Tensor, target: Tensor, counts: Tensor) -> Tensor:
            """[3]: loss, nll, kl"""
            p1, p2 = (model.project(h).log_softmax(-1, dtype=torch.float32) for h in (first, second))  # [n, V]
            nll1, nll2 = (-p.gather(-1, target[:, None])[:, 0] for p in (p1, p2))
            kl = ((p1.exp() - p2.exp()) * (p1 - p2)).sum(-1) / 2
            loss = smoothed(nll1, p1, eps) + smoothed(nll2, p2, eps) + self.config.alpha * kl
            return torch.stack([(x * counts).sum() for x in (loss, (nll1 + nll2) / 2, kl)])

        hidden = [model(*batch.inputs).flatten(0, -2) for _ in range(2)]  # each pass draws its own dropout
        loss, nll, kl = sum_over_chunks(sums, self.config.chunk, [*hidden, batch.tgt_out.flatten(), counts])
        return Sums(loss, counts.sum(), {"nll": nll, "kl": kl})
