"""The input of every search: one request, with the queue of its sentences.

Shapes: B sentences, S source length.
"""

from __future__ import annotations

__all__ = [
    "FixedQueue",
    "SearchRequest",
    "SentenceQueue",
    "SourceBatch",
    "SourceSentence",
    "search_all",
]

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from s2s.batch import make_batch
from s2s.decoding.constraints import SentenceConstraint, grow_constraint
from s2s.model import Seq2Seq
from s2s.task import Constraint, Vocab

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from torch import Tensor

    from s2s.decoding import Hypothesis, Search


@dataclass(frozen=True)
class SourceSentence:
    """A sentence to be searched."""

    index: int
    """Identifies its result"""
    ids: Sequence[int]
    """Source tokens, eos included"""
    constraint: SentenceConstraint | None = None
    """Constraint on its output"""
    nbest: int | None = None
    """Hypotheses that its caller uses, the best of its result; None: all. Where those depend on how many are found, as
    in sampling, no more are found; else there may be more, up to `SearchRequest.nbest`."""
    start: Sequence[int] = ()
    """Target tokens that the model is fed before the first prediction, such as the code of the sentence's language;
    empty: `Vocab.start`. They are no part of the output"""


class SentenceQueue(ABC):
    """Admits sentences in order as others leave the batch, so that the batch stays full to the end.

    Sentences may be added and cancelled while the search runs; those of a `FixedQueue` are all known at the start.
    """

    def __init__(self, n_tokens: int) -> None:
        """n_tokens: maximum source tokens in the batch, eos included; a longer sentence is searched by itself."""
        self.n_tokens, self._refill_threshold = n_tokens, int(0.75 * n_tokens)

    @abstractmethod
    def peek(self, *, wait: bool) -> SourceSentence | None:
        """The first sentence. None: none is queued now, or, with `wait`, none will ever be."""

    @abstractmethod
    def pop(self, sentence: SourceSentence) -> bool:
        """Remove the first sentence from the queue; False if it is no longer `sentence`."""

    def admit(self, n_in_use: int) -> list[SourceSentence]:
        """Sentences that fit beside a batch of `n_in_use` source tokens; at least one if the batch is empty.

        No sentence is admitted unless a quarter of the budget is free, since each admission runs the encoder.
        An empty list for an empty batch means that the queue has ended.
        """
        admitted: list[SourceSentence] = []
        if n_in_use > self._refill_threshold:
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
    def refill_threshold(self) -> int:
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
        """Unbounded."""
        return sys.maxsize

    @property
    def refill_threshold(self) -> int:
        """The largest number at which `admit` takes further sentences; once the queue has ended, 0, an empty batch."""
        return self._refill_threshold if self._first else 0


class SourceBatch(NamedTuple):
    """Sentences that a search without streaming processes together."""

    sentences: list[SourceSentence]
    src: Tensor
    """[B, S], each row ending in eos"""
    pad: Tensor
    """[B, S], True at padding"""
    constraint: Constraint | None
    """On the outputs of exactly these sentences, in this order"""


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """Sentences, the model that decodes them, and the constraint on their outputs."""

    model: Seq2Seq
    vocab: Vocab
    queue: SentenceQueue
    """The sentences; a custom queue may add more of them while the search runs"""
    device: torch.device
    constraint: Constraint | None = None
    """On every output; the search adds those of single sentences (`SourceSentence.constraint`)"""
    nbest: int = 1
    """Hypotheses per sentence"""

    @classmethod
    def from_batch(
        cls,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        *,
        nbest: int = 1,
    ) -> Self:
        """A request for the rows of src [B, S], each ending in eos, searched together; pad [B, S], True at padding."""
        rows = zip(src, pad, strict=True)
        sentences = [SourceSentence(i, row[~gap].tolist()) for i, (row, gap) in enumerate(rows)]
        queue = FixedQueue(sentences, max(src.numel(), 1))
        return cls(model=model, vocab=vocab, queue=queue, device=src.device, constraint=constraint, nbest=nbest)

    def starting_tokens(self, sentence: SourceSentence) -> tuple[int, ...]:
        """The tokens that are fed to the model before the first prediction, at least one."""
        return tuple(sentence.start) or self.vocab.start

    def batches(self) -> Iterator[SourceBatch]:
        """The sentences in batches, for a search that finishes one batch before it takes the next."""
        while sentences := self.queue.admit(0):
            rows = make_batch([(sentence.ids[:-1], []) for sentence in sentences], self.vocab).to(self.device)
            wanted = [sentence.constraint for sentence in sentences]
            grown = grow_constraint(None, wanted, self.constraint, self.vocab)
            constraint = grown.bind(wanted) if grown else self.constraint
            yield SourceBatch(sentences, rows.src, rows.src_pad, constraint)


def search_all(search: Search, request: SearchRequest) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence of a queue that ends, best first, in the order of the sentences' indices."""
    found = {result.index: result.hypotheses for results in search(request) for result in results}
    return [found[index] for index in sorted(found)]
