"""Every process holds all parameters; gradients are summed while those of lower layers are still computed.

Gradients travel in buckets, those of the last layers first, since backward makes them first. Every process sends its
buckets in the same order, whether its own backward is that far or it had nothing to learn from.
"""

from __future__ import annotations

__all__ = ["Replicated"]

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from s2s.distributed.world import World

BUCKET = 32 * 2**20
"""Bytes of gradients that travel together"""


@dataclass
class Bucket:
    """Parameters whose gradients travel together."""

    parameters: list[nn.Parameter]
    n_waiting: int = 0
    """Those whose gradients are not there yet"""
    flat: Tensor = field(default_factory=lambda: torch.empty(0))
    work: dist.Work | None = None

    def send(self) -> None:
        """Begin to sum the gradients over the processes; one that is not there is zero."""
        self.flat = torch.cat([_gradient(p).reshape(-1) for p in self.parameters])
        self.work = dist.all_reduce(self.flat, async_op=True)

    def receive(self) -> None:
        """Wait for the sums."""
        assert self.work is not None
        self.work.wait()
        sums = self.flat.split([p.numel() for p in self.parameters])
        for p, total in zip(self.parameters, sums, strict=True):
            _gradient(p).copy_(total.view_as(p))
        self.work, self.flat = None, self.flat[:0]


class Replicated:
    """train.strategy=ddp, and a process that is alone."""

    needs_all = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.buckets: list[Bucket] = []
        self.n_sent = 0
        self.sending = False

    def place(self, model: nn.Module) -> None:
        """All parameters stay; their gradients are watched."""
        if self.world.size == 1:
            return
        self.buckets = [Bucket(ps) for ps in _by_size([p for p in model.parameters() if p.requires_grad][::-1])]
        for bucket in self.buckets:
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._arrived(bucket))

    @contextmanager
    def learning(self, *, last: bool) -> Iterator[None]:
        """Gradients of all micro-batches but the last one only accumulate."""
        for bucket in self.buckets:
            bucket.n_waiting = len(bucket.parameters)
        self.sending = last
        try:
            yield
        finally:
            self.sending = False

    def sum_gradients(self) -> None:
        """Send what has not been sent on the way, and wait for all of it."""
        with self.world.collective("the gradients"):
            for bucket in self.buckets[self.n_sent :]:
                bucket.send()
            for bucket in self.buckets:
                bucket.receive()
        self.n_sent = 0

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        """They are all here."""
        return nullcontext()

    def _arrived(self, bucket: Bucket) -> None:
        bucket.n_waiting -= 1
        while self.sending and self.n_sent < len(self.buckets) and self.buckets[self.n_sent].n_waiting == 0:
            self.buckets[self.n_sent].send()
            self.n_sent += 1


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _by_size(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one dtype, up to BUCKET bytes: few messages, and little memory beside the gradients."""
    bucket: list[nn.Parameter] = []
    for p in parameters:
        if bucket and (p.dtype != bucket[0].dtype or sum(b.nbytes for b in bucket) + p.nbytes > BUCKET):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket
