"""Attention drawn as in the paper's Figures 3 to 5: tokens in two columns, a line per weight, a colour per head.

Shapes: h heads, Q queries, K keys.
"""

from __future__ import annotations

__all__ = ["GAP", "Drawing", "Figure", "farthest", "figures", "sharpest"]

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import torch

from s2s_report.document import svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from s2s import AttentionMap

ROW, COLUMN, MIDDLE, PAD, GAP = 20, 110, 190, 8, 6
"""Height of a token, width of a column, width between them, margin, and from a token to its lines, in pixels"""
LEAST = 0.05
"""Weights below are not drawn"""


class Line(NamedTuple):
    """The weight of a query and a key."""

    query: int
    key: int
    head: int
    weight: float


@dataclass(frozen=True)
class Drawing:
    """Two columns of tokens, and the lines between them."""

    queries: Sequence[str]
    keys: Sequence[str]
    lines: list[Line]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, in pixels."""
        return 2 * COLUMN + MIDDLE, max(len(self.queries), len(self.keys)) * ROW + 2 * PAD

    @property
    def columns(self) -> tuple[int, int]:
        """Where lines begin and end."""
        return COLUMN, COLUMN + MIDDLE

    @staticmethod
    def middle(row: int) -> int:
        """The middle of a row, from the top."""
        return PAD + row * ROW + ROW // 2

    def svg(self) -> str:
        """The picture in the colours of the page."""
        left, right = self.columns
        parts = [
            f'<line x1="{left}" y1="{self.middle(one.query)}" x2="{right}" y2="{self.middle(one.key)}" '
            f'stroke-width="2" style="stroke:var(--c{one.head % 6})" stroke-opacity="{one.weight:.2f}"/>'
            for one in self.lines
        ]
        for names, side in ((self.queries, f'x="{left - GAP}" text-anchor="end"'), (self.keys, f'x="{right + GAP}"')):
            parts += [f'<text {side} y="{self.middle(i) + 4}">{escape(name)}</text>' for i, name in enumerate(names)]
        return svg(parts, *self.size)


class Figure(NamedTuple):
    """A drawing as the page shows it and a file is named."""

    name: str
    caption: str
    drawing: Drawing


def figures(of: AttentionMap, queries: Sequence[str], keys: Sequence[str]) -> Iterator[Figure]:
    """One token in all heads, that token in two heads, and all tokens in each of these heads."""
    n_heads, name = len(of.weights), f"{of.kind} attention, layer {of.layer}"
    token, heads = farthest(of.weights, queries), sharpest(of.weights)
    only = torch.zeros(of.weights.shape[1], dtype=torch.bool)
    only[token] = True
    alone = of.weights * only[:, None]
    caption = f"{name}, from “{queries[token]}”"
    yield Figure(
        "figure-3", f"As Figure 3: {caption}, all {n_heads} heads", _drawing(alone, range(n_heads), queries, keys)
    )
    numbers = " and ".join(str(head + 1) for head in heads)
    yield Figure("figure-4", f"As Figure 4: {caption}, heads {numbers}", _drawing(alone, heads, queries, keys))
    for head in heads:
        drawing = _drawing(of.weights, [head], queries, keys)
        yield Figure(f"figure-5-head-{head + 1}", f"As Figure 5: {name}, head {head + 1}", drawing)


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


def _drawing(weights: Tensor, heads: Sequence[int], queries: Sequence[str], keys: Sequence[str]) -> Drawing:
    """weights [h, Q, K]"""
    lines = [
        Line(query, key, head, weight)
        for head in heads
        for query, row in enumerate(weights[head].tolist())
        for key, weight in enumerate(row)
        if weight >= LEAST
    ]
    return Drawing(queries, keys, lines)
