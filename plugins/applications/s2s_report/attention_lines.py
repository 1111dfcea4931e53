"""Attention drawn as in the paper's Figures 3 to 5: tokens in two columns, a line per weight, a colour per head.

Shapes: h heads, Q queries, K keys.
"""

from __future__ import annotations

__all__ = ["farthest", "figures", "sharpest"]

from html import escape
from typing import TYPE_CHECKING

import torch

from s2s_report.document import svg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from s2s import AttentionMap

ROW, COLUMN, MIDDLE, PAD = 20, 110, 190, 8
"""Height of a token, width of a column, width between them, margin, in pixels"""
LEAST = 0.05
"""Weights below are not drawn"""


def figures(of: AttentionMap, queries: Sequence[str], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pictures and captions: one token in all heads, that token in two heads, and all tokens in each of these heads."""
    n_heads, name = len(of.weights), f"{of.kind} attention, layer {of.layer}"
    token, heads = farthest(of.weights, queries), sharpest(of.weights)
    only = torch.zeros(of.weights.shape[1], dtype=torch.bool)
    only[token] = True
    alone = of.weights * only[:, None]
    yield (
        _lines(alone, range(n_heads), queries, keys),
        f"As Figure 3: {name}, from “{queries[token]}”, all {n_heads} heads",
    )
    numbers = " and ".join(str(head + 1) for head in heads)
    yield _lines(alone, heads, queries, keys), f"As Figure 4: {name}, from “{queries[token]}”, heads {numbers}"
    for head in heads:
        yield _lines(of.weights, [head], queries, keys), f"As Figure 5: {name}, head {head + 1}"


def farthest(weights: Tensor, queries: Sequence[str]) -> int:
    """The word with the largest mean attention distance, averaged over heads: weights [h, Q, K]."""
    places = torch.arange(weights.size(1))[:, None] - torch.arange(weights.size(2))
    distance = (weights.mean(0) * places.abs()).sum(-1)  # [Q]
    is_word = torch.tensor([name.isalpha() for name in queries])
    return int(distance.masked_fill(~is_word, -1.0).argmax())


def sharpest(weights: Tensor, n: int = 2) -> list[int]:
    """The `n` heads whose attention has the lowest entropy, in head order: weights [h, Q, K]."""
    entropy = -(weights * weights.clamp_min(1e-9).log()).sum(-1).mean(-1)  # [h]
    return sorted(entropy.argsort()[:n].tolist())


def _lines(weights: Tensor, heads: Sequence[int], queries: Sequence[str], keys: Sequence[str]) -> str:
    """weights [h, Q, K]"""
    height = max(len(queries), len(keys)) * ROW + 2 * PAD
    width = 2 * COLUMN + MIDDLE
    middle = lambda i: PAD + i * ROW + ROW // 2  # noqa: E731
    parts: list[str] = []
    for head in heads:
        for q, row in enumerate(weights[head].tolist()):
            parts += [
                f'<line x1="{COLUMN}" y1="{middle(q)}" x2="{COLUMN + MIDDLE}" y2="{middle(k)}" stroke-width="2" '
                f'style="stroke:var(--c{head % 6})" stroke-opacity="{weight:.2f}"/>'
                for k, weight in enumerate(row)
                if weight >= LEAST
            ]
    parts += [
        f'<text x="{COLUMN - 6}" y="{middle(i) + 4}" text-anchor="end">{escape(name)}</text>'
        for i, name in enumerate(queries)
    ]
    parts += [
        f'<text x="{COLUMN + MIDDLE + 6}" y="{middle(i) + 4}">{escape(name)}</text>' for i, name in enumerate(keys)
    ]
    return svg(parts, width, height)
