"""The automaton of texts that outputs must contain: a state is the number of a `TextState` in a table, and the room.

Shapes: B sentences, K hypotheses per sentence, V target tokens.
"""

from __future__ import annotations

__all__ = ["StateTable", "TextAutomaton", "text_states"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.tensors import host_copies, host_copy, to_device
from s2s_constraints.text_state import FREE, TextState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

N_KEPT = 50_000
"""States above which those that no hypothesis has are forgotten"""


class StateTable:
    """The states of one search by number, and the transitions between them, each computed once; 0 is `FREE`."""

    def __init__(self) -> None:
        self._states: dict[int, TextState] = {0: FREE}
        self._numbers: dict[TextState, int] = {FREE: 0}
        self._next = 1
        self._following: dict[tuple[int, int | str], int] = {}

    def __getitem__(self, number: int) -> TextState:
        return self._states[number]

    def add(self, state: TextState) -> int:
        """Its number."""
        if state not in self._numbers:
            self._states[self._next] = state
            self._numbers[state] = self._next
            self._next += 1
        return self._numbers[state]

    def after(self, numbers: Tensor, tokens: Tensor) -> Tensor:
        """The numbers of the states that follow these with these tokens, of the same shape; all on the host."""
        known, after = self._following.get, self._after
        pairs = zip(numbers.flatten().tolist(), tokens.flatten().tolist(), strict=True)
        following = [known(pair) or after(*pair) if pair[0] else 0 for pair in pairs]
        return torch.tensor(following).view(numbers.shape)

    def _after(self, number: int, token: int) -> int:
        state = self._states[number]
        kind = state.kind(token)
        if (number, kind) not in self._following:
            self._following[number, kind] = self.add(state.after(token))
        following = self._following[number, token] = self._following[number, kind]
        return following

    def retain(self, numbers: Collection[int]) -> None:
        """Drop all other states if there are too many."""
        if len(self._states) + len(self._following) > N_KEPT:
            self._states = {number: self._states[number] for number in {0, *numbers}}
            self._numbers = {state: number for number, state in self._states.items()}
            self._following.clear()


class TextAutomaton:
    """Allows the tokens with which outputs can still contain what their sentences require.

    The host makes the states, and need not read those that it has made: see `s2s.tensors.host_copy`.
    """

    width = 2
    """The number of the state, and the tokens until the limit"""

    def __init__(self, table: StateTable, n_tokens: int, eos: int, sentences: Sequence[TextState]) -> None:
        """sentences: the first states of those that `start` is called for."""
        self.table, self.n_tokens, self.eos, self.sentences = table, n_tokens, eos, sentences

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 2]"""
        numbers = torch.tensor(list(map(self.table.add, self.sentences)))
        return to_device(torch.stack([numbers, host_copy(limit).to(numbers)], dim=-1)[:, None], src.device)

    def allowed(self, state: Tensor) -> Tensor:
        """[B, K, 2] -> [B, K, V]"""
        states = [(self.table[number], room) for number, room in host_copy(state).flatten(0, 1).tolist()]
        only = {row: some for row, (one, room) in enumerate(states) if (some := one.only(room)) is not None}
        allowed = torch.ones(len(states), self.n_tokens, dtype=torch.bool)
        if only:
            rows, tokens = torch.tensor(list(only)), list(only.values())
            allowed[rows] = False
            allowed[rows.repeat_interleave(torch.tensor(list(map(len, tokens)))), torch.cat(tokens)] = True
        allowed[:, self.eos] = torch.tensor([one.may_end for one, _ in states])
        return allowed.to(state.device).view(*state.shape[:2], -1)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]."""
        known, tokens = host_copies([state, token])
        number, room = known.unbind(-1)
        return to_device(torch.stack([self.table.after(number, tokens), room - 1], dim=-1), state.device)

    def required(self, state: Tensor) -> list[list[int]]:
        """The next token of each missing phrase, for each of the states [B, K, 2], row by row."""
        return [self.table[number].required for number in host_copy(state)[..., 0].flatten().tolist()]

    def missing_after(self, state: Tensor, token: Tensor, parents: Tensor) -> Tensor:
        """Tokens that complete all phrases after `token` [B, n], which extends the hypotheses `parents` [B, n]: states
        [B, K, 2] -> [B, n]; all but these on the host."""
        before = host_copy(state)[..., 0].gather(1, parents)
        numbers, place = self.table.after(before, token).unique(return_inverse=True)
        return torch.tensor([self.table[number].missing for number in numbers.tolist()])[place]


def text_states(states: Tensor) -> Tensor:
    """The states of texts, the last columns of those of all constraints [B, K, ·] -> [B, K, 2]"""
    return states if states.size(-1) == TextAutomaton.width else states[..., -TextAutomaton.width :]
