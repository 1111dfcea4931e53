"""Losses of single target positions, summed without ever holding the logits of all of them.

Shapes: N target positions, n of a chunk, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["PositionLoss", "Positions", "positions_at_once", "sum_over_chunks"]

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s.model import Seq2Seq


class Positions(NamedTuple):
    """Target positions of all sentences."""

    hidden: Tensor
    """[n, ·], or with several passes over each position [n, passes, ·]"""
    target: Tensor
    """[n]"""
    counts: Tensor
    """[n], False at padding"""

    def split(self, size: int) -> list[Positions]:
        """Pieces of at most `size` positions."""
        return [Positions(*piece) for piece in zip(*(t.split(size) for t in self), strict=True)]


class PositionLoss(Protocol):
    """A loss of the logits of each position, [n, V] or [n, passes, V]."""

    def sums(self, logits: Tensor, at: Positions) -> tuple[Tensor, ...]:
        """The loss, and what is reported beside it: scalars in fp32. Autograd can differentiate the first."""

    def sums_and_gradient(self, logits: Tensor, at: Positions) -> tuple[tuple[Tensor, ...], Tensor]:
        """The same, and d loss / d logits, perhaps in place."""


def sum_over_chunks(
    loss: PositionLoss, model: Seq2Seq, positions: Positions, chunk: int | None = None
) -> tuple[Tensor, ...]:
    """The sums of `loss` over all positions, with the logits of `chunk` at a time (0: of all); only the first has a
    gradient."""
    if chunk == 0:
        return loss.sums(model.project(positions.hidden), positions)
    chunks = positions.split(chunk or positions_at_once(positions.hidden))
    if not torch.is_grad_enabled():
        return total(project_and_sum(loss, model, c) for c in chunks)
    if torch.compiler.is_compiling():  # which cannot trace a gradient that is taken inside the forward pass
        from torch.utils.checkpoint import checkpoint  # takes 0.4 s, and s2s-generate does not need it

        again = partial(checkpoint, project_and_sum, loss, model, use_reentrant=False, preserve_rng_state=False)
        return total(again(c) for c in chunks)
    trainable = [p for p in model.parameters() if p.requires_grad]
    sums: tuple[Tensor, ...] = GradientInForward.apply(loss, model, chunks, positions.hidden, *trainable)
    return sums


def positions_at_once(hidden: Tensor) -> int:
    """Positions of a chunk: on a CPU logits should stay in the cache (measured with V = 10,000 and 37,000), which holds
    twice as many in 16 bits; elsewhere fewer, larger kernels are better."""
    on_cpu = 512 if hidden.dtype.itemsize < 4 or torch.is_autocast_enabled("cpu") else 256
    n_passes = prod(hidden.shape[1:-1])
    return (on_cpu if hidden.device.type == "cpu" else 1024) // n_passes


def project_and_sum(loss: PositionLoss, model: Seq2Seq, at: Positions) -> tuple[Tensor, ...]:
    """The sums of one chunk."""
    return loss.sums(model.project(at.hidden), at)


class GradientInForward(torch.autograd.Function):
    """The sums of all chunks; the gradient of each chunk is computed while its logits are in memory.

    Keeping the gradients of `hidden` and of the weights in `project` saves the second product that
    recomputing logits in the backward pass costs: 1.4 times as fast as that, and 2.5 (fp32) to 5 times (bf16)
    as fast as holding all logits (CPU, 4,096 positions, width 128, V = 10,000).
    """

    @staticmethod
    def forward(
        ctx: Any,
        loss: PositionLoss,
        model: Seq2Seq,
        chunks: list[Positions],
        hidden: Tensor,  # noqa: ARG004  the chunks are its parts; it is named because it gets a gradient
        *trainable: Tensor,
    ) -> tuple[Tensor, ...]:
        """The sums; `hidden` [N, …] and `trainable` get gradients of the first."""
        sums, d_hidden = [], []
        d_trainable: list[Tensor | None] = [None] * len(trainable)
        for chunk in chunks:
            leaf = chunk.hidden.detach().requires_grad_()
            with torch.enable_grad():
                logits = model.project(leaf)
            chunk_sums, gradient = loss.sums_and_gradient(logits.detach(), chunk)
            sums.append(chunk_sums)
            d_leaf, *d_weights = torch.autograd.grad(logits, [leaf, *trainable], gradient, allow_unused=True)
            d_hidden.append(d_leaf)
            d_trainable = [added(old, new) for old, new in zip(d_trainable, d_weights, strict=True)]
        ctx.save_for_backward(torch.cat(d_hidden), *d_trainable)
        all_sums = total(sums)
        ctx.mark_non_differentiable(*all_sums[1:])
        return all_sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """The forward pass computed the gradients; they are only scaled by d_loss."""
        return None, None, None, *(None if d is None else d.mul_(d_loss) for d in ctx.saved_tensors)


def added(gradient: Tensor | None, more: Tensor | None) -> Tensor | None:
    """Their sum, in place; None counts as zero: a chunk need not use every weight."""
    if gradient is None or more is None:
        return more if gradient is None else gradient
    return gradient.add_(more)


def total(parts: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The sums of the parts' sums."""
    return tuple(torch.stack(parts_of_one).sum() for parts_of_one in zip(*parts, strict=True))
