"""Attention with one head over the encoder's outputs: the scores of Bahdanau et al. (2015) and Luong et al. (2015).

Shapes: B sentences, K queries of a sentence (hypotheses or positions), S source length, Q and M widths of query and
memory, A inner width.
"""

from __future__ import annotations

__all__ = ["Attention", "Source"]

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from s2s import ConfigError
from s2s.nn import Linear

if TYPE_CHECKING:
    from s2s import Memory
    from s2s_recurrent import RNNConfig


class Source(NamedTuple):
    """What queries attend to."""

    hidden: Tensor
    """[B, S, M]"""
    keys: Tensor
    """[B, S, A], computed once from `hidden`"""
    seen: Tensor
    """[B, S], True at tokens"""


class Attention(nn.Module):
    """Softmax over the scores of all source positions; the context is the mean of the memory with these weights."""

    def __init__(self, config: RNNConfig, d_query: int, d_memory: int) -> None:
        super().__init__()
        self.score, self.scale = config.attention, 1.0
        self.query: nn.Module = nn.Identity()
        self.keys: nn.Module = nn.Identity()
        d = config.d_attention or config.d_model
        if self.score == "additive":
            self.query, self.keys = Linear(d_query, d, bias=False), Linear(d_memory, d)
            self.v = nn.Parameter(torch.empty(d))
        elif self.score == "general":
            self.keys = Linear(d_memory, d_query, bias=False)
        else:
            self.scale = 1 / math.sqrt(d_query) if self.score == "scaled" else 1.0
            if d_query != d_memory:
                raise ConfigError(
                    f"arch.attention={self.score}: the decoder's outputs of width {d_query} and the encoder's of "
                    f"{d_memory} have no product; give arch.attention=general, or arch.directions=first"
                )

    def source(self, memory: Memory) -> Source:
        """The memory with its keys."""
        return Source(memory.hidden, self.keys(memory.hidden), ~memory.pad)

    def forward(self, query: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """[B, K, Q] -> contexts [B, K, M], weights [B, K, S]"""
        query = self.query(query)
        if self.score == "additive":
            scores = (query[:, :, None] + source.keys[:, None]).tanh() @ self.v[:, None]  # [B, K, S, 1]
            scores = scores.squeeze(-1)
        else:
            scores = query @ source.keys.to(query.dtype).mT * self.scale
        blocked = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~source.seen[:, None], blocked).softmax(-1)
        return weights.to(source.hidden.dtype) @ source.hidden, weights
