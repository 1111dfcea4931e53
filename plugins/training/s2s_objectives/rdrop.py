"""R-Drop (Liang et al., 2021): cross-entropy of two dropout passes, and the divergence between them."""

from __future__ import annotations

__all__ = ["RDrop"]

from typing import TYPE_CHECKING

from s2s import Context, Objective, Sums
from s2s.backend import operators
from s2s_objectives.consistency import Consistency

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq
    from s2s_objectives import RDropConfig


class RDrop(Objective):
    """Sum over target tokens of CE_1 + CE_2 + alpha / 2 * (KL(p_1 || p_2) + KL(p_2 || p_1)), eq. 4 of the paper.

    Both cross-entropies count, so that the loss is about twice that of objective=label_smoothed.
    """

    extras = ("nll", "kl")
    valid_extras = ()  # without dropout both passes are the same
    supports_packing = True

    def __init__(self, config: RDropConfig, context: Context) -> None:
        half = config.alpha / 2
        self.consistency = Consistency(operators.ConsistencyWeights(1.0, 1.0, half, half), config.eps, config.chunk)

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll, the mean of both passes; kl, the mean of both directions. Each per target token."""
        hidden = [model(*batch.inputs) for _ in range(2)]  # each pass draws its own dropout
        loss, nll_p, nll_q, kl_pq, kl_qp = self.consistency(model, batch, *hidden)
        return Sums(loss, (~batch.tgt_pad).sum(), {"nll": (nll_p + nll_q) / 2, "kl": (kl_pq + kl_qp) / 2})
