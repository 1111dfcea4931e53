"""The automaton that allows only trees, for a batch of hypotheses at once.

Shapes: B sentences, S source length, K hypotheses of a sentence, V target tokens, G counters, D depth bound.

No hypothesis reaches a dead end: while words are left, a word is allowed; after the last word, closing the innermost
bracket; with none open, the end. Nor can a hypothesis exceed its limit: a remaining word costs one token, as does an
open bracket, and a bracket yet to be opened costs two. So it ends in time if it opens at most (limit - words) // 2
brackets.
"""

from __future__ import annotations

__all__ = ["TreeConstraint"]

from typing import TYPE_CHECKING

import torch

from s2s import Constraint
from s2s_parsing.constraint.tables import BRACKETS, COUNTERS, DEEPER, DEPTH, MORE, WORDS, Tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from s2s.decoding import StackAutomaton
    from s2s_parsing.constraint.bounds import Bounds
    from s2s_parsing.linear import Action


class TreeConstraint(Constraint):
    """Allows only prefixes of trees over exactly the sentence's words, within the bounds and the length limit.

    `actions`: the action of each target id, as `Linear.read` returns them; None for tokens outside trees, such as
    special ones. `word_begins`: by source id, whether it is the one token that every word has exactly once.

    The state is int64 [B, K, G] or, if closing tokens have labels, [B, K, G + D + 2]: the counters, then a stack of the
    labels of open brackets. The last counter is the depth, which is thus the offset of the innermost label. Few
    operations matter more than few numbers: on a GPU, each operation is a kernel launch.
    """

    def __init__(
        self, actions: Sequence[Action | None], word_begins: Sequence[bool], bounds: Bounds, *, eos: int
    ) -> None:
        self.bounds = bounds
        self._tables = {torch.device("cpu"): Tables.of(actions, word_begins, bounds, eos)}
        self._automaton = self._tables[torch.device("cpu")].automaton()
        if type(self).start is not TreeConstraint.start:
            self._automaton = self._automaton._replace(counted=None, first=None)  # it must be called

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """States of the empty outputs: src, pad [B, S]; limit [B], most tokens of each without eos -> [B, 1, ·].

        If the limit is below the number of words, nothing is allowed, and search finds no output.
        """
        tables = self._on(src.device)
        n_words = (tables.word_begins[src] & ~pad).sum(1)
        possible = (n_words > 0) & (n_words <= limit)
        n_slots = self.bounds.depth + 2 if tables.named else 0  # one above the deepest, one for the dead end
        state = torch.zeros(src.size(0), 1, COUNTERS + n_slots, dtype=torch.long, device=src.device)
        state[:, 0, WORDS] = n_words.where(possible, 0)
        state[:, 0, BRACKETS] = (limit - n_words).div(2, rounding_mode="floor")
        state[:, 0, DEEPER], state[:, 0, MORE] = self.bounds
        state[:, 0, DEPTH] = (~possible).long()  # an empty bracket and no words left: a dead end
        return state

    def allowed(self, state: Tensor) -> Tensor:
        """State [B, K, ·] -> [B, K, V], True where the token is allowed next."""
        tables = self._on(state.device)
        row = tables.rows[((state[..., :COUNTERS] > 0) * tables.powers).sum(-1)]  # [B, K]
        if not tables.named:
            return tables.allowed[0][row]
        innermost = state[..., DEPTH:].gather(-1, state[..., DEPTH, None])[..., 0]  # if none, the depth itself: 0
        return tables.allowed[innermost, row]

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]: counters are updated, and its label is pushed.

        The label is always written above the open brackets; only an opening token raises the depth to include it. The
        depth of dead hypotheses is clamped, since it is an index.
        """
        tables = self._on(state.device)
        counters, labels = state[..., :COUNTERS], state[..., COUNTERS:]
        moved = torch.addcmul(tables.add[token], counters, tables.keep[token]).clamp(tables.least, tables.most)
        if not tables.named:
            return moved
        return torch.cat([moved, labels.scatter(-1, state[..., DEPTH, None], tables.label[token])], dim=-1)

    def automaton(self) -> StackAutomaton | None:
        """This constraint as tables, without `first` for a class with another `start`; None where others differ."""
        methods = (type(self).allowed, type(self).advance)
        return self._automaton if methods == (TreeConstraint.allowed, TreeConstraint.advance) else None

    def _on(self, device: torch.device) -> Tables:
        """The tables on a device, copied at its first use."""
        if device not in self._tables:
            self._tables[device] = self._tables[torch.device("cpu")].to(device)
        return self._tables[device]
