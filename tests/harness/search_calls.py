"""Searches over a batch and over a queue, as tests call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from s2s.decoding import AffineTransform, BeamSearch, SearchRequest, search_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def tempered(temperature: float, n_tokens: int) -> AffineTransform:
    """Logits over the temperature."""
    return AffineTransform(torch.full((n_tokens,), 1 / temperature), torch.zeros(n_tokens))


def without(tokens: Iterable[int], n_tokens: int) -> AffineTransform:
    """Logits of these tokens are -inf."""
    bias = torch.zeros(n_tokens)
    bias[list(tokens)] = -torch.inf
    return AffineTransform(torch.ones(n_tokens), bias)


def find(search: Search, *batch: Any, nbest: int = 1) -> list[list[Hypothesis]]:
    """The hypotheses of each row; see `SearchRequest.from_batch`."""
    return search_all(search, SearchRequest.from_batch(*batch, nbest=nbest))


def find_queued(
    search: Search, model: Seq2Seq, queue: SentenceQueue, vocab: Vocab, device: str = "cpu", **options: Any
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence of a queue, by its index."""
    request = SearchRequest(model=model, vocab=vocab, queue=queue, device=torch.device(device), **options)
    return search_all(search, request)
