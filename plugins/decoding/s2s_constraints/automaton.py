"""The automaton of texts that outputs must contain: a state is the number of a `TextState` in a table.

Shapes: B sentences, K hypotheses per sentence, V target tokens.
"""

from __future__ import annotations

__all__ = ["StateTable", "TextAutomaton"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s_constraints.text_state import FREE, TextState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class StateTable:
    """The states of one search by number; 0 is `FREE`."""

    def __init__(self) -> None:
        self._states: dict[int, TextState] = {0: FREE}
        self._next = 1
        self._following: dict[tuple[int, int], TextState] = {}

    def __getitem__(self, number: int) -> TextState:
        return self._states[number]

    def add(self, state: TextState) -> int:
        """Its number."""
        if state is FREE:
            return 0
        self._states[self._next] = state
        self._next += 1
        return self._next - 1

    def after(self, number: int, token: int) -> TextState:
        """The state that follows a state with `token`; computed once between two calls of `advance`."""
        if number == 0:
            return FREE
        if (number, token) not in self._following:
            self._following[number, token] = self._states[number].after(token)
        return self._following[number, token]

    def advance(self, numbers: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """The numbers of the states after one token each."""
        advanced = [self.add(self.after(*pair)) for pair in zip(numbers, tokens, strict=True)]
        self._following.clear()
        return advanced

    def retain(self, numbers: Iterable[int]) -> None:
        """Forget all other states."""
        self._states = {number: self._states[number] for number in {0, *numbers}}


class TextAutomaton:
    """Allows the tokens with which outputs can still contain what their sentences require."""

    width = 1

    def __init__(self, table: StateTable, n_tokens: int, eos: int, sentences: Sequence[TextState]) -> None:
        """sentences: the first states, without room, of those that `start` is called for."""
        self.table, self.n_tokens, self.eos, self.sentences = table, n_tokens, eos, sentences

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1]"""
        firsts = zip(self.sentences, limit.tolist(), strict=True)
        numbers = [self.table.add(first.with_room(room)) for first, room in firsts]
        return torch.tensor(numbers, device=src.device)[:, None, None]

    def allowed(self, state: Tensor) -> Tensor:
        """[B, K, 1] -> [B, K, V]"""
        numbers = state.flatten().tolist()
        allowed = torch.ones(len(numbers), self.n_tokens, dtype=torch.bool)
        for row, number in zip(allowed, numbers, strict=True):
            if number:
                self._restrict(row, self.table[number])
        return allowed.to(state.device).view(*state.shape[:2], -1)

    def _restrict(self, row: Tensor, state: TextState) -> None:
        """Clear in `row` [V], all True, what may not follow a state."""
        if (only := state.only()) is not None:
            row[:] = False
            row[only] = True
        row[self.eos] = state.may_end

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]."""
        numbers = self.table.advance(state.flatten().tolist(), token.flatten().tolist())
        return torch.tensor(numbers, device=state.device).view(state.shape)

    def required(self, state: Tensor) -> list[list[int]]:
        """The next token of each missing phrase, for each of the states [B, K, 1], row by row."""
        return [self.table[number].required for number in state.flatten().tolist()]

    def missing_after(self, state: Tensor, token: Tensor) -> Tensor:
        """Tokens that complete all phrases after `token` [B, n]: states [B, n, 1] -> [B, n]"""
        pairs = zip(state.flatten().tolist(), token.flatten().tolist(), strict=True)
        missing = [self.table.after(*pair).missing for pair in pairs]
        return torch.tensor(missing, device=token.device).view(token.shape)
