"""Applies the constraint of each task to the rows of that task.

Shapes: B sentences, S source length, K hypotheses of a sentence, V target tokens of the largest task, W of a state.
"""

from __future__ import annotations

__all__ = ["MultitaskConstraint"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional as F

from s2s import Constraint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor


class TaskConstraint(NamedTuple):
    """The constraint of one task, and its vocabulary."""

    constraint: Constraint | None
    n_tokens: int
    """Size of its target vocabulary, the first part of the common one"""
    offset: int
    """Added to its source ids"""


class MultitaskConstraint(Constraint):
    """The state is int64 [B, K, 1 + W]: the kind of the source, and the state of that kind's own constraint."""

    def __init__(self, parts: Sequence[TaskConstraint], first_tag: int) -> None:
        self.parts, self.first_tag = parts, first_tag
        self.n_tokens = max(part.n_tokens for part in parts)

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """States of the empty outputs: src, pad [B, S], limit [B] -> [B, 1, 1 + W]. Tags are not tokens of any task."""
        kind = (src[:, 0] - self.first_tag).clamp(0, len(self.parts) - 1)
        begun = []
        for own, part in enumerate(self.parts):  # for every task, even without rows, so that W is always the same
            rows, text = kind == own, src[:, 1:]
            text = torch.where(text >= self.first_tag, text - part.offset, text)
            none = torch.zeros(int(rows.sum()), 1, 0, dtype=torch.long, device=src.device)
            begun.append(part.constraint.start(text[rows], pad[rows, 1:], limit[rows]) if part.constraint else none)
        self.widths = [state.size(2) for state in begun]
        state = torch.zeros(len(src), 1, 1 + max(self.widths), dtype=torch.long, device=src.device)
        state[:, 0, 0] = kind
        for own, (width, of_own) in enumerate(zip(self.widths, begun, strict=True)):
            assert of_own.dtype == torch.long, "only whole numbers are kept side by side"
            state[kind == own, :, 1 : 1 + width] = of_own
        return state

    def allowed(self, state: Tensor) -> Tensor:
        """State [B, K, 1 + W] -> [B, K, V]"""
        allowed = torch.zeros(*state.shape[:2], self.n_tokens, dtype=torch.bool, device=state.device)
        for own, part, rows in self._present(state):
            own_allowed = part.constraint.allowed(self._inner(state, own, rows)) if part.constraint else True
            allowed[rows, :, : part.n_tokens] = own_allowed
        return allowed

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]; a dead hypothesis may have a token outside its task's vocabulary."""
        after = state.clone()
        for own, part, rows in self._present(state):
            if part.constraint:
                known = token[rows].clamp(max=part.n_tokens - 1)
                moved = part.constraint.advance(self._inner(state, own, rows), known)
                after[rows] = F.pad(
                    torch.cat([state[rows][..., :1], moved], -1), (0, state.size(2) - 1 - moved.size(2))
                )
        return after

    def _present(self, state: Tensor) -> Iterator[tuple[int, TaskConstraint, Tensor]]:
        """The tasks that have rows in the batch, and their rows."""
        for own in state[:, 0, 0].unique().tolist():
            yield own, self.parts[own], (state[:, 0, 0] == own).nonzero()[:, 0]

    def _inner(self, state: Tensor, own: int, rows: Tensor) -> Tensor:
        return state[rows][..., 1 : 1 + self.widths[own]]
