"""Sentences that wait to be searched, and how many are let in at once."""

from __future__ import annotations

__all__ = ["Queue", "Source"]

from typing import TYPE_CHECKING, NamedTuple

from s2s.decoding.lexical import NO_CONSTRAINT, LexicalConstraint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Source(NamedTuple):
    """A sentence that waits."""

    place: int
    """Its number, by which its outputs will be known"""
    ids: Sequence[int]
    """Its symbols, eos with them"""
    wish: LexicalConstraint = NO_CONSTRAINT
    """What its output is to be like"""


class Queue:
    """Lets sentences in as others leave, so that the batch stays full to the end."""

    def __init__(self, sources: Iterable[Source], n_tokens: int) -> None:
        self.sources, self.n_tokens = iter(sources), n_tokens
        self.next = next(self.sources, None)

    def admit(self, n_in_use: int) -> list[Source]:
        """Those that fit beside `n_in_use` source symbols; where there are none, one at least.

        Nobody, unless a quarter is free: each time, the encoder runs and all caches are copied.
        """
        admitted: list[Source] = []
        if n_in_use > 0.75 * self.n_tokens:
            return admitted
        while self.next and (n_in_use + len(self.next.ids) <= self.n_tokens or not n_in_use):
            n_in_use += len(self.next.ids)
            admitted.append(self.next)
            self.next = next(self.sources, None)
        return admitted
