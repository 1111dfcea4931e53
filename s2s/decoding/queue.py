"""Sentences to be searched, and how many of them enter the batch at once."""

from __future__ import annotations

__all__ = ["SentenceQueue", "SourceSentence"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.decoding.lexical import NO_CONSTRAINT, LexicalConstraint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


@dataclass(frozen=True)
class SourceSentence:
    """A sentence to be searched."""

    index: int
    """Identifies its result"""
    ids: Sequence[int]
    """Source tokens, eos included"""
    lexical: LexicalConstraint = NO_CONSTRAINT
    """What its output must contain"""


class SentenceQueue:
    """Admits sentences in their order as others leave the batch, so that the batch stays full to the end."""

    def __init__(self, sentences: Iterable[SourceSentence], n_tokens: int) -> None:
        """n_tokens: source tokens, eos included, in the batch at once; a longer sentence is searched by itself."""
        self._sentences, self.n_tokens = iter(sentences), n_tokens
        self._first = next(self._sentences, None)

    def admit(self, n_in_use: int) -> list[SourceSentence]:
        """Sentences that fit beside a batch of `n_in_use` source tokens; at least one if the batch is empty.

        None unless a quarter of the budget is free, since each admission runs the encoder and copies all caches.
        An empty list for an empty batch means that the queue has ended.
        """
        admitted: list[SourceSentence] = []
        if n_in_use > 0.75 * self.n_tokens:
            return admitted
        while sentence := self.peek(wait=not n_in_use):
            if n_in_use and n_in_use + len(sentence.ids) > self.n_tokens:
                break
            if self.pop(sentence):
                n_in_use += len(sentence.ids)
                admitted.append(sentence)
        return admitted

    def peek(self, *, wait: bool) -> SourceSentence | None:
        """The first sentence. None: none is queued now, or, with `wait`, none will ever come."""
        return self._first

    def pop(self, sentence: SourceSentence) -> bool:
        """Take the first sentence out of the queue; False if it is another one by now."""
        self._first = next(self._sentences, None)
        return True

    def take_cancelled(self) -> Collection[int]:
        """Indices of admitted sentences that were cancelled since the last call; their rows leave the batch."""
        return ()
