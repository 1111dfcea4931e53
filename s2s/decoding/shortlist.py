"""A lexical shortlist: the tokens that outputs may consist of, by the tokens of their source.

Shapes: B sentences, S source tokens of a vocabulary, V target tokens.
"""

from __future__ import annotations

__all__ = ["Shortlist"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MULTIPLE = 8
"""What Marian's products of integers need"""


class Shortlist(NamedTuple):
    """Target tokens for each source token, and those of all sentences."""

    always: Tensor
    """Target tokens that every sentence has, from the most frequent on"""
    offsets: Tensor
    """[S + 1], where the tokens of each source token begin, and where the last ones end"""
    tokens: Tensor
    """Target tokens, those of one source token after those of another"""

    @property
    def multiple(self) -> int:
        """Of which a source has as many tokens, if there are enough: the most frequent of the others are added."""
        return MULTIPLE

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], n_target: int) -> Shortlist:
        """Of the tensors of a checkpoint; raises CheckpointError unless all tokens are below `n_target`."""
        try:
            made = cls(**{name: tensor.long() for name, tensor in tensors.items()})
        except TypeError as error:
            raise CheckpointError(f"a shortlist has other tensors: {error}") from None
        try:
            made.check(n_target)
        except ValueError as error:
            raise CheckpointError(str(error)) from None
        return made

    def check(self, n_target: int) -> None:
        """Raise ValueError for tokens from `n_target` on, or offsets outside of `tokens`."""
        ids = torch.cat([self.always, self.tokens])
        ends = self.offsets[[0, -1]].tolist() if len(self.offsets) else []
        ordered = ends == [0, len(self.tokens)] and not bool((self.offsets.diff() < 0).any())
        if not ordered or bool(((ids < 0) | (ids >= n_target)).any()):
            raise ValueError("a shortlist has tokens or offsets that are outside of it")

    def listed(self, sources: Iterable[Sequence[int] | None], n_target: int) -> Tensor:
        """[B, V], True at the tokens that each source's output may have; None, or if there are none: all tokens.

        They do not depend on the other sentences, where Marian has one set for all sentences of a batch.
        """
        return torch.stack([self._of(source, n_target) for source in sources])

    def _of(self, source: Sequence[int] | None, n_target: int) -> Tensor:
        if source is None:
            return torch.ones(n_target, dtype=torch.bool)
        listed = torch.zeros(n_target, dtype=torch.bool)
        listed[self.always] = True
        n_source = len(self.offsets) - 1
        for token in {token for token in source if token < n_source}:
            listed[self.tokens[self.offsets[token] : self.offsets[token + 1]]] = True
        if not listed.any():  # the list has nothing about this source, and an output needs tokens
            return ~listed
        missing = -int(listed.sum()) % self.multiple
        others = len(self.always) + (~listed[len(self.always) :]).nonzero()[:missing, 0]
        listed[others] = True
        return listed
