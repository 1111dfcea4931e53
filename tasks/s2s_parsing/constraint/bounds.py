"""How far an output may go before it is taken for a model's stammer."""

from __future__ import annotations

__all__ = ["Bounds"]

from typing import TYPE_CHECKING, NamedTuple

from s2s_parsing.linear import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s_parsing.linear import Action


class Bounds(NamedTuple):
    """The most of what trees have only so much of. A form has bounds of its own: they hold for its order."""

    depth: int
    """Brackets that are open at once, TOP not among them"""
    opened: int
    """Brackets opened between two words, or behind the last: it bounds chains of unary brackets, too"""

    @classmethod
    def of(cls, outputs: Iterable[Iterable[Action]]) -> Bounds:
        """The least that let all of these pass, each given as `Linear.actions` writes a tree."""
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
        """The least that let pass what either does."""
        return Bounds(*map(max, self, other))

    def with_reserve(self) -> Bounds:
        """Half as much again, and two more: new text may nest deeper than what was learnt from."""
        return Bounds(*(bound + bound // 2 + 2 for bound in self))
