"""Experts on several ranks: tokens are sent to their experts, and the results are sent back.

Shapes: M tokens with one expert each, sorted by expert; D width; R ranks, E experts.
"""

from __future__ import annotations

__all__ = ["Exchange"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from s2s.distributed import World


@dataclass(frozen=True)
class Exchange:
    """The experts of one mixture layer on all ranks; every rank must call it the same number of times."""

    world: World
    owners: Sequence[int]
    """[E], the rank of each expert, in ascending order"""

    def __call__(self, experts: nn.ModuleList, x: Tensor, counts: Tensor) -> Tensor:
        """x [M, D], and the number of tokens of each expert, [E] -> outputs of the experts [M, D]"""
        self.world.heartbeat()
        every = self._counts_of_all(counts)
        local_experts = [e for e, owner in enumerate(self.owners) if owner == self.world.rank]
        ranks = range(self.world.size)
        sent = [
            sum(n for n, owner in zip(every[self.world.rank], self.owners, strict=True) if owner == r) for r in ranks
        ]
        received = [sum(every[r][e] for e in local_experts) for r in ranks]
        came = _AllToAll.apply(x, sent, received)  # sorted by rank, then by expert
        labels = torch.arange(len(local_experts)).repeat(self.world.size)
        repeats = torch.tensor([every[r][e] for r in ranks for e in local_experts])
        order = labels.repeat_interleave(repeats).argsort(stable=True).to(x.device)
        parts = came[order].split([sum(every[r][e] for r in ranks) for e in local_experts])
        computed = torch.cat([experts[e](part) for e, part in zip(local_experts, parts, strict=True)])
        back: Tensor = _AllToAll.apply(computed[order.argsort()], received, sent)
        return back

    def _counts_of_all(self, counts: Tensor) -> list[list[int]]:
        """counts [E] -> those of every rank"""
        all_counts = [torch.empty_like(counts) for _ in range(self.world.size)]
        dist.all_gather(all_counts, counts)
        every: list[list[int]] = torch.stack(all_counts).tolist()
        return every


class _AllToAll(torch.autograd.Function):
    """Sends rows to the other ranks and receives rows from them; the gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: list[int], received: list[int]) -> Tensor:
        """x [sum of sent, D] -> [sum of received, D]"""
        ctx.splits = sent, received
        return _send(x, sent, received)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """[sum of received, D] -> [sum of sent, D]"""
        sent, received = ctx.splits
        return _send(gradients[0], received, sent), None, None


def _send(x: Tensor, sent: list[int], received: list[int]) -> Tensor:
    out = x.new_empty((sum(received), *x.shape[1:]))
    dist.all_to_all_single(out, x.contiguous(), received, sent)
    return out
