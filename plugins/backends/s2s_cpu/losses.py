"""Losses of each position's logits and their gradients, which overwrite the logits.

A row's result has the same bits whatever the other rows are, so rows are divided among torch's threads.
Shapes: n positions, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["accepts_logits", "consistency_", "label_smoothing_"]

import torch
from torch import Tensor

from s2s.backend import operators
from s2s_cpu.library import call
from s2s_cpu.rules import DTYPE_BITS
from s2s_cpu.threads import compute_in_threads, n_shares


def label_smoothing_(
    logits: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> operators.LossAndGradient:
    """logits [n, V], which become the gradient; target, counts [n]"""
    loss, nll = logits.new_empty((2, len(logits)), dtype=torch.float)
    rows = (logits, target.contiguous(), counts.contiguous(), loss, nll)

    def compute(x: Tensor, y: Tensor, counted: Tensor, *sums: Tensor) -> None:
        scratch = x.new_empty(x.size(1), dtype=torch.float32)
        call("s2s_label_smoothing", x, DTYPE_BITS[x.dtype], *x.shape, y, counted, on_target, on_each, scratch, *sums)

    compute_in_threads(compute, rows, n_shares(*logits.shape))
    return operators.LossAndGradient(loss, nll, logits)


def consistency_(
    logits: Tensor,
    target: Tensor,
    counts: Tensor,
    on_target: float,
    on_each: float,
    weights: operators.ConsistencyWeights,
) -> operators.ConsistencyAndGradient:
    """logits [n, 2, V], which become the gradient; target, counts [n]"""
    n, _, n_symbols = logits.shape
    loss, nll, kl = (logits.new_empty(shape, dtype=torch.float) for shape in ((n,), (n, 2), (n, 2)))
    rows = (logits, target.contiguous(), counts.contiguous(), loss, nll, kl)
    four = torch.tensor(weights, dtype=torch.float32)

    def compute(x: Tensor, y: Tensor, counted: Tensor, *sums: Tensor) -> None:
        scratch = x.new_empty(4 * n_symbols, dtype=torch.float32)
        sizes = DTYPE_BITS[x.dtype], len(x), n_symbols
        call("s2s_consistency", x, *sizes, y, counted, on_target, on_each, four, scratch, *sums)

    compute_in_threads(compute, rows, n_shares(n, 2 * n_symbols))
    return operators.ConsistencyAndGradient(loss, nll, kl, logits)


def accepts_logits(logits: Tensor, *_: object, **__: object) -> bool:
    """Contiguous logits in fp32 or bf16 on a CPU."""
    return logits.is_cpu and logits.dtype in DTYPE_BITS and logits.is_contiguous()
