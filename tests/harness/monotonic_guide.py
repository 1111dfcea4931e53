"""The guide of a monotonic task, such as tagging: every target token belongs to the next word of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from s2s import Effect, Guide, Vocab

if TYPE_CHECKING:
    from torch import Tensor

N_KINDS = 3


class OneByOne(Guide):
    """The state is the number of tokens; the third place is of the first word, the kind the number modulo 3."""

    n_places = 3
    kinds = (N_KINDS,)

    def __init__(self, bos: int, n_tokens: int = 1000) -> None:
        self.bos = bos
        self.effects: list[Effect] = ["takes"] * n_tokens

    def start(self, src: Tensor, pad: Tensor) -> Tensor:
        del pad
        return torch.zeros(src.size(0), 1, 1, dtype=torch.long)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state + (token != self.bos)[..., None]

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([state, state - 1, (state > 0).long() - 1], dim=-1), state % N_KINDS


def guided(vocab: Vocab, *, parts: bool = False) -> Vocab:
    """The vocabulary with this guide; with parts, only every second source token begins a word."""
    begins = [i % 2 == 1 for i in range(vocab.src)] if parts else ()
    return Vocab(src=vocab.src, tgt=vocab.tgt, joint=vocab.joint, word_begins=begins, guide=OneByOne(vocab.bos))
