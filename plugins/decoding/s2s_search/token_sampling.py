"""Top-k and top-p (nucleus) sampling of one token, given a random number.

Holtzman et al. (2020) for top-p. Shapes: B sentences, K samples of each, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["sample_tokens"]

from typing import TYPE_CHECKING

import numpy as np
import torch

from s2s.backend import device_of

if TYPE_CHECKING:
    from torch import Tensor

    from s2s_search import SampleConfig


def sample_tokens(log_probs: Tensor, allowed: Tensor, uniform: Tensor, config: SampleConfig) -> Tensor:
    """A token for each sample: log_probs, allowed [B, K, V], uniform [B, K] in [0, 1) -> [B, K].

    By inversion: the first token, in the order of ids, at which the cumulative probability exceeds `uniform`.
    """
    scores = log_probs.masked_fill(~allowed, -torch.inf)
    if config.top_k or config.top_p < 1:
        scores = scores.masked_fill(~_top_k_top_p(scores, config), -torch.inf)
    cumulative = (_widened(scores) / config.temperature).softmax(-1).cumsum(-1)
    token = torch.searchsorted(cumulative, uniform[..., None] * cumulative[..., -1:], right=True)[..., 0]
    return token.clamp(max=scores.size(-1) - 1)  # for rows that are not finite


def _top_k_top_p(scores: Tensor, config: SampleConfig) -> Tensor:
    """The tokens of [B, K, V] that top_k keeps, and of those the ones that top_p keeps; among equals the first.

    Values are sorted without their indices, which takes a thirtieth of the time (numpy, 400 x 10,000 on one core).
    """
    values = _descending(scores)[..., : config.top_k or None]
    cumulative = (_widened(values) / config.temperature).softmax(-1).cumsum(-1)
    n_kept = (1 + (cumulative < config.top_p).sum(-1, keepdim=True)).clamp(max=values.size(-1))  # fewest for top_p
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
