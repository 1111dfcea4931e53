"""Constraints on every output besides the task's own: automata that the search applies together.

Shapes: B sentences, K hypotheses per sentence, V target tokens.
"""

from __future__ import annotations

__all__ = [
    "ConstraintSet",
    "FixedWidthConstraint",
    "StackAutomaton",
    "tokens_allowed",
]

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from s2s.errors import PluginError
from s2s.task import Constraint

if TYPE_CHECKING:
    from collections.abc import Sequence


class FixedWidthConstraint(Constraint, Protocol):
    """A constraint whose states, int64, have the same width for every source."""

    @property
    def width(self) -> int:
        """The last dimension of its states."""


class StackAutomaton(NamedTuple):
    """A constraint as tables, so that `fused_steps` need not call it: G counters and a stack of labels, 1 to L - 1.

    States are int64 [B, K, G], or [B, K, G + D + 1] with a stack of up to D labels: the counters, the last of which is
    the height of the stack, then the labels, the lowest first. Tables are int64, contiguous, on the CPU.
    """

    keep: Tensor
    add: Tensor
    """[V, G], both: a token changes each counter to counter * keep + add, clamped to `bounds`"""
    bounds: Tensor
    """[2, G], least and largest values"""
    label: Tensor
    """[V], the label that a token writes above the top one; it is on the stack if the token raises the height by 1"""
    allowed: Tensor
    """[L, 2 ** G], number of the list of allowed next tokens, by the top label, or 0, and the sum of 2 ** i over the
    counters i, from 0, that are above 0"""
    begin: Tensor
    """Index in `tokens` at which each list begins, and finally at which the last one ends"""
    tokens: Tensor
    """All lists, each in ascending order"""
    counted: Tensor | None = None
    """[N], ids of the source tokens that `first` counts: n of those in a source"""
    first: Tensor | None = None
    """[G, 5]: a counter begins with (a * n + b * limit + c) // d in an output of at most `limit` tokens without eos, of
    any source where each counter is at least its e; the height with 0. What `start` gives for the other sources these
    tables do not say. None: they say it for none, so that `start` is called for each"""


def tokens_allowed(constraint: Constraint, states: Tensor, n_tokens: int | None = None) -> Tensor:
    """The tokens that a constraint allows next: states [B, K, ·] -> bool [B, K, V]; n_tokens: V, if it is known.

    Raises PluginError for anything else, of which functions in C would read every byte as a token.
    """
    allowed = constraint.allowed(states)
    if allowed.dtype != torch.bool or allowed.size(-1) != (n_tokens or allowed.size(-1)):
        expected, actual = f"torch.bool [B, K, {n_tokens or 'V'}]", f"{allowed.dtype} {list(allowed.shape)}"
        raise PluginError(f"{type(constraint).__name__}.allowed: expected {expected}, got {actual}")
    return allowed


class ConstraintSet:
    """Several constraints at once: the task's own, if it has one, and others."""

    def __init__(self, own: Constraint | None, others: Sequence[FixedWidthConstraint]) -> None:
        self.own, self.others = own, others

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """The states of all, concatenated, the task's first: [B, 1, ·]"""
        states = [self.own.start(src, pad, limit)] if self.own else []
        return self._joined([*states, *(other.start(src, pad, limit) for other in self.others)])

    def allowed(self, state: Tensor) -> Tensor:
        """[B, K, ·] -> [B, K, V]"""
        (first, part), *others = self._parts(state)
        allowed = tokens_allowed(first, part)
        for constraint, part in others:
            allowed = allowed & tokens_allowed(constraint, part, allowed.size(-1))
        return allowed

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]."""
        return self._joined([constraint.advance(part, token) for constraint, part in self._parts(state)])

    def columns(self) -> list[tuple[FixedWidthConstraint, slice]]:
        """All constraints but the task's, and the columns of their states, counted from the end."""
        ends = list(accumulate((other.width for other in reversed(self.others)), initial=0))[::-1]
        return [(o, slice(-begin, -end or None)) for o, (begin, end) in zip(self.others, pairwise(ends), strict=True)]

    def _joined(self, states: Sequence[Tensor]) -> Tensor:
        """The states of all, concatenated; raises PluginError where `_parts` would not give them back."""
        n_own = len(states) - len(self.others)
        for other, state in zip(self.others, states[n_own:], strict=True):
            what = f"{type(other).__name__}: its states"
            if state.size(-1) != other.width:
                raise PluginError(f"{what} [B, K, {state.size(-1)}] have another width than its width={other.width}")
            if state.dtype != states[0].dtype:
                raise PluginError(
                    f"{what} are {state.dtype}, and those beside them {states[0].dtype}; all must be int64"
                )
        return states[0] if len(states) == 1 else torch.cat(list(states), dim=-1)

    def _parts(self, state: Tensor) -> list[tuple[Constraint, Tensor]]:
        """Every constraint and its states; the task's own takes the remaining columns."""
        if not self.own and len(self.others) == 1:
            return [(self.others[0], state)]
        widths = [other.width for other in self.others]
        first, *parts = state.split([state.size(-1) - sum(widths), *widths], dim=-1)
        pairs: list[tuple[Constraint, Tensor]] = list(zip(self.others, parts, strict=True))
        return [(self.own, first), *pairs] if self.own else pairs
