"""Two passes over the same targets: cross-entropies, and the divergence of their distributions.

Shapes: N target positions, n in a chunk, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["Consistency", "ConsistencySums"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s.backend import operators
from s2s.nn import LabelSmoothed, LabelSmoothedConfig, Positions, sum_over_chunks

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq


class ConsistencySums(NamedTuple):
    """Sums over non-padding target tokens, in fp32 and in nats; only the first has a gradient."""

    loss: Tensor
    nll_p: Tensor
    nll_q: Tensor
    kl_pq: Tensor
    kl_qp: Tensor


class Consistency:
    """A weighted sum of the smoothed cross-entropies of two passes, p and q, and of both divergences between them."""

    def __init__(self, weights: operators.ConsistencyWeights, eps: float, chunk: int | None) -> None:
        self.label_smoothed = LabelSmoothed(LabelSmoothedConfig(eps=eps))
        self.weights, self.chunk = weights, chunk

    def __call__(self, model: Seq2Seq, batch: Batch, p: Tensor, q: Tensor) -> ConsistencySums:
        """The sums over a batch; p and q are the model's outputs of two passes over it, [B, T, ·] or packed [N, ·]."""
        hidden = torch.stack([p.flatten(0, -2), q.flatten(0, -2)], 1)  # [N, 2, ·]
        positions = Positions(hidden, batch.tgt_out.flatten(), ~batch.tgt_pad.flatten())
        return ConsistencySums(*sum_over_chunks(self, model, positions, self.chunk))

    def sums(self, logits: Tensor, at: Positions) -> ConsistencySums:
        """logits [n, 2, V]: the reference implementation, differentiable by autograd."""
        p, q = logits.log_softmax(-1, dtype=torch.float32).unbind(1)  # each [n, V]
        ce_p, ce_q = (self.label_smoothed.sums_of_log_probs(x, at) for x in (p, q))
        kl_pq, kl_qp = (((a.exp() * (a - b)).sum(-1) * at.counts).sum() for a, b in ((p, q), (q, p)))
        weighted = zip(self.weights, (ce_p.loss, ce_q.loss, kl_pq, kl_qp), strict=True)
        loss = torch.stack([weight * x for weight, x in weighted]).sum()
        return ConsistencySums(loss, ce_p.nll, ce_q.nll, kl_pq.detach(), kl_qp.detach())

    def sums_and_gradient(self, logits: Tensor, at: Positions) -> tuple[ConsistencySums, Tensor]:
        """The sums, and d loss / d logits [n, 2, V], possibly in place."""
        smoothing = self.label_smoothed.weights(logits.size(-1))
        loss, nll, kl, gradient = operators.consistency_(
            logits, at.target, at.counts, smoothing.on_target, smoothing.on_each, self.weights
        )
        return ConsistencySums(loss.sum(), *nll.sum(0), *kl.sum(0)), gradient
