"""The loss of logits that are products of rows and a matrix, in bf16, with the gradients of both: no logits are held.

Rows are divided among torch's threads. Shapes: N positions, D width, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["accepts_output", "output_loss"]

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s2s_cpu.bf16_linear import n_product_shares, uses_bf16_linear
from s2s_cpu.library import call
from s2s_cpu.rules import DTYPE_BITS
from s2s_cpu.threads import compute_in_threads
from s2s_cpu.training_linear import are_linear_parameters, is_in_bf16

MAX_VALUES = 1 << 25
"""Largest size of the matrix times the number of shares, each of which takes up to 14 bytes for a value of the matrix.
Of 37,000 by 512, four shares took 656 MB and one 195; logits in chunks take 230 MB with any number of threads."""


def output_loss(
    hidden: Tensor, matrix: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> tuple[Tensor, Tensor]:
    """hidden [N, D], matrix [V, D], target, counts [N]"""
    sums: tuple[Tensor, Tensor] = _OutputLoss.apply(hidden, matrix, target, counts, on_target, on_each)
    return sums


def accepts_output(hidden: Tensor, matrix: Tensor, *_: object) -> bool:
    """Where a function in C multiplies hidden and the matrix in bf16, and both have gradients; not for a large matrix
    and many threads, for which logits take less memory."""
    trained = hidden.requires_grad and matrix.requires_grad and hidden.dim() == 2
    if not (trained and is_in_bf16(hidden) and are_linear_parameters(hidden.size(1), matrix, None)):
        return False
    return uses_bf16_linear(hidden.size(1)) and share_count(hidden, matrix) * matrix.numel() <= MAX_VALUES


def share_count(hidden: Tensor, matrix: Tensor) -> int:
    """Into how many shares the rows are divided."""
    return n_product_shares(len(hidden), 3 * matrix.numel())


class _OutputLoss(torch.autograd.Function):
    """The forward pass computes the gradients, which the backward pass only scales."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, matrix: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
    ) -> tuple[Tensor, Tensor]:
        hidden, matrix = hidden.contiguous(), matrix.contiguous()
        n = share_count(hidden, matrix)
        sums = hidden.new_empty(2, len(hidden), dtype=torch.float32)
        d_hidden, d_matrix = torch.empty_like(hidden), matrix.new_empty(n, *matrix.shape)
        rows = (hidden, target.contiguous(), counts.contiguous(), *sums, d_hidden)

        def compute(x: Tensor, y: Tensor, counted: Tensor, loss: Tensor, nll: Tensor, dx: Tensor, dw: Tensor) -> None:
            sizes = DTYPE_BITS[x.dtype], *x.shape
            call("s2s_output_loss", x, *sizes, matrix, len(matrix), y, counted, on_target, on_each, loss, nll, dx, dw)

        compute_in_threads(compute, (*rows, d_matrix), n)
        ctx.save_for_backward(d_hidden, d_matrix.sum(0) if n > 1 else d_matrix[0])
        loss, nll = sums.sum(1)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient.mul_(d_loss) for gradient in ctx.saved_tensors), None, None, None, None
