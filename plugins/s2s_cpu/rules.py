"""What the functions in C of several modules accept."""

from __future__ import annotations

__all__ = ["MULTIPLE", "TYPES", "in_torch_func", "is_ordinary"]

import torch
from torch import Tensor, nn

TYPES = {torch.float32: 32, torch.bfloat16: 16}
"""Bits of the types that functions of training take"""
MULTIPLE = 16
"""Of which the width of a row must be one: no vector has more floats"""


def in_torch_func() -> bool:
    """Whether torch.func transforms this call, which functions in C do not know."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_ordinary(x: Tensor) -> bool:
    """Neither a part of a tensor on other processes, nor anything else that only looks like a tensor."""
    return type(x) in (Tensor, nn.Parameter)
