"""Label-smoothed cross-entropy and its gradient, without another tensor of the size of the logits.

Each row has the same bits whatever the others are, so rows are divided among as many threads as torch has.
Shapes: n positions, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["label_smoothing_"]

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor

from s2s.backend.kernels.library import call
from s2s.backend.kernels.operator import Operator


class LossAndGradient(NamedTuple):
    """All are 0 where a position does not count."""

    loss: Tensor
    """[n]"""
    nll: Tensor
    """[n], -log p[target]"""
    gradient: Tensor
    """[n, V], of the loss with respect to the logits"""


def _label_smoothing_(
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


def _native_label_smoothing_(
    logits: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> LossAndGradient:
    loss, nll = logits.new_empty((2, len(logits)), dtype=torch.float)
    rows = (logits, target.contiguous(), counts.contiguous(), loss, nll)
    pieces = list(zip(*(t.chunk(torch.get_num_threads()) for t in rows), strict=True))

    def compute(piece: tuple[Tensor, ...]) -> None:
        x, y, counted, *sums = piece
        scratch = torch.empty(x.size(1))
        is_bf16 = int(x.dtype == torch.bfloat16)
        call("s2s_label_smoothing", x, is_bf16, *x.shape, y, counted, on_target, on_each, scratch, *sums)

    if len(pieces) == 1:
        compute(pieces[0])
    else:
        with ThreadPoolExecutor(len(pieces)) as pool:
            list(pool.map(compute, pieces))
    return LossAndGradient(loss, nll, logits)


def _accepts(logits: Tensor, *_: object) -> bool:
    return logits.is_cpu and logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()


label_smoothing_ = Operator(
    "label_smoothing_", reference=_label_smoothing_, native=_native_label_smoothing_, accepts=_accepts
)
