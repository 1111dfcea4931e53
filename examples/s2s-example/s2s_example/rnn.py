"""Encoder and decoder as GRUs with additive attention: `encode` and `decode`, and every search works.

Shapes: B sentences, S source length, T target length, D = d_model, V target vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from s2s import Memory, Seq2Seq, Vocab

if TYPE_CHECKING:
    from s2s_example import RNNConfig


class RNN(Seq2Seq):
    """p(y | x) of Bahdanau et al. (2015), with GRUs."""

    def __init__(self, config: RNNConfig, vocab: Vocab) -> None:
        super().__init__()
        d = config.d_model
        self.src_embedding = nn.Embedding(vocab.src, d, padding_idx=vocab.pad)
        self.tgt_embedding = nn.Embedding(vocab.tgt, d, padding_idx=vocab.pad)
        self.forwards = nn.GRU(d, d, batch_first=True)
        self.backwards = nn.GRU(d, d, batch_first=True)
        self.query = nn.Linear(d, d)
        self.key = nn.Linear(2 * d, d)
        self.energy = nn.Linear(d, 1)
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.mix = nn.Linear(3 * d, d)
        self.out = nn.Linear(d, vocab.tgt)
        self.dropout = nn.Dropout(config.dropout)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """[B, S] -> memory with hidden [B, S, 2 D]; padding never reaches a state."""
        x = self.dropout(self.src_embedding(src))
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(self._reverse(x, pad))
        return Memory(hidden=torch.cat([ahead, self._reverse(back, pad)], dim=-1), pad=pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """[B, T] -> [B, T, D]"""
        states, _ = self.decoder(self.dropout(self.tgt_embedding(tgt)))
        score = self.energy(torch.tanh(self.query(states)[:, :, None] + self.key(memory.hidden)[:, None]))
        score = score.squeeze(-1).masked_fill(memory.pad[:, None], -1e9)  # [B, T, S]
        context = score.softmax(-1) @ memory.hidden
        return self.dropout(torch.tanh(self.mix(torch.cat([states, context], dim=-1))))

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.out(hidden)

    def _reverse(self, x: Tensor, pad: Tensor) -> Tensor:
        """Every sentence back to front, its padding left where it is: [B, S, ·] -> the same."""
        place = torch.arange(x.size(1), device=x.device).expand(x.shape[:2])
        last = (~pad).sum(1, keepdim=True) - 1
        return x.gather(1, torch.where(pad, place, last - place)[..., None].expand_as(x))
