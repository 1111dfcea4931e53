"""A model whose outputs can be enumerated: every search can be compared with the list of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from s2s.model import Memory, Seq2Seq, State


class Table(Seq2Seq):
    """Logits that are drawn anew for every source and every prefix: no search comes right by luck.

    Only whole numbers lead to a row of the table, so the logits are the same to the bit in every batch.
    """

    def __init__(self, n_symbols: int, seed: int = 0, spread: float = 1.5) -> None:
        super().__init__()
        logits = torch.randn(997, n_symbols, generator=torch.Generator().manual_seed(seed)) * spread
        self.logits = nn.Parameter(logits)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        places = torch.arange(1, src.size(1) + 1)
        return Memory(hidden=(src.masked_fill(pad, 0) * places).sum(1, keepdim=True), pad=pad[:, :1])

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        place, rows = memory.hidden[:, 0] * 131, []
        for token in tgt.unbind(1):
            place = (place * 31 + token * 7 + 1) % 997
            rows.append(self.logits[place])
        return torch.stack(rows, dim=1)


class JoiningState(State):
    """Rows of the table [B, K]; no dimension grows, so that sentences may join a running batch."""

    supports_join: ClassVar[bool] = True


class JoiningTable(Table):
    """The same logits, by a state."""

    def start(self, memory: Memory) -> State:
        return JoiningState(sentence=memory, hypothesis=memory.hidden * 131)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        place = (state.hypothesis * 31 + token * 7 + 1) % 997
        return self.logits[place], replace(state, hypothesis=place)
