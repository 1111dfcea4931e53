"""The fine chart: the refined grammar on the items that the coarse one left, and the tree with the best rules
(max-rule-product, Petrov and Klein, 2007).

Items are (span, symbol, layer) that survived; edges are rules over items. Both are listed once, width by width.
Shapes: M items, C edges of one width, K substates.
"""

from __future__ import annotations

__all__ = ["best_tree"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s_pcfg.coarse import spans_of

if TYPE_CHECKING:
    from s2s_pcfg.grammar import Grammar

CHUNK = 1 << 23
"""Maximum number of gathered rule probabilities held at a time"""
Nodes = list[tuple[str, int, int]]


class Edges(NamedTuple):
    """Rules over items."""

    rule: Tensor
    """[C]"""
    upper: Tensor
    left: Tensor
    right: Tensor
    """[C], items; equal to `left` for a unary rule"""


class Level(NamedTuple):
    """The edges of one width."""

    binary: Edges
    unary: Edges
    same: Edges
    """From the bottom layer to the top without a rule"""


def best_tree(grammar: Grammar, emissions: Tensor, bottom: Tensor, top: Tensor) -> tuple[Nodes, int] | None:
    """Nodes (symbol, left, right), or (tag, -1, position) for words, and the root; None if there is no parse.

    emissions [n, X, K]; bottom, top [n, n + 1, X], True where a symbol survived the coarse chart
    """
    chart = FineChart(grammar, emissions, bottom, top)
    return chart.tree() if chart.likelihood > 0 else None


class FineChart:
    """Inside and outside vectors of items, and the posterior of every edge."""

    def __init__(self, grammar: Grammar, emissions: Tensor, bottom: Tensor, top: Tensor) -> None:
        self.grammar, self.n = grammar, len(emissions)
        self.bottom, n_bottom = numbered(bottom, 0)
        self.top, n_items = numbered(top, n_bottom)
        self.inside = torch.zeros(n_items, grammar.k, dtype=torch.double)
        self.symbol = torch.cat([bottom.nonzero()[:, 2], top.nonzero()[:, 2]])
        words, tags = (self.bottom[torch.arange(self.n), torch.arange(1, self.n + 1)] >= 0).nonzero().T
        self.lexical = self.bottom[words, words + 1, tags]
        self.word = dict(zip(self.lexical.tolist(), words.tolist(), strict=True))
        self.inside[self.lexical] = emissions[words, tags]
        self.levels = [self._level(width) for width in range(1, self.n + 1)]
        for level in self.levels:
            self._add(level)
        self.roots = self.top[0, self.n]
        self.roots = self.roots[self.roots >= 0]
        self.at_root = self.grammar.p_root[self.symbol[self.roots]]
        self.likelihood = float((self.inside[self.roots] * self.at_root).sum())

    def _level(self, width: int) -> Level:
        first, splits, end = spans_of(self.n, width)
        x, y, z = self.grammar.binary.T
        levels = [(torch.empty(0, dtype=torch.long),) * 4]
        for i in range(len(first) if width > 1 else 0):
            upper = self.bottom[first[i, 0], end[i, 0]]  # [X]
            rules = (upper[x] >= 0).nonzero()[:, 0]
            left = self.top[first[i], splits[i]][:, y[rules]]  # [splits, rules]
            right = self.top[splits[i], end[i]][:, z[rules]]
            k, r = ((left >= 0) & (right >= 0)).nonzero().T
            levels.append((rules[r], upper[x[rules[r]]], left[k, r], right[k, r]))
        binary = Edges(*(torch.cat(parts) for parts in zip(*levels, strict=True)))
        spans = first[:, 0], end[:, 0]
        upper, lower = self.top[spans][:, self.grammar.unary[:, 0]], self.bottom[spans][:, self.grammar.unary[:, 1]]
        s, rule = ((upper >= 0) & (lower >= 0)).nonzero().T
        unary = Edges(rule, upper[s, rule], lower[s, rule], lower[s, rule])
        both = (self.top[spans] >= 0) & (self.bottom[spans] >= 0)
        over, under = self.top[spans][both], self.bottom[spans][both]
        return Level(binary, unary, Edges(over, over, under, under))

    def _add(self, level: Level) -> None:
        grammar, inside = self.grammar, self.inside
        for e in chunks(level.binary, grammar.k**3):
            pair = inside[e.left][:, :, None] * inside[e.right][:, None]
            products = torch.bmm(grammar.p_binary[e.rule].flatten(2), pair.flatten(1)[..., None])[..., 0]
            inside.index_add_(0, e.upper, products)
        inside.index_add_(0, level.same.upper, inside[level.same.left])
        e = level.unary
        inside.index_add_(0, e.upper, torch.einsum("cij,cj->ci", grammar.p_unary[e.rule], inside[e.left]))

    def posteriors(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Posteriors of the edges of each level: binary, unary, same."""
        grammar, inside, outside = self.grammar, self.inside, torch.zeros_like(self.inside)
        outside[self.roots] = self.at_root / self.likelihood
        posteriors = []
        for level in reversed(self.levels):
            e = level.same
            same = (outside[e.upper] * inside[e.left]).sum(1)
            outside.index_add_(0, e.left, outside[e.upper])
            e = level.unary
            down = torch.einsum("cij,ci->cj", grammar.p_unary[e.rule], outside[e.upper])
            unary = (down * inside[e.left]).sum(1)
            outside.index_add_(0, e.left, down)
            binary = [torch.empty(0, dtype=torch.double)]
            for e in chunks(level.binary, grammar.k**3):
                rules = grammar.p_binary[e.rule].flatten(2)
                down = torch.bmm(outside[e.upper][:, None], rules).unflatten(2, (grammar.k, -1))[:, 0]  # [C, K, K]
                left = torch.einsum("cjk,ck->cj", down, inside[e.right])
                outside.index_add_(0, e.left, left)
                outside.index_add_(0, e.right, torch.einsum("cjk,cj->ck", down, inside[e.left]))
                binary.append((left * inside[e.left]).sum(1))
            posteriors.append((torch.cat(binary), unary, same))
        return posteriors[::-1]

    def tree(self) -> tuple[Nodes, int]:
        """The tree with the largest product of the posteriors of its edges."""
        score = torch.full((len(self.inside),), -torch.inf, dtype=torch.double)
        score[self.lexical] = 0
        back: dict[int, tuple[int, ...]] = {}
        for level, (binary, unary, same) in zip(self.levels, self.posteriors(), strict=True):
            best(score, back, level.binary, binary, two=True)
            joined = Edges(*(torch.cat(parts) for parts in zip(level.same, level.unary, strict=True)))
            best(score, back, joined, torch.cat([same, unary]), two=False)
        return self._nodes(int(self.roots[score[self.roots].argmax()]), back)

    def _nodes(self, root: int, back: dict[int, tuple[int, ...]]) -> tuple[Nodes, int]:
        nodes: Nodes = []
        number: dict[int, int] = {}
        stack = [(root, False)]
        while stack:
            item, ready = stack.pop()
            children = back.get(item, ())
            if not ready:
                stack.append((item, True))
                stack.extend((child, False) for child in children)
                continue
            name, below = self.grammar.symbols.names[int(self.symbol[item])], [number[child] for child in children]
            if len(children) == 1 and self.symbol[item] == self.symbol[children[0]]:
                number[item] = below[0]  # from layer to layer without a rule
                continue
            nodes.append((name, *below, -1)[:3] if below else (name, -1, self.word[item]))  # type: ignore[arg-type]
            number[item] = len(nodes) - 1
        return nodes, number[root]


def numbered(alive: Tensor, first: int) -> tuple[Tensor, int]:
    """The number of each surviving item, from `first` on, -1 elsewhere; and the next free number."""
    numbers = alive.flatten().cumsum(0).view_as(alive) - 1 + first
    return numbers.masked_fill(~alive, -1), first + int(alive.sum())


def chunks(edges: Edges, size: int) -> list[Edges]:
    """Chunks whose gathered rules fit into CHUNK."""
    n = max(CHUNK // size, 1)
    return [Edges(*part) for part in zip(*(t.split(n) for t in edges), strict=True)] if len(edges.rule) else []


def best(score: Tensor, back: dict[int, tuple[int, ...]], edges: Edges, posterior: Tensor, *, two: bool) -> None:
    """Set each item's best edge and score."""
    edge_score = posterior.clamp(min=1e-300).log() + score[edges.left] + (score[edges.right] if two else 0.0)
    most = torch.full_like(score, -torch.inf).scatter_reduce_(0, edges.upper, edge_score, "amax")
    chosen = (edge_score == most[edges.upper]).nonzero()[:, 0]
    lists = (t[chosen].tolist() for t in (edges.upper, edges.left, edges.right))
    for upper, left, right in zip(*lists, strict=True):
        back.setdefault(upper, (left, right) if two else (left,))
    score[edges.upper] = torch.maximum(score[edges.upper], most[edges.upper])
