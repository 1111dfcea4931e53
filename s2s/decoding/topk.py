"""The n best of many values, the same on every device: of equal values the first comes first.

Shapes: B sentences, K hypotheses per sentence, V target vocabulary, n candidates.
"""

from __future__ import annotations

__all__ = ["gather_hypotheses", "log_probs", "topk", "topk_tokens"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend import kernels

if TYPE_CHECKING:
    from s2s.model import Seq2Seq


def gather_hypotheses(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b]] for every b: values [B, K, ...], index [B, K'] -> [B, K', ...]"""
    rows = torch.arange(index.size(0), device=index.device)[:, None]
    return values[rows, index]


def log_probs(model: Seq2Seq, logits: Tensor) -> Tensor:
    """Log-probabilities [..., V] in fp32 of what the model returns, [..., V]."""
    return logits.float() if model.returns_log_probs else logits.float().log_softmax(-1)


def topk_tokens(
    logits: Tensor, n: int, banned: Tensor, allowed: Tensor | None = None, normalize: bool = True
) -> tuple[Tensor, Tensor]:
    """The n most probable next tokens that are not `banned`: logits [B, K, V] -> log-probabilities, tokens [B, K, n'].

    One pass for the sum and one for the best; log-probabilities of all V are never written. Forbidden tokens keep
    their share of the probability: were it given to the others, an output that is forced to go on would score as if
    the model had preferred it. Rows with logits that are not finite have no candidates; -inf marks no candidate.
    Without `normalize`, `logits` are log-probabilities already.
    """
    logits = logits.float()
    n = min(n + len(banned), logits.size(-1))  # banned tokens may be among the best n
    if kernels.serves(logits):
        return kernels.top(logits, n, allowed, banned, normalize=normalize)
    sums = logits.logsumexp(-1, keepdim=True) if normalize else torch.zeros_like(logits[..., :1])
    best, tokens = topk(logits if allowed is None else logits.masked_fill(~allowed, -torch.inf), n)
    log_probs = (best - sums).masked_fill(~sums.isfinite() | best.isnan(), -torch.inf)
    return log_probs.masked_fill((tokens[..., None] == banned).any(-1), -torch.inf), tokens


def topk(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest of the last dimension, and their indices; of equal values the first comes first.

    `torch.topk` promises nothing about equal values, and bf16 logits are often equal: which of them came first
    could depend on the device and on the size of the batch.
    """
    n = min(n, scores.size(-1))
    if kernels.serves(scores):
        return kernels.top(scores, n)
    if scores.device.type != "cpu":  # asking the device whether there are ties would cost more than avoiding them
        index = _unique_keys(scores).topk(n).indices
        return scores.gather(-1, index), index
    values, index = scores.topk(min(n + 1, scores.size(-1)))
    tied = ((values[..., 1:] == values[..., :-1]) & (values[..., 1:] > -torch.inf)).any(-1)
    values, index = values[..., :n], index[..., :n]
    if tied.any():
        index = index.masked_scatter(tied[..., None], _unique_keys(scores[tied]).topk(n).indices)
    return values, index


def _unique_keys(scores: Tensor) -> Tensor:
    """Integers in the order of fp32 `scores`, where of equal scores the first is the largest."""
    bits = (scores + 0.0).view(torch.int32).long()  # + 0.0 makes 0.0 of -0.0, which equals it
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # the bits of negative floats grow downwards
    return (ordered << 32) - torch.arange(scores.size(-1), device=scores.device)
