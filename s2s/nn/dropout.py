"""Dropout of values, and of the embeddings of whole tokens."""

from __future__ import annotations

__all__ = ["Dropout", "WordDropout"]

from torch import Tensor, nn

from s2s.backend.operators import apply_dropout


class Dropout(nn.Module):
    """Sets a share p of the values to zero while training, and scales the others up to keep the mean."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        return apply_dropout(x, p) if (p := self.p_now) else x

    @property
    def p_now(self) -> float:
        """p in training, otherwise 0"""
        return self.p if self.training else 0.0

    def extra_repr(self) -> str:
        return f"p={self.p}"


class WordDropout(Dropout):
    """Sets the embeddings of a share p of the tokens to zero (Gal and Ghahramani, 2016; Sennrich and Zhang, 2019)."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]; the rest is scaled up to keep the mean."""
        return x * apply_dropout(x.new_ones((*x.shape[:-1], 1)), p) if (p := self.p_now) else x
