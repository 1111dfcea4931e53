"""Attention that materialises all scores: for scores that no kernel computes, and for keys that several heads share.

Shapes: B sentences, h heads of queries, g heads of keys and values, T queries, S keys, K hypotheses, d = d_k.
"""

from __future__ import annotations

__all__ = ["AdditiveScore", "DotProductScore", "ExplicitLayout", "RelativeScore"]

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from s2s.backend import operators
from s2s.nn import CachedAttention, Heads, PaddedLayout, PaddedLayoutWithWeights

BLOCKED = -3e4
"""Finite, so that a row without allowed keys is not NaN; its exp is 0, and fp16 can represent it"""


class DotProductScore(nn.Module):
    """The paper's score, q k / sqrt(d_k)."""

    def scores(self, q: Tensor, k: Tensor, distance: Tensor) -> Tensor:
        """q [B, h, T, d], k [B, h, S, d] -> [B, h, T, S]; distance, of the key from the query, [B or 1, T, S]"""
        del distance
        return (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)

    def read(self, weights: Tensor, v: Tensor, distance: Tensor) -> Tensor:
        """weights [B, h, T, S], v [B, h, S, d_v] -> [B, h, T, d_v]"""
        del distance
        return weights @ v


class AdditiveScore(DotProductScore):
    """u tanh(q + k) with a vector u for each head (Bahdanau et al., 2015, section A.1.2), which section 3.2.1 compares
    with the product. Time and memory grow with T S h d."""

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.empty(heads.n, heads.d_k))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform, of a map from d to 1."""
        bound = (6 / (self.u.size(1) + 1)) ** 0.5
        nn.init.uniform_(self.u, -bound, bound)

    def scores(self, q: Tensor, k: Tensor, distance: Tensor) -> Tensor:
        """q [B, h, T, d], k [B, h, S, d] -> [B, h, T, S]"""
        del distance
        together = (q[..., :, None, :] + k[..., None, :, :]).tanh()  # [B, h, T, S, d]
        return (together @ self.u[:, None, :, None].to(q.dtype)).squeeze(-1)


class RelativeScore(DotProductScore):
    """q (k + a_ij) / sqrt(d_k), and values v + b_ij, with vectors for each distance up to `reach`, which all heads of a
    layer share (Shaw et al., 2018, equations 3 and 4)."""

    def __init__(self, heads: Heads, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.keys = nn.Parameter(torch.empty(2 * reach + 1, heads.d_k))
        self.values = nn.Parameter(torch.empty(2 * reach + 1, heads.d_v))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform."""
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def scores(self, q: Tensor, k: Tensor, distance: Tensor) -> Tensor:
        """q [B, h, T, d], k [B, h, S, d], distance [B or 1, T, S] -> [B, h, T, S]"""
        q = q * q.size(-1) ** -0.5
        distance_scores = q @ self.keys.to(q.dtype).T  # [B, h, T, 2 * reach + 1]
        return q @ k.transpose(-2, -1) + distance_scores.gather(-1, self._rows(distance, distance_scores))

    def read(self, weights: Tensor, v: Tensor, distance: Tensor) -> Tensor:
        """weights [B, h, T, S], v [B, h, S, d_v] -> [B, h, T, d_v]"""
        sums = weights.new_zeros(*weights.shape[:-1], len(self.values))  # of the weights at each distance
        sums = sums.scatter_add(-1, self._rows(distance, sums), weights)
        return weights @ v + sums @ self.values.to(v.dtype)

    def _rows(self, distance: Tensor, like: Tensor) -> Tensor:
        """The vectors' indices, [B, h, T, S]"""
        rows = distance.clamp(-self.reach, self.reach) + self.reach
        return rows[:, None].expand(*like.shape[:3], -1)


class AttentionInputs(NamedTuple):
    """What queries attend to."""

    k: Tensor
    """[B, g, S, d]"""
    v: Tensor
    """[B, g, S, d_v]"""
    bias: Tensor
    """Broadcast to [B, h, T, S], BLOCKED where a key may not be attended to"""
    distance: Tensor
    """[B or 1, T, S], of the key from the query"""


@dataclass
class ExplicitLayout:
    """A layout of padded sentences, or of a decoding step, with scores of its own."""

    layout: PaddedLayout | CachedAttention
    score: DotProductScore

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [B, h, T, d], k [B, g, S, d], v [B, g, S, d_v] -> [B, h, T, d_v]"""
        layout = self.layout
        seen = _cached_inputs(layout, k, v) if isinstance(layout, CachedAttention) else _padded_inputs(layout, q, k, v)
        k, v = (x.repeat_interleave(q.size(1) // x.size(1), dim=1) for x in (seen.k, seen.v))
        scores = self.score.scores(q, k, seen.distance)
        weights = (scores + seen.bias.to(scores.dtype)).softmax(-1)
        if isinstance(layout, PaddedLayoutWithWeights):
            layout.weights = weights
        return self.score.read(operators.apply_dropout(weights, dropout).to(v.dtype), v, seen.distance)


def _padded_inputs(layout: PaddedLayout, q: Tensor, k: Tensor, v: Tensor) -> AttentionInputs:
    query, key = torch.arange(q.size(-2), device=q.device)[:, None], torch.arange(k.size(-2), device=q.device)
    distance, bias = key - query, layout.bias
    if layout.causal:
        bias = (distance > 0) * BLOCKED
    return AttentionInputs(k, v, q.new_zeros(1) if bias is None else bias, distance[None])


def _cached_inputs(layout: CachedAttention, k: Tensor, v: Tensor) -> AttentionInputs:
    """All keys and values, including the newest k, v [B, g, K, d]."""
    keys, values = layout.keys_values(k, v)
    bias = layout.paths.bias if layout.bias is None else layout.bias
    return AttentionInputs(keys, values, bias, layout.paths.distance)
