"""Sums over target positions that never hold the logits of all of them, and what is summed.

Shapes: N target positions, n of a chunk, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["smoothed", "sum_over_chunks"]

from typing import TYPE_CHECKING

from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def sum_over_chunks(function: Callable[..., Tensor], size: int, tensors: Sequence[Tensor]) -> Tensor:
    """The sum of `function` over pieces of at most `size` positions of tensors [N, …]; backward computes them again."""
    chunks = zip(*(t.split(size) for t in tensors), strict=True)
    sums = [checkpoint(function, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
    return sum(sums[1:], sums[0])


def smoothed(nll: Tensor, log_probs: Tensor, eps: float) -> Tensor:
    """Cross-entropy [n] against smoothed labels, eps / (V - 1) on each wrong token: nll [n], log_probs [n, V] -> [n]"""
    wrong = eps / (log_probs.size(-1) - 1)
    return (1 - eps - wrong) * nll - wrong * log_probs.sum(-1)
