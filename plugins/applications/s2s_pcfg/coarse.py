"""The coarse chart: inside and outside values of the treebank grammar, which prune the chart of the refined grammar.

A chart has two layers for a span: `bottom`, derived by a word or a binary rule, and `top`, with at most one unary rule
above.

Shapes: n words, s spans of one width, k their splits, X symbols, R binary rules.
"""

from __future__ import annotations

__all__ = ["CoarseChart", "CoarseGrammar", "spans_of"]

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class CoarseGrammar:
    """The grammar without substates, with its probabilities."""

    binary: Tensor
    """[R, 3]"""
    p_binary: Tensor
    """[R]"""
    unary: Tensor
    """[X, X], p(X -> Y)"""
    root: Tensor
    """[X]"""

    @classmethod
    def of(cls, binary: Tensor, unary: Tensor, p: tuple[Tensor, Tensor, Tensor]) -> CoarseGrammar:
        """p: probabilities of root [X], binary [R] and unary [U] rules"""
        root, p_binary, p_unary = p
        matrix = torch.zeros(len(root), len(root), dtype=torch.double)
        matrix[unary[:, 0], unary[:, 1]] = p_unary
        return cls(binary, p_binary, matrix, root)


def spans_of(n: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """First words [s, 1], splits [s, k] and ends [s, 1] of all spans of a width."""
    first = torch.arange(n - width + 1)[:, None]
    return first, first + torch.arange(1, width), first + width


class CoarseChart:
    """Inside values of a sentence, and posteriors of its constituents."""

    def __init__(self, grammar: CoarseGrammar, emissions: Tensor) -> None:
        """emissions [n, X], of each word from each tag"""
        self.grammar, self.n = grammar, len(emissions)
        shape = (self.n, self.n + 1, len(grammar.root))
        self.bottom, self.top = (torch.zeros(shape, dtype=torch.double) for _ in range(2))
        self.pairs = grammar.binary[:, 1] * shape[2] + grammar.binary[:, 2]
        """[R], of left and right child"""
        words = torch.arange(self.n)
        self._put(words, words + 1, emissions)
        for width in range(2, self.n + 1):
            self._combine(width)
        self.likelihood = float((self.top[0, self.n] * grammar.root).sum())

    def _put(self, first: Tensor, end: Tensor, bottom: Tensor) -> None:
        self.bottom[first, end] = bottom
        self.top[first, end] = bottom + bottom @ self.grammar.unary.T

    def _combine(self, width: int) -> None:
        first, splits, end = spans_of(self.n, width)
        pairs = self.top[first, splits].mT @ self.top[splits, end]  # [s, X, X]
        rules = pairs.flatten(1)[:, self.pairs] * self.grammar.p_binary  # [s, R]
        bottom = torch.zeros(len(first), self.bottom.size(2), dtype=torch.double)
        self._put(first[:, 0], end[:, 0], bottom.index_add_(1, self.grammar.binary[:, 0], rules))

    def posteriors(self) -> tuple[Tensor, Tensor]:
        """Posteriors of each symbol in the bottom and in the top layer of each span, each [n, n + 1, X]."""
        outside_bottom, outside_top = torch.zeros_like(self.bottom), torch.zeros_like(self.top)
        outside_top[0, self.n] = self.grammar.root
        for width in range(self.n, 0, -1):
            first, splits, end = spans_of(self.n, width)
            above = outside_top[first[:, 0], end[:, 0]]
            below = above + above @ self.grammar.unary
            outside_bottom[first[:, 0], end[:, 0]] = below
            rules = below[:, self.grammar.binary[:, 0]] * self.grammar.p_binary
            flat = torch.zeros(len(first), below.size(1) ** 2, dtype=torch.double).index_add_(1, self.pairs, rules)
            pairs = flat.unflatten(1, (below.size(1), -1))  # [s, X of the left, X of the right]
            outside_top[first, splits] += self.top[splits, end] @ pairs.mT
            outside_top[splits, end] += self.top[first, splits] @ pairs
        return self.bottom * outside_bottom / self.likelihood, self.top * outside_top / self.likelihood
