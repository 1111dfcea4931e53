"""A symbol drawn from what a model says, by a number that chance gave.

Shapes: B sentences, K samples of each, V target vocabulary, n symbols that are put in order.
"""

from __future__ import annotations

__all__ = ["choose"]

from typing import TYPE_CHECKING

import torch

from s2s.decoding.choosing import top

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.decoding import SampleConfig

FEW = 512
"""Symbols that are put in order at first: all of them took three quarters of a step (50 samples, V = 10,000)"""


def choose(log_probs: Tensor, allowed: Tensor, uniform: Tensor, config: SampleConfig) -> Tensor:
    """A symbol for each sample: log_probs, allowed [B, K, V], uniform [B, K] in [0, 1) -> [B, K].

    Symbols are laid end to end, each as long as it is probable, and the one is taken into which `uniform` falls.
    """
    scores = log_probs.masked_fill(~allowed, -torch.inf)
    if not config.top_k and config.top_p == 1:
        return _drawn((scores.double() / config.temperature).softmax(-1), uniform)
    parts, symbols = _best(scores, config)
    begins = torch.cat([torch.zeros_like(parts[..., :1]), parts.cumsum(-1)[..., :-1]], dim=-1)
    cut = begins >= config.top_p  # what stands behind the fewest that reach top_p
    place = _drawn(parts.masked_fill(cut, 0.0), uniform)
    return symbols.gather(-1, place[..., None])[..., 0]


def _best(scores: Tensor, config: SampleConfig) -> tuple[Tensor, Tensor]:
    """Probabilities and ids of the symbols that may be needed, the most probable first: [B, K, V] -> [B, K, n]."""
    n_symbols = scores.size(-1)
    if config.top_k:
        best, symbols = top(scores, min(config.top_k, n_symbols))
        return (best.double() / config.temperature).softmax(-1), symbols
    whole = (scores.double() / config.temperature).logsumexp(-1, keepdim=True)
    for n in (min(FEW, n_symbols), n_symbols):
        best, symbols = top(scores, n)
        parts = (best.double() / config.temperature - whole).exp()
        if not (parts.sum(-1) < config.top_p).any():
            break
    return parts, symbols


def _drawn(parts: Tensor, uniform: Tensor) -> Tensor:
    """The place into which `uniform` [B, K] falls, of parts [B, K, n] that need not sum to 1 -> [B, K]."""
    ends = parts.cumsum(-1)
    wanted = uniform[..., None] * ends[..., -1:]
    place = torch.searchsorted(ends, wanted, right=True)[..., 0]
    return place.clamp(max=parts.size(-1) - 1)
