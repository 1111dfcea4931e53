"""Outputs as tensors, while the search goes on.

Shapes: B sentences, K hypotheses per sentence, T symbols so far with bos, n candidates.
"""

from __future__ import annotations

__all__ = ["Hypotheses", "pick", "top"]

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.decoding import Hypothesis


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Row b of the result holds values[b, index[b]]: values [B, K, ...], index [B, K'] -> [B, K', ...]"""
    rows = torch.arange(index.size(0), device=index.device)[:, None]
    return values[rows, index]


def top(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest of the last dimension, and where they stand; of equal ones the first comes first.

    `topk` promises nothing about equal values, and bf16 logits are often equal: which of them came first
    could depend on the device and on the size of the batch.
    """
    n = min(n, scores.size(-1))
    values, index = scores.topk(min(n + 1, scores.size(-1)))
    tied = ((values[..., 1:] == values[..., :-1]) & (values[..., 1:] > -torch.inf)).any(-1)
    values, index = values[..., :n], index[..., :n]
    if tied.any():
        index = index.masked_scatter(tied[..., None], _unique_keys(scores[tied]).topk(n).indices)
    return values, index


def _unique_keys(scores: Tensor) -> Tensor:
    """Integers in the order of fp32 `scores`, where of equal scores the first is the largest."""
    bits = (scores + 0.0).view(torch.int32).long()  # + 0.0 makes 0.0 of -0.0, which equals it
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # the bits of negative floats grow downwards
    return (ordered << 32) - torch.arange(scores.size(-1), device=scores.device)


@dataclass(frozen=True)
class Hypotheses:
    """K outputs of each of B sentences, best first."""

    tokens: Tensor
    """[B, K, T], beginning with bos; what has ended ends in eos, and anything may stand after it"""
    log_probs: Tensor
    """[B, K, T], of each symbol; 0 for bos and after eos"""
    score: Tensor
    """[B, K], the log-probability of what goes on, penalised for what has ended; -inf: there is none"""

    @classmethod
    def empty(cls, n_sentences: int, n: int, bos: int, device: torch.device) -> Self:
        """n outputs without symbols for each sentence, to begin with."""
        tokens = torch.full((n_sentences, n, 1), bos, device=device)
        log_probs = torch.zeros_like(tokens, dtype=torch.float)
        return cls(tokens, log_probs, log_probs[..., 0])

    def select(self, index: Tensor) -> Self:
        """Hypothesis k of sentence b becomes the old index[b, k]: index [B, K']"""
        return type(self)(pick(self.tokens, index), pick(self.log_probs, index), pick(self.score, index))

    def keep(self, rows: Tensor) -> Self:
        """Those of the sentences `rows` [B']"""
        return type(self)(self.tokens[rows], self.log_probs[rows], self.score[rows])

    def without(self, dead: Tensor) -> Self:
        """The same, with those `dead` [B, K] struck out."""
        return replace(self, score=self.score.masked_fill(dead, -torch.inf))

    def extend(self, token: Tensor, log_prob: Tensor, score: Tensor) -> Self:
        """With one more symbol each, and new scores: token, log_prob, score [B, K]"""
        tokens = torch.cat([self.tokens, token[..., None]], dim=2)
        log_probs = torch.cat([self.log_probs, log_prob[..., None]], dim=2)
        return type(self)(tokens, log_probs, score)

    def best(self, n: int) -> Self:
        """The n of highest score; of equal ones the first."""
        return self.select(top(self.score, n)[1])

    def join(self, longer: Self) -> Self:
        """These, then `longer`, whose tokens have a greater T."""
        grow = (0, longer.tokens.size(2) - self.tokens.size(2))
        return type(self)(
            torch.cat([F.pad(self.tokens, grow), longer.tokens], dim=1),
            torch.cat([F.pad(self.log_probs, grow), longer.log_probs], dim=1),
            torch.cat([self.score, longer.score], dim=1),
        )

    def finished(self, eos: int, n: int) -> list[list[Hypothesis]]:
        """The first n of each sentence, all of which have ended, on the host."""
        columns = (self.tokens[:, :n, 1:], self.log_probs[:, :n, 1:], self.score[:, :n])
        return [
            [_finished(row, eos) for row in zip(*sentence, strict=True) if row[2] > -torch.inf]
            for sentence in zip(*(column.tolist() for column in columns), strict=True)
        ]


def _finished(row: tuple[list[int], list[float], float], eos: int) -> Hypothesis:
    tokens, log_probs, score = row
    n_symbols = tokens.index(eos)
    log_probs = log_probs[: n_symbols + 1]
    return Hypothesis(tokens[:n_symbols], score, sum(log_probs), log_probs)
