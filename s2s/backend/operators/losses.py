"""Losses of each position and their gradients, which may overwrite the logits.

Shapes: n positions, V target vocabulary.
"""

from __future__ import annotations

__all__ = [
    "ConsistencyAndGradient",
    "ConsistencyWeights",
    "LossAndGradient",
    "consistency_",
    "label_smoothing_",
    "output_loss",
]

from typing import NamedTuple

import torch
from torch import Tensor

from s2s.backend.operators.operator import Operator


class LossAndGradient(NamedTuple):
    """All are 0 where a position does not count."""

    loss: Tensor
    """[n]"""
    nll: Tensor
    """[n], -log p[target]"""
    gradient: Tensor
    """[n, V], of the loss with respect to the logits"""


@Operator
def label_smoothing_(
    logits: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> LossAndGradient:
    """Loss -on_target log p[target] - on_each sum(log p) of each row, and its gradient; `logits` may be overwritten.

    logits [n, V], target [n]; counts [n], False at padding. on_target + V on_each must be 1.
    """
    log_probs = logits.log_softmax(-1, dtype=torch.float32)
    nll = -log_probs.gather(-1, target[:, None]).squeeze(-1)  # [n]
    loss = on_target * nll - on_each * log_probs.sum(-1)
    gradient = log_probs.exp_().sub_(on_each)  # in place, to save another [n, V]
    gradient.scatter_add_(-1, target[:, None], torch.full_like(gradient[:, :1], -on_target))
    left_out = ~counts
    gradient = gradient.masked_fill_(left_out[:, None], 0.0).to(logits.dtype)
    return LossAndGradient(loss.masked_fill(left_out, 0.0), nll.masked_fill(left_out, 0.0), gradient)


@Operator
def output_loss(
    hidden: Tensor, matrix: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> tuple[Tensor, Tensor] | None:
    """Sums of loss and nll of `label_smoothing_`, of which the first has a gradient, for the logits hidden matrix^T.

    hidden [n, D], matrix [V, D]. None: there is no such function, and logits must be computed first.
    """


class ConsistencyWeights(NamedTuple):
    """Weights of the terms of a loss on two distributions p and q over the same target."""

    ce_p: float
    """Of the label-smoothed cross-entropy of p"""
    ce_q: float
    kl_pq: float
    """Of KL(p || q)"""
    kl_qp: float


class ConsistencyAndGradient(NamedTuple):
    """All are 0 where a position does not count."""

    loss: Tensor
    """[n], the weighted sum"""
    nll: Tensor
    """[n, 2], -log p[target] and -log q[target]"""
    kl: Tensor
    """[n, 2], KL(p || q) and KL(q || p)"""
    gradient: Tensor
    """[n, 2, V], of the loss with respect to the logits"""


@Operator
def consistency_(
    logits: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float, weights: ConsistencyWeights
) -> ConsistencyAndGradient:
    """Cross-entropies and divergences of two distributions over each position's target, and the gradient of their sum.

    logits [n, 2, V], which may be overwritten; target [n]; counts [n], False at padding. Cross-entropy is -on_target
    log p[target] - on_each sum(log p), where on_target + V on_each must be 1.
    """
    log_p, log_q = logits.log_softmax(-1, dtype=torch.float32).unbind(1)  # each [n, V]
    p, q, ratio, target = log_p.exp(), log_q.exp(), log_p - log_q, target[:, None]

    def side(
        log_probs: Tensor, probs: Tensor, other: Tensor, ratio: Tensor, ce: float, to: float, back: float
    ) -> tuple[Tensor, ...]:
        """The part of one in the loss [n], its nll [n], its divergence to the other [n], and its logits' gradient."""
        nll, kl = -log_probs.gather(-1, target).squeeze(-1), (probs * ratio).sum(-1)
        loss = ce * (on_target * nll - on_each * log_probs.sum(-1)) + to * kl
        gradient = ce * (probs - on_each) + to * probs * (ratio - kl[:, None]) + back * (probs - other)
        gradient.scatter_add_(-1, target, torch.full_like(gradient[:, :1], -ce * on_target))
        return loss, nll, kl, gradient

    ce_p, ce_q, kl_pq, kl_qp = weights
    grad_p, grad_q = side(log_p, p, q, ratio, ce_p, kl_pq, kl_qp), side(log_q, q, p, -ratio, ce_q, kl_qp, kl_pq)
    loss, nll, kl, gradient = (torch.stack(pair, 1) for pair in zip(grad_p, grad_q, strict=True))
    left_out = ~counts[:, None]
    nll, kl = nll.masked_fill(left_out, 0.0), kl.masked_fill(left_out, 0.0)
    gradient = gradient.masked_fill_(left_out[:, None], 0.0).to(logits.dtype)
    return ConsistencyAndGradient(loss.sum(1).masked_fill(~counts, 0.0), nll, kl, gradient)
