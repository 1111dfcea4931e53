"""Data parallelism: every rank holds all parameters; gradients are summed while backward still runs.

Gradients are reduced in buckets, those of the last layers first, since backward produces them first. Every rank
reduces its buckets in the same order, however far its own backward is, and also if it had no pair of the batch.
"""

from __future__ import annotations

__all__ = ["DDP", "build_ddp"]

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch import distributed as dist

from s2s.distributed import Unsharded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.distributed import World
    from s2s_distributed.ddp import DDPConfig

BUCKET_BYTES = 32 * 2**20
"""Bytes of gradients in one all-reduce"""


@dataclass
class Bucket:
    """Parameters whose gradients are reduced together."""

    parameters: list[nn.Parameter]
    n_pending: int = 0
    """Parameters whose gradient backward has not produced yet"""
    flat: Tensor = field(default_factory=lambda: torch.empty(0))
    work: dist.Work | None = None

    def start_reduce(self) -> None:
        """Start the all-reduce; a gradient that is None counts as zero."""
        self.flat = torch.cat([_gradient(p).reshape(-1) for p in self.parameters])
        self.work = dist.all_reduce(self.flat, async_op=True)

    def finish_reduce(self) -> None:
        """Wait for the all-reduce, and copy the sums into the gradients."""
        assert self.work is not None
        self.work.wait()
        sums = self.flat.split([p.numel() for p in self.parameters])
        for p, total in zip(self.parameters, sums, strict=True):
            _gradient(p).copy_(total.view_as(p))
        self.work, self.flat = None, self.flat[:0]


class DDP(Unsharded):
    """train.strategy=ddp."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.buckets: list[Bucket] = []
        self.n_started = 0
        """Buckets whose all-reduce has begun, always a prefix of `buckets`"""
        self.reducing = False

    def wrap(self, model: nn.Module) -> None:
        """Hook every parameter that is trained."""
        self.buckets = [Bucket(ps) for ps in _by_size([p for p in model.parameters() if p.requires_grad][::-1])]
        for bucket in self.buckets:
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._on_gradient(bucket))

    @contextmanager
    def micro_batch(self, *, last: bool) -> Iterator[None]:
        """Gradients of all micro-batches but the last are accumulated only."""
        for bucket in self.buckets:
            bucket.n_pending = len(bucket.parameters)
        self.reducing = last
        try:
            yield
        finally:
            self.reducing = False

    def reduce_gradients(self) -> None:
        """Start the buckets that backward has not started, and wait for all of them."""
        with self.world.collective("the gradients"):
            for bucket in self.buckets[self.n_started :]:
                bucket.start_reduce()
            for bucket in self.buckets:
                bucket.finish_reduce()
        self.n_started = 0

    def _on_gradient(self, bucket: Bucket) -> None:
        bucket.n_pending -= 1
        while self.reducing and self.n_started < len(self.buckets) and self.buckets[self.n_started].n_pending == 0:
            self.buckets[self.n_started].start_reduce()
            self.n_started += 1


def build_ddp(config: DDPConfig, world: World, dtype: torch.dtype) -> DDP:  # noqa: ARG001  as every strategy's
    """Parameters and gradients are in fp32, whatever the forward pass computes in."""
    return DDP(world)


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _by_size(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one dtype, up to BUCKET_BYTES: few messages, and little memory beside the gradients."""
    bucket: list[nn.Parameter] = []
    for p in parameters:
        if bucket and (p.dtype != bucket[0].dtype or sum(b.nbytes for b in bucket) + p.nbytes > BUCKET_BYTES):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket
