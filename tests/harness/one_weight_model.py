"""A model of one weight, and pairs on which the results of an objective are known."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from s2s.model import Memory, Seq2Seq
from s2s.task import Vocab

VOCAB = Vocab(src=9, tgt=9, joint=True)
PAIRS = [([4], [5, 6]), ([7, 4], [8]), ([5], [4, 4, 7]), ([6, 6], [7, 5])]


class Weight(Seq2Seq):
    """One number, which it gives for each target position."""

    def __init__(self, w: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(w))

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(src[..., None].float(), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return self.w.expand(*tgt.shape, 1)
