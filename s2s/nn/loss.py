"""Label-smoothed cross-entropy (section 5.4) that never holds the logits of all positions.

Shapes: B sentences, T target length, N = B * T positions, n positions of a chunk, V target vocabulary.

Everything is a sum over target tokens, and nothing synchronises with the device.
"""

from __future__ import annotations

__all__ = ["LabelSmoothed", "TokenSums", "label_smoothed", "target_log_probs"]

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from s2s.backend.operators import label_smoothing_
from s2s.objective import Context, Objective, Sums

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s.batch import Batch
    from s2s.model import Seq2Seq
    from s2s.nn import LabelSmoothedConfig


class TokenSums(NamedTuple):
    """Sums over the target tokens that are not padding, in fp32 and in nats."""

    loss: Tensor
    """Cross-entropy against the smoothed labels"""
    nll: Tensor
    """Negative log-likelihood, without smoothing and without a gradient"""


class Weights(NamedTuple):
    """A definition of smoothing: -on_target * log p[y] - on_each * sum(log p) - constant."""

    on_target: float
    on_each: float
    constant: float


class LabelSmoothed(Objective):
    """Cross-entropy against the right token with probability eps moved to the others, per target token."""

    extras = ("nll",)
    packs = True
    cuda_graph = True

    def __init__(self, config: LabelSmoothedConfig) -> None:
        self.config = config

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extra: nll, the negative log-likelihood of the target, without smoothing."""
        sums = self.token_sums(model, batch)
        return Sums(sums.loss, (~batch.tgt_pad).sum(), {"nll": sums.nll})

    def token_sums(self, model: Any, batch: Batch) -> TokenSums:
        """The same, with one pass of the model over a padded or packed batch."""
        hidden = model(*batch.inputs).flatten(0, -2)  # [N, ·]
        positions = Positions(hidden, batch.tgt_out.flatten(), ~batch.tgt_pad.flatten())
        if self.config.chunk == 0:
            return self._project_and_sum(model, positions)
        chunks = positions.split(self._chunk(hidden))
        if not torch.is_grad_enabled():
            return total(self._project_and_sum(model, c) for c in chunks)
        if torch.compiler.is_compiling():  # which cannot trace a gradient that is taken inside the forward pass
            again = partial(checkpoint, self._project_and_sum, model, use_reentrant=False, preserve_rng_state=False)
            return total(again(c) for c in chunks)
        trainable = [p for p in model.parameters() if p.requires_grad]
        return TokenSums(*GradientInForward.apply(self, model, chunks, hidden, *trainable))

    def sums(self, logits: Tensor, at: Positions) -> TokenSums:
        """logits [n, V]: the reference, which autograd can differentiate."""
        log_probs = logits.log_softmax(-1, dtype=torch.float32)
        return self._sums(log_probs, at)

    def sums_and_gradient(self, logits: Tensor, at: Positions) -> tuple[TokenSums, Tensor]:
        """The same, and d loss / d logits [n, V], perhaps in place: softmax minus smoothed label, 0 at padding."""
        weights = self.weights(logits.size(-1))
        loss, nll, gradient = label_smoothing_(logits, at.target, at.counts, weights.on_target, weights.on_each)
        return TokenSums(loss.sum() - weights.constant * at.counts.sum(), nll.sum()), gradient

    def weights(self, vocab_size: int) -> Weights:
        """The definition of smoothing, for V = `vocab_size`."""
        eps = self.config.eps
        if self.config.definition == "uniform":
            return Weights(1 - eps, eps / vocab_size, 0.0)
        wrong = eps / (vocab_size - 1)
        if self.config.definition == "others":
            return Weights(1 - eps - wrong, wrong, 0.0)
        entropy = -(1 - eps) * math.log(1 - eps) - (eps * math.log(wrong) if eps else 0.0)
        return Weights(1 - eps - wrong, wrong, entropy)

    def _sums(self, log_probs: Tensor, at: Positions) -> TokenSums:
        weights = self.weights(log_probs.size(-1))
        nll = -log_probs.gather(-1, at.target[:, None]).squeeze(-1)  # [n]
        loss = weights.on_target * nll - weights.on_each * log_probs.sum(-1) - weights.constant
        return TokenSums((loss * at.counts).sum(), (nll.detach() * at.counts).sum())

    def _project_and_sum(self, model: Any, at: Positions) -> TokenSums:
        return self.sums(model.project(at.hidden), at)

    def _chunk(self, hidden: Tensor) -> int:
        """How many positions to take at once: on a CPU logits should stay in the cache (measured with
        V = 10,000 and 37,000), of 16 bits twice as many; elsewhere fewer, larger kernels are better."""
        on_cpu = 512 if hidden.dtype.itemsize < 4 or torch.is_autocast_enabled("cpu") else 256
        return self.config.chunk or (on_cpu if hidden.device.type == "cpu" else 1024)


def label_smoothed(config: LabelSmoothedConfig, context: Context) -> LabelSmoothed:  # noqa: ARG001  the contract
    """The registered factory."""
    return LabelSmoothed(config)


def target_log_probs(
    model: Any, batch: Batch, chunk: int = 1024, hidden: Tensor | None = None, counts: Tensor | None = None
) -> Tensor:
    """log p of each target token: [B, T] in fp32 (packed: [N]); for objectives of whole outputs.

    hidden [B, T, ·]: what `decode` gave, for a model that need not run once more. counts [B, T]: where it is False, 0
    is given; by default at padding. Differentiable without ever holding the logits of more than `chunk` positions:
    backward computes them again.
    """

    def of_chunk(at: Positions) -> Tensor:
        log_probs = model.project(at.hidden).log_softmax(-1, dtype=torch.float32)
        return log_probs.gather(-1, at.target[:, None])[:, 0].masked_fill(~at.counts, 0.0)

    states = (model(*batch.inputs) if hidden is None else hidden).flatten(0, -2)  # [N, ·]
    counts = ~batch.tgt_pad if counts is None else counts
    chunks = Positions(states, batch.tgt_out.flatten(), counts.flatten()).split(chunk)
    log_probs = [checkpoint(of_chunk, c, use_reentrant=False, preserve_rng_state=False) for c in chunks]
    return torch.cat(log_probs).view_as(batch.tgt_out)


class Positions(NamedTuple):
    """Target positions of all sentences."""

    hidden: Tensor
    """[n, ·]"""
    target: Tensor
    """[n]"""
    counts: Tensor
    """[n], False at padding"""

    def split(self, size: int) -> list[Positions]:
        """Pieces of at most `size` positions."""
        return [Positions(*piece) for piece in zip(*(t.split(size) for t in self), strict=True)]


class GradientInForward(torch.autograd.Function):
    """The sums of all chunks; the gradient of each chunk is taken at once, while its logits are there.

    Keeping the gradients of `hidden` and of the weights in `project` saves the second product that
    recomputing logits in the backward pass costs: 1.4 times as fast as that, and 2.5 (fp32) to 5 times (bf16)
    as fast as holding all logits (CPU, 4,096 positions, width 128, V = 10,000).
    """

    @staticmethod
    def forward(
        ctx: Any,
        loss: LabelSmoothed,
        model: Any,
        chunks: list[Positions],
        hidden: Tensor,  # noqa: ARG004  the chunks are its parts; it is named because it gets a gradient
        *trainable: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The two sums; `hidden` [N, ·] and `trainable` get gradients."""
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
        ctx.mark_non_differentiable(all_sums.nll)
        return all_sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, d_nll: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ARG004
        """The forward pass computed the gradients; they are only scaled by d_loss."""
        return None, None, None, *(None if d is None else d.mul_(d_loss) for d in ctx.saved_tensors)


def added(gradient: Tensor | None, more: Tensor | None) -> Tensor | None:
    """Their sum, in place; None is nothing: a chunk need not use every weight."""
    if gradient is None or more is None:
        return more if gradient is None else gradient
    return gradient.add_(more)


def total(parts: Iterable[TokenSums]) -> TokenSums:
    """The sums of the parts' sums."""
    losses, nlls = zip(*parts, strict=True)
    return TokenSums(torch.stack(losses).sum(), torch.stack(nlls).sum())
