"""Data parallelism: every rank holds all parameters; gradients are summed while backward still runs.

Gradients are reduced in buckets, those of the last layers first, since backward produces them first. Every rank
reduces its buckets in the same order, however far its own backward pass is, even if it had no pair of the batch.
"""

from __future__ import annotations

__all__ = ["DDP"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

from s2s.distributed import Bucket, Unsharded, make_buckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from s2s.distributed import World


class DDP(Unsharded):
    """train.strategy=ddp."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.buckets: list[Bucket] = []
        self.n_pending: list[int] = []
        """Parameters of each bucket whose gradient backward has not produced yet"""
        self.n_started = 0
        """Buckets whose all-reduce has begun, always a prefix of `buckets`"""
        self.reducing = False

    def wrap(self, model: nn.Module, objective: nn.Module | None = None) -> None:
        """Hook every parameter that is trained."""
        modules = [model, objective] if objective else [model]
        trained = [[p for p in module.parameters() if p.requires_grad][::-1] for module in modules]
        self.buckets = [bucket for parameters in trained for bucket in make_buckets(parameters)]
        self.n_pending = [0] * len(self.buckets)
        for index, bucket in enumerate(self.buckets):
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(lambda _, index=index: self._on_gradient(index))

    @contextmanager
    def micro_batch(self, *, last: bool) -> Iterator[None]:
        """Gradients of all micro-batches but the last are accumulated only."""
        self.n_pending = [len(bucket.parameters) for bucket in self.buckets]
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

    def _on_gradient(self, index: int) -> None:
        self.n_pending[index] -= 1
        while self.reducing and self.n_started < len(self.buckets) and self.n_pending[self.n_started] == 0:
            self.buckets[self.n_started].start_reduce()
            self.n_started += 1
