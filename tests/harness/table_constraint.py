"""A stack automaton in plain Python: the definition of `StackAutomaton`, number by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.decoding import StackAutomaton


class TableConstraint:
    """Its counters begin with `first`; states have room for `n_slots` labels."""

    def __init__(self, tables: StackAutomaton, first: list[int], n_slots: int) -> None:
        self.tables, self.first, self.n_slots = tables, first, n_slots

    def automaton(self) -> StackAutomaton:
        return self.tables

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.tensor([*self.first, *[0] * self.n_slots]).expand(len(src), 1, -1).clone()

    def allowed(self, state: Tensor) -> Tensor:
        result = torch.zeros(*state.shape[:2], len(self.tables.label), dtype=torch.bool)
        for row, numbers in zip(result.flatten(0, 1), state.flatten(0, 1).tolist(), strict=True):
            row[self.list_of(numbers)] = True
        return result

    def list_of(self, numbers: list[int]) -> Tensor:
        """The tokens that may come next."""
        n = len(self.first)
        height = numbers[n - 1] if self.n_slots else 0
        label = numbers[n + height - 1] if height else 0
        code = sum(2**i for i, number in enumerate(numbers[:n]) if number > 0)
        which = int(self.tables.allowed[label, code])
        return self.tables.tokens[self.tables.begin[which] : self.tables.begin[which + 1]]

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        rows = zip(state.flatten(0, 1).tolist(), token.flatten().tolist(), strict=True)
        return torch.tensor([self.after(numbers, one) for numbers, one in rows]).view(*token.shape, -1)

    def after(self, numbers: list[int], token: int) -> list[int]:
        """A state after a token."""
        n = len(self.first)
        counters, labels = numbers[:n], numbers[n:]
        if labels:
            labels[counters[-1]] = int(self.tables.label[token])
        least, most = self.tables.bounds.tolist()
        keep, add = self.tables.keep[token].tolist(), self.tables.add[token].tolist()
        return [min(max(counters[i] * keep[i] + add[i], least[i]), most[i]) for i in range(n)] + labels
