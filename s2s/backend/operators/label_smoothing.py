"""Label-smoothed cross-entropy and its gradient, without another tensor of the size of the logits.

Shapes: n positions, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["LossAndGradient", "label_smoothing_"]

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
    gradient = log_probs.exp_().sub_(on_each)  # in place: [n, V] is what must stay small
    gradient.scatter_add_(-1, target[:, None], torch.full_like(gradient[:, :1], -on_target)).mul_(counts[:, None])
    return LossAndGradient(loss * counts, nll * counts, gradient.to(logits.dtype))
