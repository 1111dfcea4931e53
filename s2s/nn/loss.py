"""Label-smoothed cross-entropy (section 5.4).

Shapes: B sentences, T target length, N = B * T positions, n positions of a chunk, V target vocabulary.

Everything is a sum over target tokens, and nothing synchronises with the device.
"""

from __future__ import annotations

__all__ = ["LabelSmoothed", "TokenSums", "label_smoothed", "target_log_probs"]

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from s2s.backend.operators import label_smoothing_, output_loss
from s2s.nn.chunked_loss import Positions, sum_over_chunks
from s2s.objective import Context, Objective, Sums

if TYPE_CHECKING:
    from s2s.batch import Batch
    from s2s.model import Seq2Seq
    from s2s.nn import LabelSmoothedConfig


class TokenSums(NamedTuple):
    """Sums over the target tokens that are not padding, in fp32 and in nats."""

    loss: Tensor
    """Cross-entropy against the smoothed labels"""
    nll: Tensor
    """Negative log-likelihood, without smoothing and without a gradient"""


class SmoothingWeights(NamedTuple):
    """A definition of smoothing: -on_target * log p[y] - on_each * sum(log p) - constant."""

    on_target: float
    on_each: float
    constant: float


@runtime_checkable
class _HasOutputMatrix(Protocol):
    """A `Seq2Seq`, or another model with this method of it; of one without, only `project` is called."""

    def output_matrix(self) -> Tensor | None:
        """[V, ·], see `Seq2Seq`"""


class LabelSmoothed(Objective):
    """Cross-entropy against the right token with probability eps moved to the others, per target token."""

    extras = ("nll",)
    supports_packing = True
    supports_cuda_graph = True

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
        return self.position_sums(model, positions)

    def position_sums(self, model: Seq2Seq, positions: Positions) -> TokenSums:
        """The same, given what the model has computed for some positions."""
        sums = self._sums_of_matrix(model, positions) if self.config.chunk is None else None
        return sums or TokenSums(*sum_over_chunks(self, model, positions, self.config.chunk))

    def _sums_of_matrix(self, model: Any, at: Positions) -> TokenSums | None:
        """The same where logits are products of `hidden` and a matrix [V, D], and there is a function for that."""
        matrix = model.output_matrix() if isinstance(model, _HasOutputMatrix) else None
        if matrix is None or not self._is_plain():
            return None
        weights = self.weights(len(matrix))
        sums = output_loss(at.hidden, matrix, at.target, at.counts, weights.on_target, weights.on_each)
        if sums is None:
            return None
        loss, nll = sums
        return TokenSums(loss - weights.constant * at.counts.sum(), nll)

    def _is_plain(self) -> bool:
        """Whether the loss of logits is that of this class; another class may define its own."""
        own, kind, methods = vars(self), type(self), ("sums", "sums_of_log_probs", "sums_and_gradient")
        return all(name not in own and getattr(kind, name) is getattr(LabelSmoothed, name) for name in methods)

    def sums(self, logits: Tensor, at: Positions) -> TokenSums:
        """logits [n, V]: the reference, which autograd can differentiate."""
        return self.sums_of_log_probs(logits.log_softmax(-1, dtype=torch.float32), at)

    def sums_of_log_probs(self, log_probs: Tensor, at: Positions) -> TokenSums:
        """The same, given their log-softmax [n, V]."""
        weights = self.weights(log_probs.size(-1))
        nll = -log_probs.gather(-1, at.target[:, None]).squeeze(-1)  # [n]
        loss = weights.on_target * nll - weights.on_each * log_probs.sum(-1) - weights.constant
        return TokenSums((loss * at.counts).sum(), (nll.detach() * at.counts).sum())

    def sums_and_gradient(self, logits: Tensor, at: Positions) -> tuple[TokenSums, Tensor]:
        """The same, and d loss / d logits [n, V], perhaps in place: softmax minus smoothed label, 0 at padding."""
        weights = self.weights(logits.size(-1))
        loss, nll, gradient = label_smoothing_(logits, at.target, at.counts, weights.on_target, weights.on_each)
        return TokenSums(loss.sum() - weights.constant * at.counts.sum(), nll.sum()), gradient

    def weights(self, vocab_size: int) -> SmoothingWeights:
        """The definition of smoothing, for V = `vocab_size`."""
        eps = self.config.eps
        if self.config.definition == "uniform":
            return SmoothingWeights(1 - eps, eps / vocab_size, 0.0)
        wrong = eps / (vocab_size - 1)
        if self.config.definition == "others":
            return SmoothingWeights(1 - eps - wrong, wrong, 0.0)
        entropy = -(1 - eps) * math.log(1 - eps) - (eps * math.log(wrong) if eps else 0.0)
        return SmoothingWeights(1 - eps - wrong, wrong, entropy)


def label_smoothed(config: LabelSmoothedConfig, context: Context) -> LabelSmoothed:  # noqa: ARG001  the contract
    """The registered factory."""
    return LabelSmoothed(config)


def target_log_probs(
    model: Any, batch: Batch, chunk: int = 1024, hidden: Tensor | None = None, counts: Tensor | None = None
) -> Tensor:
    """log p of each target token: [B, T] in fp32 (packed: [N]); for objectives of whole outputs.

    hidden [B, T, ·]: the output of `decode`, so that the model need not run again. counts [B, T]: where it is False, by
    default at padding, the result is 0. Differentiable without ever holding the logits of more than `chunk` positions:
    backward computes them again.
    """
    from torch.utils.checkpoint import checkpoint  # takes 0.4 s, and s2s-generate does not need it

    def of_chunk(at: Positions) -> Tensor:
        log_probs = model.project(at.hidden).log_softmax(-1, dtype=torch.float32)
        return log_probs.gather(-1, at.target[:, None])[:, 0].masked_fill(~at.counts, 0.0)

    states = (model(*batch.inputs) if hidden is None else hidden).flatten(0, -2)  # [N, ·]
    counts = ~batch.tgt_pad if counts is None else counts
    chunks = Positions(states, batch.tgt_out.flatten(), counts.flatten()).split(chunk)
    log_probs = [checkpoint(of_chunk, c, use_reentrant=False, preserve_rng_state=False) for c in chunks]
    return torch.cat(log_probs).view_as(batch.tgt_out)
