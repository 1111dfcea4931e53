"""What a search is asked for: one object, the same for every search.

Shapes: B sentences, S source length.
"""

from __future__ import annotations

__all__ = ["SearchRequest", "SourceBatch", "search_all"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from s2s.batch import make_batch
from s2s.decoding.lexical import LexicalSizes, add_lexical, bind_lexical
from s2s.decoding.queue import SentenceQueue, SourceSentence
from s2s.model import Seq2Seq
from s2s.task import Constraint, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from s2s.decoding import Hypothesis, Search


class SourceBatch(NamedTuple):
    """Sentences that a search without streaming takes together."""

    sentences: list[SourceSentence]
    src: Tensor
    """[B, S], each row ending in eos"""
    pad: Tensor
    """[B, S], True at padding"""
    constraint: Constraint | None
    """On the outputs of exactly these sentences, in this order"""


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """Sentences, the model that decodes them, and what their outputs may be."""

    model: Seq2Seq
    vocab: Vocab
    queue: SentenceQueue
    """The sentences; a `RequestQueue` takes more of them while the search runs"""
    device: torch.device
    constraint: Constraint | None = None
    """On every output; what single sentences ask for (`SourceSentence.lexical`) is added by the search"""
    nbest: int = 1
    """Hypotheses per sentence"""

    @classmethod
    def of_batch(
        cls,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        *,
        nbest: int = 1,
    ) -> Self:
        """For the rows of src [B, S], each ending in eos, searched at once; pad [B, S] is True at padding."""
        rows = zip(src, pad, strict=True)
        sentences = [SourceSentence(i, row[~gap].tolist()) for i, (row, gap) in enumerate(rows)]
        queue = SentenceQueue(sentences, max(src.numel(), 1))
        return cls(model=model, vocab=vocab, queue=queue, device=src.device, constraint=constraint, nbest=nbest)

    def batches(self) -> Iterator[SourceBatch]:
        """The sentences in batches, for a search that finishes one batch before it takes the next."""
        while sentences := self.queue.admit(0):
            rows = make_batch([(sentence.ids[:-1], []) for sentence in sentences], self.vocab).to(self.device)
            lexical = [sentence.lexical for sentence in sentences]
            constraint = add_lexical(self.constraint, LexicalSizes.of(lexical), self.vocab)
            yield SourceBatch(sentences, rows.src, rows.src_pad, bind_lexical(constraint, lexical))


def search_all(search: Search, request: SearchRequest) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence of a queue that ends, best first, in the order of the sentences' indices."""
    found = {result.index: result.hypotheses for results in search(request) for result in results}
    return [found[index] for index in sorted(found)]
