"""Token sequences that no output contains, as an automaton.

Shapes: B sentences, K hypotheses per sentence, V target tokens, W tokens remembered.
"""

from __future__ import annotations

__all__ = ["NONE", "BadWords"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s.decoding import TokenWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE = -1
"""Marks positions without a token"""


class BadWords(TokenWindow):
    """None of the given token sequences occurs in an output."""

    def __init__(self, sequences: Sequence[Sequence[int]], n_tokens: int) -> None:
        assert sequences
        assert all(sequences)
        super().__init__(max(map(len, sequences)) - 1, n_tokens)
        self.sequences = [list(sequence) for sequence in sequences]
        self._tables: dict[torch.device, _Sequences] = {}

    def allowed(self, state: Tensor) -> Tensor:
        """All but the last token of each sequence whose other tokens end the output."""
        if state.device not in self._tables:
            self._tables[state.device] = _Sequences.build(self.sequences, self.width, state.device)
        return self.all_but(self._tables[state.device].forbidden(state))


class _Sequences(NamedTuple):
    """Sequences as tensors: M of one token, N of several."""

    single: Tensor
    """[M]"""
    before: Tensor
    """[N, W], the tokens before the last one, behind NONE where they are fewer"""
    last: Tensor
    """[N]"""

    @classmethod
    def build(cls, sequences: Sequence[Sequence[int]], width: int, device: torch.device) -> _Sequences:
        several = [sequence for sequence in sequences if len(sequence) > 1]
        before = [[*[NONE] * (width + 1 - len(sequence)), *sequence[:-1]] for sequence in several]
        single = [sequence[0] for sequence in sequences if len(sequence) == 1]
        tensors = (torch.tensor(x, dtype=torch.long, device=device) for x in (single, before, [s[-1] for s in several]))
        return cls(*tensors)

    def forbidden(self, state: Tensor) -> Tensor:
        """The tokens that would complete a sequence, or NONE: state [B, K, W] -> [B, K, ·]"""
        single = self.single.expand(*state.shape[:2], -1)
        if not len(self.last):
            return single
        begun = state[..., -1:] == self.before[:, -1]  # [B, K, N]
        (some,) = begun.flatten(0, 1).any(0).nonzero(as_tuple=True)  # few, so that only these are compared as a whole
        before = self.before[some]
        ready = ((state[..., None, :] == before) | (before == NONE)).all(-1)
        return torch.cat([single, torch.where(ready, self.last[some], NONE)], dim=-1)
