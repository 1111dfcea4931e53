"""Bounds on the depth of trees, beyond which a model is assumed to repeat itself."""

from __future__ import annotations

__all__ = ["Bounds"]

from typing import TYPE_CHECKING, NamedTuple

from s2s_parsing.linear import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s_parsing.linear import Action


class Bounds(NamedTuple):
    """Maxima over trees; they depend on the order of the form."""

    depth: int
    """Brackets open at once, without TOP"""
    opened: int
    """Brackets opened between two words, or after the last; bounds unary chains, too"""

    @classmethod
    def of(cls, outputs: Iterable[Iterable[Action]]) -> Bounds:
        """The smallest bounds that allow all of these, each a tree as returned by `Linear.actions`."""
        bounds = cls(0, 0)
        for actions in outputs:
            depth = opened = 0
            for kind, _ in actions:
                if kind is Kind.WORD:
                    opened = 0
                elif kind is Kind.CLOSE:
                    depth -= 1
                else:
                    depth, opened = depth + 1, opened + 1
                    bounds = bounds.over(cls(depth, opened))
        return bounds

    def over(self, other: Bounds) -> Bounds:
        """The smallest bounds that allow everything that either allows."""
        return Bounds(*map(max, self, other))

    def with_reserve(self) -> Bounds:
        """1.5 times plus 2: new text may nest deeper than the training trees."""
        return Bounds(*(bound + bound // 2 + 2 for bound in self))
