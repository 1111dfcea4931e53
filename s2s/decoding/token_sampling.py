"""A symbol drawn from what a model says, by a number that chance gave.

Shapes: B sentences, K samples of each, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["choose"]

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.decoding import SampleConfig


def choose(log_probs: Tensor, allowed: Tensor, uniform: Tensor, config: SampleConfig) -> Tensor:
    """A symbol for each sample: log_probs, allowed [B, K, V], uniform [B, K] in [0, 1) -> [B, K].

    Symbols are laid end to end in the order of their ids, each as long as it is probable, and the one is taken into
    which `uniform` falls.
    """
    scores = log_probs.masked_fill(~allowed, -torch.inf)
    if config.top_k or config.top_p < 1:
        scores = scores.masked_fill(~_kept(scores, config), -torch.inf)
    ends = (scores.double() / config.temperature).softmax(-1).cumsum(-1)
    place = torch.searchsorted(ends, uniform[..., None] * ends[..., -1:], right=True)[..., 0]
    return place.clamp(max=scores.size(-1) - 1)  # of a row that is not finite


def _kept(scores: Tensor, config: SampleConfig) -> Tensor:
    """Which symbols are left of [B, K, V] by top_k, and of those by top_p; of equal ones the first.

    Values are sorted without their places, which takes a thirtieth of the time (numpy, 400 x 10,000 on one core).
    """
    values = _descending(scores)[..., : config.top_k or None]
    ends = (values.double() / config.temperature).softmax(-1).cumsum(-1)
    n_kept = (1 + (ends < config.top_p).sum(-1, keepdim=True)).clamp(max=values.size(-1))  # the fewest that reach top_p
    least = values.gather(-1, n_kept - 1)
    kept = scores >= least
    if (kept.sum(-1, keepdim=True) > n_kept).any():
        equal = scores == least
        n_above = kept.sum(-1, keepdim=True) - equal.sum(-1, keepdim=True)
        kept &= ~equal | (equal.cumsum(-1) <= n_kept - n_above)
    return kept


def _descending(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":
        return torch.from_numpy(np.sort(scores.float().numpy(), axis=-1)).flip(-1)
    return scores.sort(dim=-1, descending=True).values
