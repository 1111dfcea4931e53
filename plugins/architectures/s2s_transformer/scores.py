"""Attention with other scores than the paper's, or with fewer heads of keys and values than of queries.

Each is a layout around the one that defines which position attends to which, so that sub-layers do not depend on it.
Shapes: h heads of queries, g heads of keys and values, T positions, S keys, K hypotheses, d width of a query.
"""

from __future__ import annotations

__all__ = ["AdaptedCrossAttention", "AdaptedSelfAttention", "GroupedQueryLayout", "QueryKeyTransform", "rotate"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend import device_of
from s2s.nn import CachedAttention, CrossAttention, Heads, Layout, PaddedLayout, SelfAttention, VarlenLayout
from s2s_transformer.explicit import AdditiveScore, DotProductScore, ExplicitLayout, RelativeScore

if TYPE_CHECKING:
    from s2s.nn import KeysValues
    from s2s_transformer import TransformerConfig

LONGEST_WAVE = 10_000.0


class AdaptedSelfAttention(SelfAttention):
    """Self-attention with the scores, positions and heads that a configuration names."""

    def __init__(self, config: TransformerConfig, heads: Heads) -> None:
        super().__init__(config.d_model, heads, config.attention_dropout, bias=config.bias)
        self.score = additive_score(config, heads)
        if config.positions == "relative":
            self.score = RelativeScore(heads, config.relative_distance)
        self.unscaled, self.rotary = config.attention_score == "dot", config.positions == "rotary"

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        adapted = with_heads_and_score(layout, self.heads, self.score)
        position = positions(layout, x) if self.rotary else None
        return super().forward(x, QueryKeyTransform(adapted, self.unscaled, position))


class AdaptedCrossAttention(CrossAttention):
    """Attention to the source with the scores and heads that a configuration names."""

    def __init__(self, config: TransformerConfig, heads: Heads) -> None:
        super().__init__(config.d_model, heads, config.attention_dropout, bias=config.bias)
        self.score, self.unscaled = additive_score(config, heads), config.attention_score == "dot"

    def forward(self, x: Tensor, memory: Tensor | KeysValues, layout: Layout) -> Tensor:
        """[..., T, D], memory [..., S, D] or its keys and values -> [..., T, D]"""
        adapted = with_heads_and_score(layout, self.heads, self.score)
        return super().forward(x, memory, QueryKeyTransform(adapted, self.unscaled, None))


def additive_score(config: TransformerConfig, heads: Heads) -> DotProductScore | None:
    """None: the score is a product, which a kernel computes."""
    return AdditiveScore(heads) if config.attention_score == "additive" else None


def with_heads_and_score(layout: Layout, heads: Heads, score: DotProductScore | None) -> Layout:
    """The layout with scores of its own, or for fewer heads of keys and values."""
    if score is not None:
        assert isinstance(layout, PaddedLayout | CachedAttention), "such scores are computed of padded sentences alone"
        return ExplicitLayout(layout, score)
    return layout if heads.n_kv_heads == heads.n else GroupedQueryLayout(layout)


@dataclass
class QueryKeyTransform:
    """Passes modified queries and keys to a layout, which divides every score by sqrt(d_k)."""

    layout: Layout
    unscaled: bool
    """Scores are q k."""
    position: Tensor | None
    """Queries and keys are rotated by angles that grow with it (Su et al., 2021); None: they are not."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k [..., h, T, d], v [..., h, T, d_v] -> [..., h, T, d_v]"""
        if self.position is not None:
            q, k = rotate(q, self.position), rotate(k, self.position)
        if self.unscaled:
            q = q * q.size(-1) ** 0.5
        return self.layout.attend(q, k, v, dropout)


@dataclass
class GroupedQueryLayout:
    """Heads of queries in g groups, each of which shares one head of keys and values (Ainslie et al., 2023)."""

    layout: Layout

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [..., h, T, d], k [..., g, S, d], v [..., g, S, d_v] -> [..., h, T, d_v]"""
        if isinstance(self.layout, CachedAttention):
            return ExplicitLayout(self.layout, DotProductScore()).attend(q, k, v, dropout)
        n_shared = q.size(-3) // k.size(-3)
        if _is_of_padding(self.layout):  # a group's queries are treated as one head
            folded = q.unflatten(-3, (-1, n_shared)).flatten(-3, -2)  # [..., g, n_shared * T, d]
            out = self.layout.attend(folded, k, v, dropout)
            return out.unflatten(-2, (n_shared, -1)).flatten(-4, -3)
        k, v = (x.repeat_interleave(n_shared, dim=-3) for x in (k, v))
        return self.layout.attend(q, k, v, dropout)


def _is_of_padding(layout: Layout) -> bool:
    """Whether all queries of all heads attend to the same keys, with no bias of their own."""
    if type(layout) is not PaddedLayout or layout.causal:
        return False
    return layout.bias is None or layout.bias.shape[1:3] == (1, 1)


def positions(layout: Layout, x: Tensor) -> Tensor:
    """The position of each query of x [..., T, D], of shape [..., h, T] or one that broadcasts to it."""
    if isinstance(layout, CachedAttention):
        return layout.paths.length[:, None, None] - 1  # of the newest token, [B, 1, 1]
    if isinstance(layout, VarlenLayout):
        return layout.queries.positions  # [N]
    return torch.arange(x.size(-2), device=x.device)


def rotate(x: Tensor, position: Tensor) -> Tensor:
    """x [..., d] -> [..., d]: values 2i and 2i + 1 as a point of the plane, rotated by position * 10000^(-2i / d)."""
    wide = device_of(x.device).wide_dtype
    wave = torch.arange(0, x.size(-1), 2, dtype=wide, device=x.device) / x.size(-1)
    angle = position[..., None] * LONGEST_WAVE**-wave  # [..., d / 2]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
