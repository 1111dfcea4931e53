"""Top-k and top-p (nucleus) sampling of one token, given a random number.

Holtzman et al. (2020) for top-p. Shapes: B sentences, K samples of each, V target vocabulary, N banned tokens.
"""

from __future__ import annotations

__all__ = ["SamplingRule", "sample_tokens"]

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from s2s.backend.device_types import device_of
from s2s.backend.operators.operator import Operator


class SamplingRule(NamedTuple):
    """From which distribution tokens are drawn, given their log-probabilities."""

    temperature: float = 1.0
    """Above 0; log-probabilities are divided by it"""
    top_k: int = 0
    """Only the k most probable tokens remain; 0: all"""
    top_p: float = 1.0
    """Of those, only the fewest tokens whose probabilities sum to this, in (0, 1]"""


@Operator
def sample_tokens(
    logits: Tensor, uniform: Tensor, banned: Tensor, allowed: Tensor, normalize: bool, rule: SamplingRule
) -> tuple[Tensor, Tensor]:
    """A token for each sample, and its log-probability before the rule; token 0 and -inf where none is possible.

    logits [B, K or 1, V], allowed [B, K, V], uniform [B, K], in [0, 1), banned [N] -> tokens, log-probabilities
    [B, K], in fp32. Tokens are drawn by inversion: the first, in the order of ids, at which the cumulative probability
    of those that remain exceeds `uniform`. Without `normalize`, `logits` are log-probabilities already.
    """
    scores = logits.float().log_softmax(-1) if normalize else logits.float()
    scores = scores.expand(-1, uniform.size(1), -1)
    possible = scores.masked_fill(~allowed, -torch.inf).index_fill(-1, banned, -torch.inf)
    if rule.top_k or rule.top_p < 1:
        possible = possible.masked_fill(~_top_k_top_p(possible, rule), -torch.inf)
    cumulative = (_widened(possible) / rule.temperature).softmax(-1).cumsum(-1)
    token = torch.searchsorted(cumulative, uniform[..., None] * cumulative[..., -1:], right=True)[..., 0]
    token = token.clamp(max=scores.size(-1) - 1)  # for rows that are not finite
    log_prob = possible.gather(2, token[..., None])[..., 0]
    is_possible = log_prob.isfinite() & cumulative[..., -1].isfinite()
    return token.where(is_possible, 0), log_prob.where(is_possible, -torch.inf)


def _top_k_top_p(scores: Tensor, rule: SamplingRule) -> Tensor:
    """The tokens of [B, K, V] that top_k keeps, and of those the ones that top_p keeps; among equals the first.

    Values are sorted without their indices, which takes a thirtieth of the time (numpy, 400 x 10,000 on one core).
    """
    values = _descending(scores)[..., : rule.top_k or None]
    cumulative = (_widened(values) / rule.temperature).softmax(-1).cumsum(-1)
    n_kept = (1 + (cumulative < rule.top_p).sum(-1, keepdim=True)).clamp(max=values.size(-1))  # fewest for top_p
    least = values.gather(-1, n_kept - 1)
    kept = scores >= least
    if (kept.sum(-1, keepdim=True) > n_kept).any():
        equal = scores == least
        n_above = kept.sum(-1, keepdim=True) - equal.sum(-1, keepdim=True)
        kept &= ~equal | (equal.cumsum(-1) <= n_kept - n_above)
    return kept


def _widened(x: Tensor) -> Tensor:
    """In the device's widest type: in float32 a sum over a large vocabulary ends beside 1."""
    return x.to(device_of(x.device).wide_dtype)


def _descending(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":
        return torch.from_numpy(np.sort(scores.float().numpy(), axis=-1)).flip(-1)
    return scores.sort(dim=-1, descending=True).values
