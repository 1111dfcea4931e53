"""Numbers that are added to the scores of self-attention by distance, as in T5 (Raffel et al., 2020, section 2.1).

Shapes: h heads, T queries, S keys, N buckets.
"""

from __future__ import annotations

__all__ = ["RelativeBias", "distances", "relative_biases"]

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from s2s_transformer import TransformerConfig


class RelativeBias(nn.Module):
    """A number for each head and bucket of distances; all layers of a stack share it.

    The first half of the buckets are for single distances, the others for ranges that grow up to `furthest`. An encoder
    uses half of them for keys after the query.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__()
        self.causal, self.furthest = causal, config.bias_distance
        self.weight = nn.Parameter(torch.empty(config.bias_buckets, config.n_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform."""
        nn.init.xavier_uniform_(self.weight)

    def forward(self, distance: Tensor) -> Tensor:
        """distance of the key from the query [..., T, S] -> [..., h, T, S]"""
        return self.weight[self.buckets(distance)].movedim(-1, -3)

    def buckets(self, distance: Tensor) -> Tensor:
        """[...] -> [...]"""
        n = len(self.weight) if self.causal else len(self.weight) // 2
        first = 0 if self.causal else n * (distance > 0).long()
        distance = (-distance).clamp(min=0) if self.causal else distance.abs()
        n_single = n // 2
        ratio = (distance.clamp(min=1).float() / n_single).log() / math.log(self.furthest / n_single)
        ranges = (n_single + (ratio * (n - n_single)).long()).clamp(max=n - 1)
        return first + torch.where(distance < n_single, distance, ranges)


def relative_biases(config: TransformerConfig) -> tuple[RelativeBias | None, RelativeBias | None]:
    """The encoder's and the decoder's, if the configuration has them."""
    if config.positions != "relative_bias":
        return None, None
    has_attention = config.decoder_self_attention == "attention"
    return RelativeBias(config, causal=False), RelativeBias(config, causal=True) if has_attention else None


def distances(n: int, device: torch.device) -> Tensor:
    """[n, n], of each key from each query"""
    position = torch.arange(n, device=device)
    return position - position[:, None]
