"""Searches over a batch and over a queue, as tests call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from s2s.decoding import BeamSearch, SearchRequest, search_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Beams, Hypothesis, Search, SentenceQueue, SourceSentence
    from s2s.decoding.beams import BeamRun
    from s2s.model import Seq2Seq
    from s2s.task import Vocab


class InBatches(BeamSearch):
    """The same search, whose sentences join no stream: a call takes some steps of a batch."""

    def admit_whole(self, run: BeamRun, sentences: Sequence[SourceSentence]) -> Sequence[SourceSentence]:
        return sentences


class StepByStep(BeamSearch):
    """The same search, whose steps are never taken as one call."""

    def step(self, batch: Beams) -> Beams:
        return super().step(batch)


def find(search: Search, *batch: Any, nbest: int = 1) -> list[list[Hypothesis]]:
    """The hypotheses of each row; see `SearchRequest.from_batch`."""
    return search_all(search, SearchRequest.from_batch(*batch, nbest=nbest))


def find_queued(
    search: Search, model: Seq2Seq, queue: SentenceQueue, vocab: Vocab, device: str = "cpu", **options: Any
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence of a queue, by its index."""
    request = SearchRequest(model=model, vocab=vocab, queue=queue, device=torch.device(device), **options)
    return search_all(search, request)
