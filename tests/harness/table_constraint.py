"""A stack automaton in plain Python: the definition of `StackAutomaton`, number by number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.decoding import StackAutomaton


class TableConstraint:
    """It begins with `tables.first`, whose last column says only what C may do."""

    def __init__(self, tables: StackAutomaton) -> None:
        self.tables, self.n_counters = tables, tables.keep.size(1)
        self.n_slots = int(tables.bounds[1, -1]) + 1 if len(tables.allowed) > 1 else 0

    def automaton(self) -> StackAutomaton:
        return self.tables

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        assert self.tables.first is not None
        assert self.tables.counted is not None
        states = []
        for row, absent, most in zip(src, pad, limit.tolist(), strict=True):
            n = sum(token in self.tables.counted.tolist() for token in row[~absent].tolist())
            rules = self.tables.first.tolist()
            counters = [math.floor((a * n + b * most + c) / d) for a, b, c, d, _ in rules]
            states.append([*counters, *[0] * self.n_slots])
        return torch.tensor(states)[:, None]

    def allowed(self, state: Tensor) -> Tensor:
        result = torch.zeros(*state.shape[:2], len(self.tables.label), dtype=torch.bool)
        for row, numbers in zip(result.flatten(0, 1), state.flatten(0, 1).tolist(), strict=True):
            row[self.list_of(numbers)] = True
        return result

    def list_of(self, numbers: list[int]) -> Tensor:
        """The tokens that may come next."""
        n = self.n_counters
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
        n = self.n_counters
        counters, labels = numbers[:n], numbers[n:]
        if labels:
            labels[counters[-1]] = int(self.tables.label[token])
        least, most = self.tables.bounds.tolist()
        keep, add = self.tables.keep[token].tolist(), self.tables.add[token].tolist()
        return [min(max(counters[i] * keep[i] + add[i], least[i]), most[i]) for i in range(n)] + labels
