"""Only trees: an automaton that says of many unfinished outputs at once what each may go on with.

Shapes: B sentences, S source length, K hypotheses of a sentence, V target symbols, C counters, D depth bound,
L labels that closing symbols name, and one for those that none names.

No output runs into a dead end. While words are left, a word may come; when none is, the innermost bracket may be
closed, and when none is open, the output may end. Nor can one outgrow its limit: a word that is left costs one
symbol, so does an open bracket, and one yet to be opened two. So an output with so many words ends in time if it
opens at most (limit - words) // 2 brackets, and these need only be counted down.
"""

from __future__ import annotations

__all__ = ["TreeConstraint"]

from typing import TYPE_CHECKING

import torch

from s2s.task import Constraint
from s2s_parsing.constraint.tables import BRACKETS, COUNTERS, DEPTH, FINISHED, OPEN, START, WORDS, Tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from s2s_parsing.constraint.bounds import Bounds
    from s2s_parsing.linear import Action


class TreeConstraint(Constraint):
    """Allows what can still become a tree of exactly the sentence's words, within bounds and length limit.

    `actions` says what each target symbol does, None: it stands in no tree, as the special ones do. A form's
    `read` gives them for a vocabulary. `word_marks` says which source symbols every word has exactly one of, such as
    those that begin a word.

    The state is int64 [B, K, C] or, where closing symbols name their labels, [B, K, C + D + 1]: the counters,
    then the labels of the open brackets, outermost first.
    """

    def __init__(
        self, actions: Sequence[Action | None], word_marks: Sequence[bool], bounds: Bounds, *, eos: int
    ) -> None:
        self.bounds = bounds
        self._tables = {torch.device("cpu"): Tables.of(actions, word_marks, eos)}

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """States of the empty outputs: src, pad [B, S]; limit [B], most symbols of each without eos -> [B, 1, ·].

        Where the limit is too short for the words, nothing is ever allowed, and a search finds no output.
        """
        tables = self._on(src.device)
        n_words = (tables.word_marks[src] & ~pad).sum(1)
        n_slots = self.bounds.depth + 1 if tables.named else 0
        state = torch.zeros(src.size(0), 1, COUNTERS + n_slots, dtype=torch.long, device=src.device)
        state[:, 0, WORDS] = n_words.where(n_words <= limit, 0)  # no words, and none taken: nothing is allowed
        state[:, 0, BRACKETS] = (limit - n_words).div(2, rounding_mode="floor")
        return state

    def allowed(self, state: Tensor) -> Tensor:
        """State [B, K, ·] -> [B, K, V], True where the symbol may come next."""
        tables = self._on(state.device)
        depth, words, brackets, opened, last = state[..., :COUNTERS].unbind(-1)
        some_left = words > 0
        room = (brackets > 0) & (depth < self.bounds.depth) & (opened < self.bounds.opened)
        ends = (depth == 0) & ~some_left & (last != START)
        may = torch.stack([some_left, room & some_left, room & (last >= FINISHED), ends], dim=-1)  # [B, K, 4]
        closes = (self._innermost(state) + 1) * ((depth > 0) & (last != OPEN))  # 0: must not close
        return tables.allowed[(may * tables.bits).sum(-1) + closes * 16]

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]: counters change as the symbol has it, and its label goes on the stack.

        The label is written above the open brackets. Only a symbol that opens one makes it count.
        """
        tables = self._on(state.device)
        counters, labels = state[..., :COUNTERS], state[..., COUNTERS:]
        moved = counters * tables.keep[token] + tables.add[token]
        if not tables.named:
            return moved
        above = self._slot(counters[..., DEPTH])
        return torch.cat([moved, labels.scatter(-1, above, tables.label[token][..., None])], dim=-1)

    def _innermost(self, state: Tensor) -> Tensor:
        """The label of the innermost bracket: [B, K, ·] -> [B, K], anything where none is open."""
        depth = state[..., DEPTH]
        if not self._on(state.device).named:
            return torch.zeros_like(depth)
        return state[..., COUNTERS:].gather(-1, self._slot(depth - 1))[..., 0]

    def _slot(self, depth: Tensor) -> Tensor:
        """Where on the stack: [B, K] -> [B, K, 1]. Dead hypotheses may have left it on either side."""
        return depth.clamp(0, self.bounds.depth)[..., None]

    def _on(self, device: torch.device) -> Tables:
        """The tables, copied to a device when it is first met."""
        if device not in self._tables:
            self._tables[device] = self._tables[torch.device("cpu")].to(device)
        return self._tables[device]
