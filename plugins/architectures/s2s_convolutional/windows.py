"""The inputs of a convolution: those under its kernel, concatenated, so that the convolution is a linear map of them.

Shapes: B sentences, T positions, K hypotheses, k kernel, r dilation, I width.
"""

from __future__ import annotations

__all__ = ["empty_window", "slide", "windows"]

import torch
from torch import Tensor
from torch.nn import functional as F


def windows(x: Tensor, kernel: int, dilation: int = 1, *, causal: bool) -> Tensor:
    """[B, T, I] -> [B, T, k * I], zeros beyond both ends: the inputs around a position, or, if causal, up to it."""
    reach = (kernel - 1) * dilation
    left = reach if causal else reach // 2
    n, x = x.size(1), F.pad(x, (0, 0, left, reach - left))
    return torch.cat([x[:, j * dilation : j * dilation + n] for j in range(kernel)], dim=-1)


def empty_window(n: int, kernel: int, width: int, like: Tensor, dilation: int = 1) -> Tensor:
    """Zeros [n, 1, (k - 1) r, I], the inputs of a causal convolution before the first token."""
    return like.new_zeros(n, 1, (kernel - 1) * dilation, width)


def slide(window: Tensor, x: Tensor, dilation: int = 1) -> tuple[Tensor, Tensor]:
    """The previous inputs [B, K, (k - 1) r, I] and the newest x [B, K, I] -> the row of `windows` [B, K, k * I], and
    the previous inputs for the next step. It takes the same time at every position."""
    seen = torch.cat([window, x[:, :, None].to(window.dtype)], dim=2)
    return seen[:, :, ::dilation].flatten(2), seen[:, :, 1:]
