"""Argument checks that several modules of functions in C share."""

from __future__ import annotations

__all__ = ["DTYPE_BITS", "WIDTH_MULTIPLE", "in_torch_func", "is_ordinary"]

import torch
from torch import Tensor, nn

DTYPE_BITS = {torch.float32: 32, torch.bfloat16: 16}
"""The types that functions for training take, and their bits"""
WIDTH_MULTIPLE = 16
"""The width of a row must be a multiple of this, which is the largest number of floats in a vector register"""


def in_torch_func() -> bool:
    """Whether torch.func transforms this call, which functions in C do not support."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_ordinary(x: Tensor) -> bool:
    """Whether x is a plain tensor or parameter, not a subclass such as a part of a tensor spread over processes."""
    return type(x) in (Tensor, nn.Parameter)
