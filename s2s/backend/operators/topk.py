"""The largest values of each row, in the same order on every device: of equal values the first comes first.

Shapes: V values of a row, n of them wanted, N banned tokens.
"""

from __future__ import annotations

__all__ = ["top_k", "top_k_log_probs"]

import torch
from torch import Tensor

from s2s.backend.operators.operator import Operator


@Operator
def top_k(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest of the last dimension and their indices; of equal values the first comes first.

    scores [..., V] -> values, indices [..., min(n, V)]. `torch.topk` promises no order of equal values, and bf16 logits
    are often equal: which of them came first could depend on the device and on the size of the batch.
    """
    n = min(n, scores.size(-1))
    if not scores.is_cpu:  # testing for ties would synchronise with the device
        index = _unique_keys(scores).topk(n).indices
        return scores.gather(-1, index), index
    values, index = scores.topk(min(n + 1, scores.size(-1)))
    tied = ((values[..., 1:] == values[..., :-1]) & (values[..., 1:] > -torch.inf)).any(-1)
    values, index = values[..., :n], index[..., :n]
    if tied.any():
        index = index.masked_scatter(tied[..., None], _unique_keys(scores[tied]).topk(n).indices)
    return values, index


@Operator
def top_k_log_probs(
    logits: Tensor, n: int, banned: Tensor, allowed: Tensor | None = None, normalize: bool = True
) -> tuple[Tensor, Tensor]:
    """The n most probable tokens except those `banned` [N], and their log-probabilities.

    logits, allowed [..., V] -> log-probabilities, tokens [..., min(n + N, V)], where banned tokens and those not
    `allowed` have -inf. They keep their share of the probability: were it given to the others, an output that is forced
    to go on would score as if the model had preferred it. Rows whose log-sum-exp is not finite have -inf everywhere.
    Without `normalize`, `logits` are log-probabilities (or other scores) already, of which NaN counts as -inf. The
    log-probabilities of all V tokens are never materialised.
    """
    logits = logits.float()
    n = min(n + len(banned), logits.size(-1))  # a spare one for each banned token
    if normalize:
        sums = logits.logsumexp(-1, keepdim=True)
    else:
        sums, logits = torch.zeros_like(logits[..., :1]), logits.masked_fill(logits.isnan(), -torch.inf)
    best, tokens = top_k.reference(logits if allowed is None else logits.masked_fill(~allowed, -torch.inf), n)
    log_probs = (best - sums).masked_fill(~sums.isfinite() | best.isnan(), -torch.inf)
    return log_probs.masked_fill((tokens[..., None] == banned).any(-1), -torch.inf), tokens


def _unique_keys(scores: Tensor) -> Tensor:
    """Integers in the order of fp32 `scores`, where of equal scores the first is the largest."""
    bits = (scores + 0.0).view(torch.int32).long()  # + 0.0 turns -0.0 into 0.0, which equals it
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # the bits of negative floats grow downwards
    return (ordered << 32) - torch.arange(scores.size(-1), device=scores.device)
