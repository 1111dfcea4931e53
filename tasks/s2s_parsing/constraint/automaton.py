"""Only trees: an automaton that says of many unfinished outputs at once what each may go on with.

Shapes: B sentences, S source length, K hypotheses of a sentence, V target symbols, G gauges, D depth bound.

No output runs into a dead end. While words are left, a word may come; when none is, the innermost bracket may be
closed, and when none is open, the output may end. Nor can one outgrow its limit: a word that is left costs one
symbol, so does an open bracket, and one yet to be opened two. So an output ends in time if it opens at most
(limit - words) // 2 brackets, which need only be counted down.
"""

from __future__ import annotations

__all__ = ["TreeConstraint"]

from typing import TYPE_CHECKING

import torch

from s2s import Constraint
from s2s_parsing.constraint.tables import BRACKETS, DEEPER, DEPTH, GAUGES, MORE, WORDS, Tables

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

    The state is int64 [B, K, G] or, where closing symbols name their labels, [B, K, G + D + 2]: the gauges, then the
    labels of the open brackets, outermost first. The last gauge is the depth, so that the innermost label stands
    that far behind it. Few operations matter more than few numbers: on a GPU, each costs a launch.
    """

    def __init__(
        self, actions: Sequence[Action | None], word_marks: Sequence[bool], bounds: Bounds, *, eos: int
    ) -> None:
        self.bounds = bounds
        self._tables = {torch.device("cpu"): Tables.of(actions, word_marks, bounds, eos)}

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """States of the empty outputs: src, pad [B, S]; limit [B], most symbols of each without eos -> [B, 1, ·].

        Where the limit is too short for the words, nothing is allowed, and a search finds no output.
        """
        tables = self._on(src.device)
        n_words = (tables.word_marks[src] & ~pad).sum(1)
        possible = (n_words > 0) & (n_words <= limit)
        n_slots = self.bounds.depth + 2 if tables.named else 0  # above the deepest, and for the dead end below
        state = torch.zeros(src.size(0), 1, GAUGES + n_slots, dtype=torch.long, device=src.device)
        state[:, 0, WORDS] = n_words.where(possible, 0)
        state[:, 0, BRACKETS] = (limit - n_words).div(2, rounding_mode="floor")
        state[:, 0, DEEPER], state[:, 0, MORE] = self.bounds
        state[:, 0, DEPTH] = (~possible).long()  # no words are left, and in this bracket there is none: a dead end
        return state

    def allowed(self, state: Tensor) -> Tensor:
        """State [B, K, ·] -> [B, K, V], True where the symbol may come next."""
        tables = self._on(state.device)
        row = tables.rows[((state[..., :GAUGES] > 0) * tables.powers).sum(-1)]  # [B, K]
        if not tables.named:
            return tables.allowed[0][row]
        innermost = state[..., DEPTH:].gather(-1, state[..., DEPTH, None])[..., 0]  # the depth itself, 0, if none is
        return tables.allowed[innermost, row]

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]: gauges change as the symbol has it, and its label goes on the stack.

        The label is written above the open brackets; only a symbol that opens one makes it count. The depth of dead
        hypotheses is kept within bounds, since it is an index.
        """
        tables = self._on(state.device)
        gauges, labels = state[..., :GAUGES], state[..., GAUGES:]
        moved = torch.addcmul(tables.add[token], gauges, tables.keep[token]).clamp(tables.least, tables.most)
        if not tables.named:
            return moved
        return torch.cat([moved, labels.scatter(-1, state[..., DEPTH, None], tables.label[token])], dim=-1)

    def _on(self, device: torch.device) -> Tables:
        """The tables, copied to a device when it is first met."""
        if device not in self._tables:
            self._tables[device] = self._tables[torch.device("cpu")].to(device)
        return self._tables[device]
