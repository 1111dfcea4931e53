"""What stands between the layers of a post-norm model: a residual sum and its normalisation."""

from __future__ import annotations

__all__ = ["add_norm"]

from typing import TYPE_CHECKING

import torch

from s2s.backend import kernels

if TYPE_CHECKING:
    from torch import Tensor, nn


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x + y), [..., D]; in one pass where no gradient is wanted."""
    if kernels.serves(x, y) and not torch.is_grad_enabled():
        return kernels.add_norm(x, y, norm)
    return norm(x + y)
