"""The sentences of a search, and the policy by which they enter its batch and leave it."""

from __future__ import annotations

__all__ = ["FixedQueue", "SentenceQueue"]

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from s2s.decoding.sentences import SourceSentence


class SentenceQueue(ABC):
    """Admits sentences in order as others leave the batch, so that the batch stays full to the end.

    Sentences may be added and cancelled while the search runs; those of a `FixedQueue` are all known at the start.
    """

    def __init__(self, n_tokens: int) -> None:
        """n_tokens: maximum source tokens in the batch, eos included; a longer sentence is searched by itself."""
        self.n_tokens, self._admission_threshold = n_tokens, int(0.75 * n_tokens)

    @abstractmethod
    def peek(self, *, wait: bool) -> SourceSentence | None:
        """The first sentence; None: the queue is empty. With `wait`, blocks until there is one; None: it has ended."""

    @abstractmethod
    def pop(self, sentence: SourceSentence) -> bool:
        """Remove the first sentence from the queue; False if it is no longer `sentence`."""

    def admit(self, n_in_use: int) -> list[SourceSentence]:
        """Sentences that fit beside a batch of `n_in_use` source tokens; at least one if the batch is empty.

        No sentence is admitted unless a quarter of the budget is free, since each admission runs the encoder.
        An empty list for an empty batch means that the queue has ended.
        """
        admitted: list[SourceSentence] = []
        if n_in_use > self._admission_threshold:
            return admitted
        while sentence := self.peek(wait=not n_in_use):
            if n_in_use and n_in_use + len(sentence.ids) > self.n_tokens:
                break
            if self.pop(sentence):
                n_in_use += len(sentence.ids)
                admitted.append(sentence)
        return admitted

    @property
    def steps_at_once(self) -> int:
        """Maximum steps between calls of `admit`; one, so that sentences can be added or cancelled after every step."""
        return 1

    @property
    def stop_threshold(self) -> int:
        """Number of source tokens in use up to which steps stop as soon as a sentence is done; with more in use they go
        on without it. Unbounded, so that each result is known at once."""
        return sys.maxsize

    def take_cancelled(self) -> Collection[int]:
        """Indices of admitted sentences that were cancelled since the last call; their rows leave the batch."""
        return ()


class FixedQueue(SentenceQueue):
    """Sentences that are all known at the start and never cancelled."""

    def __init__(self, sentences: Iterable[SourceSentence], n_tokens: int) -> None:
        super().__init__(n_tokens)
        self._sentences = iter(sentences)
        self._first = next(self._sentences, None)

    def peek(self, *, wait: bool) -> SourceSentence | None:
        """The first sentence; None: the queue has ended."""
        return self._first

    def pop(self, sentence: SourceSentence) -> bool:
        """Remove the first sentence from the queue."""
        self._first = next(self._sentences, None)
        return True

    @property
    def steps_at_once(self) -> int:
        """Any number of steps: `stop_threshold` alone stops them."""
        return sys.maxsize

    @property
    def stop_threshold(self) -> int:
        """The largest number at which `admit` takes further sentences; once the queue has ended, 0, an empty batch."""
        return self._admission_threshold if self._first else 0
