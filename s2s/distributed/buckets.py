"""Gradients that are summed over all ranks in few messages."""

from __future__ import annotations

__all__ = ["Bucket", "make_buckets"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUCKET_BYTES = 32 * 2**20
"""Bytes of gradients in one all-reduce"""


@dataclass
class Bucket:
    """Parameters of one dtype whose gradients are summed together; a gradient that is None counts as zero."""

    parameters: list[nn.Parameter]
    flat: Tensor = field(default_factory=lambda: torch.empty(0))
    work: dist.Work | None = None

    def start_reduce(self) -> None:
        """Start the all-reduce; every rank starts its buckets in the same order."""
        self.flat = torch.cat([_gradient(p).reshape(-1) for p in self.parameters])
        self.work = dist.all_reduce(self.flat, async_op=True)

    def finish_reduce(self) -> None:
        """Wait for the all-reduce, and copy the sums into the gradients."""
        assert self.work is not None
        self.work.wait()
        sums = self.flat.split([p.numel() for p in self.parameters])
        for p, total in zip(self.parameters, sums, strict=True):
            _gradient(p).copy_(total.view_as(p))
        self.work, self.flat = None, self.flat.new_empty(0)


def make_buckets(parameters: Iterable[nn.Parameter]) -> Iterator[Bucket]:
    """Adjacent parameters of one dtype, up to BUCKET_BYTES: few messages, and little memory besides the gradients."""
    group: list[nn.Parameter] = []
    for p in parameters:
        if group and (p.dtype != group[0].dtype or sum(q.nbytes for q in group) + p.nbytes > BUCKET_BYTES):
            yield Bucket(group)
            group = []
        group.append(p)
    if group:
        yield Bucket(group)


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
