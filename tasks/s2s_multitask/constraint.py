"""Applies the constraint of each task to the rows of that task.

Shapes: B sentences, S source length, K hypotheses of a sentence, V target tokens of the largest task, W of a state.
"""

from __future__ import annotations

__all__ = ["MultitaskConstraint"]

from typing import TYPE_CHECKING, NamedTuple

import torch

from s2s import Constraint, PluginError
from s2s.tensors import host_copy, remember_copy

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
        kind = (host_copy(src)[:, 0] - self.first_tag).clamp(0, len(self.parts) - 1)
        rows_of = [(kind == number).nonzero()[:, 0].to(src.device) for number in range(len(self.parts))]
        begun = []
        for part, rows in zip(self.parts, rows_of, strict=True):  # even without rows, so that W seldom changes
            text = src[:, 1:]
            text = torch.where(text >= self.first_tag, text - part.offset, text)
            none = torch.zeros(len(rows), 1, 0, dtype=torch.long, device=src.device)
            begun.append(part.constraint.start(text[rows], pad[rows, 1:], limit[rows]) if part.constraint else none)
        widths = [part_state.size(2) for part_state in begun]
        state = torch.zeros(len(src), 1, 2 + max(widths), dtype=torch.long, device=src.device)
        state[:, 0, :2] = torch.stack([kind, torch.tensor(widths)[kind]], 1).to(src.device)
        for part, rows, width, part_state in zip(self.parts, rows_of, widths, begun, strict=True):
            if part_state.dtype != torch.long:
                what = f"{type(part.constraint).__name__}.start: its states are {part_state.dtype}"
                raise PluginError(f"{what}, and in task=multitask, which keeps them in one tensor, all must be int64")
            state[rows, :, 2 : 2 + width] = part_state
        return state

    def allowed(self, state: Tensor) -> Tensor:
        """State [B, K, 2 + W] -> [B, K, V]"""
        allowed = torch.zeros(*state.shape[:2], self.n_tokens, dtype=torch.bool, device=state.device)
        for part, rows, inner in self._present(state, host_copy(state, kinds_of)):
            allowed[rows, :, : part.n_tokens] = part.constraint.allowed(inner) if part.constraint else True
        return allowed

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]; a dead hypothesis may have a token outside its task's vocabulary."""
        after, kinds = state.clone(), host_copy(state, kinds_of)
        for part, rows, inner in self._present(state, kinds):
            if part.constraint:
                moved = part.constraint.advance(inner, token[rows].clamp(max=part.n_tokens - 1))
                after[rows, :, 2 : 2 + inner.size(2)] = moved
        remember_copy(after, kinds, kinds_of)
        return after

    def _present(self, state: Tensor, kinds: Tensor) -> Iterator[tuple[TaskConstraint, Tensor, Tensor]]:
        """The tasks that have rows in the batch, those rows, and their own states, all of one width."""
        for kind, width in kinds.unique(dim=0).tolist():
            rows = (kinds == torch.tensor([kind, width])).all(1).nonzero()[:, 0].to(state.device)
            yield self.parts[kind], rows, state[rows, :, 2 : 2 + width]


def kinds_of(state: Tensor) -> Tensor:
    """State [B, K, 2 + W] -> the kind of each row, and the width of its own states, [B, 2]"""
    return state[:, 0, :2]
