"""Values of a device on the host, in one transfer: each one waits for the device."""

from __future__ import annotations

__all__ = ["on_host"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def on_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same integers, booleans and fp32 numbers, bit for bit, in tensors of the CPU; all are of one device."""
    if all(x.is_cpu for x in tensors):
        return list(tensors)
    copied = torch.cat([_bits(x).flatten() for x in tensors]).cpu().split([x.numel() for x in tensors])
    return [_from_bits(bits, x) for bits, x in zip(copied, tensors, strict=True)]


def _bits(x: Tensor) -> Tensor:
    assert not x.is_floating_point() or x.dtype == torch.float32
    return (x.contiguous().view(torch.int32) if x.is_floating_point() else x).long()


def _from_bits(bits: Tensor, like: Tensor) -> Tensor:
    if like.is_floating_point():
        return bits.int().view(torch.float32).view(like.shape)
    return bits.to(like.dtype).view(like.shape)
