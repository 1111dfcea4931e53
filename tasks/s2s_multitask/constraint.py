"""Applies the constraint of each task to the rows of that task.

Shapes: B sentences, S source length, K hypotheses of a sentence, V target tokens of the largest task, W of a state.
"""

from __future__ import annotations

__all__ = ["MultitaskConstraint"]

from typing import TYPE_CHECKING, NamedTuple

import torch

from s2s import Constraint, PluginError

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
    """The state is int64 [B, K, 2 + W]: the kind of the source, the width of the state of that kind's own constraint,
    which may depend on the sources that begin together, and that state."""

    def __init__(self, parts: Sequence[TaskConstraint], first_tag: int) -> None:
        self.parts, self.first_tag = parts, first_tag
        self.n_tokens = max(part.n_tokens for part in parts)

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """States of the empty outputs: src, pad [B, S], limit [B] -> [B, 1, 2 + W]. Tags are not tokens of any task."""
        kind = (src[:, 0] - self.first_tag).clamp(0, len(self.parts) - 1)
        begun = []
        for number, part in enumerate(self.parts):  # for every task, even without rows, so that W seldom changes
            rows, text = kind == number, src[:, 1:]
            text = torch.where(text >= self.first_tag, text - part.offset, text)
            none = torch.zeros(int(rows.sum()), 1, 0, dtype=torch.long, device=src.device)
            begun.append(part.constraint.start(text[rows], pad[rows, 1:], limit[rows]) if part.constraint else none)
        widths = [part_state.size(2) for part_state in begun]
        state = torch.zeros(len(src), 1, 2 + max(widths), dtype=torch.long, device=src.device)
        state[:, 0, 0], state[:, 0, 1] = kind, torch.tensor(widths, device=src.device)[kind]
        for number, (part, width, part_state) in enumerate(zip(self.parts, widths, begun, strict=True)):
            if part_state.dtype != torch.long:
                what = f"{type(part.constraint).__name__}.start: its states are {part_state.dtype}"
                raise PluginError(f"{what}, and in task=multitask, which keeps them in one tensor, all must be int64")
            state[kind == number, :, 2 : 2 + width] = part_state
        return state

    def allowed(self, state: Tensor) -> Tensor:
        """State [B, K, 2 + W] -> [B, K, V]"""
        allowed = torch.zeros(*state.shape[:2], self.n_tokens, dtype=torch.bool, device=state.device)
        for part, rows, inner in self._present(state):
            allowed[rows, :, : part.n_tokens] = part.constraint.allowed(inner) if part.constraint else True
        return allowed

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]; a dead hypothesis may have a token outside its task's vocabulary."""
        after = state.clone()
        for part, rows, inner in self._present(state):
            if part.constraint:
                moved = part.constraint.advance(inner, token[rows].clamp(max=part.n_tokens - 1))
                after[rows, :, 2 : 2 + inner.size(2)] = moved
        return after

    def _present(self, state: Tensor) -> Iterator[tuple[TaskConstraint, Tensor, Tensor]]:
        """The tasks that have rows in the batch, those rows, and their own states, all of one width."""
        for kind, width in state[:, 0, :2].unique(dim=0).tolist():
            rows = ((state[:, 0, 0] == kind) & (state[:, 0, 1] == width)).nonzero()[:, 0]
            yield self.parts[kind], rows, state[rows, :, 2 : 2 + width]
