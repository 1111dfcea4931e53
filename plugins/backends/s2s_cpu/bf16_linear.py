"""Products of linear maps in bf16 for training, by AMX tiles or AVX512-BF16.

The functions in C take fp32 or bf16, round to bf16 themselves, sum in fp32, and add biases in the same pass, so that
nothing is converted before or after. Rows, or the outputs of a weight's gradient, are divided among torch's threads; a
row's result has the same bits in any batch.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = [
    "apply_weight",
    "has_bf16_linear",
    "input_gradient",
    "n_product_shares",
    "parameter_gradients",
    "uses_bf16_linear",
    "weight_gradient",
]

import functools

import torch
from torch import Tensor

from s2s_cpu.library import call, constant, native_library
from s2s_cpu.rules import DTYPE_BITS
from s2s_cpu.threads import PRODUCTS_PER_VALUE, compute_in_threads, compute_rows, n_shares

DEPTH = 32
"""Inputs of a block; the number of inputs must be a multiple of it"""
MAX_THREADS = 8
"""Each thread lays out all weights for itself; with more threads that takes longer than the products"""
TILE_SPEED = 8
"""How many times as many products tiles compute as vectors in the same time"""


@functools.cache
def has_bf16_linear() -> bool:
    """Whether there are functions in C, and this processor multiplies values in bf16."""
    return native_library().functions is not None and constant("s2s_has_bf16_linear") == 1


def uses_bf16_linear(n_inputs: int) -> bool:
    """Whether these functions are used here for rows of `n_inputs` values."""
    return has_bf16_linear() and n_inputs % DEPTH == 0 and torch.get_num_threads() <= MAX_THREADS


def n_product_shares(n_rows: int, products_of_row: int) -> int:
    """`n_shares` of rows that take this many multiplications each."""
    speed = TILE_SPEED if constant("s2s_may_use_tiles") else 1
    return n_shares(n_rows, products_of_row // (PRODUCTS_PER_VALUE * speed))


def apply_weight(x: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """x [..., I] in fp32 or bf16, contiguous; weight [O, I] and bias [O] in fp32 -> [..., O] in bf16

    relu: negative outputs become 0.
    """
    n_outputs, n_inputs = weight.shape

    def compute(x: Tensor, out: Tensor) -> None:
        rows = DTYPE_BITS[x.dtype], x.numel() // n_inputs, n_inputs
        call("s2s_bf16_linear", x, *rows, weight, n_outputs, bias, relu, out)

    out = x.new_empty(*x.shape[:-1], n_outputs, dtype=torch.bfloat16)
    compute_rows(compute, (x, out), n_product_shares(x.numel() // n_inputs, weight.numel()))
    return out


def input_gradient(d_out: Tensor, weight: Tensor, dtype: torch.dtype, where: Tensor | None = None) -> Tensor:
    """d_out [..., O] in bf16, contiguous; weight [O, I] in fp32 -> d_out weight [..., I], in fp32 or bf16

    where [..., I] in bf16, contiguous: the gradient is 0 where it is not positive.
    """
    n_outputs, n_inputs = weight.shape

    def compute(d_out: Tensor, where: Tensor | None, dx: Tensor) -> None:
        rows = d_out.numel() // n_outputs, n_outputs
        call("s2s_bf16_linear_dx", d_out, *rows, weight, n_inputs, where, dx, DTYPE_BITS[dtype])

    dx = d_out.new_empty(*d_out.shape[:-1], n_inputs, dtype=dtype)
    compute_rows(compute, (d_out, where, dx), n_product_shares(d_out.numel() // n_outputs, weight.numel()))
    return dx


def weight_gradient(d_out: Tensor, x: Tensor, d_bias: Tensor | None) -> Tensor:
    """d_out [..., O] in bf16, x [..., I] in fp32 or bf16 -> the sum over rows of d_out^T x [O, I] in fp32, and that of
    d_out in d_bias [O]"""
    n_outputs, n_inputs, d_out, x = d_out.size(-1), x.size(-1), d_out.contiguous(), x.contiguous()
    n_rows, bits = d_out.numel() // n_outputs, DTYPE_BITS[x.dtype]

    def compute(d_out: Tensor, dw: Tensor, db: Tensor | None) -> None:
        """d_out: from the first of a share of the columns on"""
        call("s2s_bf16_linear_dw", d_out, n_outputs, n_rows, dw.size(0), x, bits, n_inputs, dw, db)

    dw = x.new_empty(n_outputs, n_inputs, dtype=torch.float32)
    n = n_product_shares(n_outputs, n_rows * n_inputs)
    compute_in_threads(compute, (d_out if n == 1 else d_out.flatten(0, -2).t(), dw, d_bias), n)
    return dw


def parameter_gradients(d_out: Tensor, x: Tensor, *, has_bias: bool) -> tuple[Tensor, Tensor | None]:
    """d_out [..., O], x [..., I] -> those of the weight [O, I] and of the bias [O]"""
    d_bias = d_out.new_empty(d_out.size(-1), dtype=torch.float32) if has_bias else None
    return weight_gradient(d_out, x, d_bias), d_bias
