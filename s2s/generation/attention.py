"""What a model's attention says of outputs that a search found: where each symbol looks, and what none looks at.

Shapes: B outputs, T output symbols with eos, S source symbols with eos.
"""

from __future__ import annotations

__all__ = ["AttentionReader"]

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from s2s.batch import batch_by_length, make_batch
from s2s.config import GenerateConfig
from s2s.decoding import Found, Hypothesis
from s2s.decoding.penalties import coverage
from s2s.errors import ConfigError
from s2s.model import Seq2Seq
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor

Pair = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class AttentionReader:
    """Adds to outputs what attention says, and ranks them anew where coverage counts."""

    model: Seq2Seq
    vocab: Vocab
    device: torch.device
    config: GenerateConfig

    def __post_init__(self) -> None:
        """Said before anything is decoded."""
        asked = self.config.needs_attention
        if asked and next(self._weights([([], [])]))[1] is None:
            raise ConfigError(
                f"{asked} takes the attention of the model, which this architecture does not give (Seq2Seq.attention); "
                "leave it out"
            )

    def __call__(
        self, found: Iterable[Iterable[Found]], sources: Mapping[int, Sequence[int]]
    ) -> Iterator[Iterable[Found]]:
        """The same outputs, told; `sources` are the ids of each place, with eos. They wait until a batch is full."""
        if not self.config.needs_attention:
            yield from found
            return
        waiting: list[Found] = []
        n_symbols = 0
        for one in (one for some in found for one in some):
            waiting.append(one)
            n_symbols += sum(len(sources[one.place]) + len(h.tokens) for h in one.hypotheses)
            if n_symbols >= self.config.tokens:
                yield self._told(waiting, sources)
                waiting, n_symbols = [], 0
        yield self._told(waiting, sources)

    def _told(self, found: Sequence[Found], sources: Mapping[int, Sequence[int]]) -> list[Found]:
        pairs = [(sources[one.place][:-1], h.tokens) for one in found for h in one.hypotheses]
        weights = dict(self._weights(pairs))
        numbers = iter(range(len(pairs)))
        return [
            Found(one.place, self._ranked([self._seen(h, weights[next(numbers)]) for h in one.hypotheses]))
            for one in found
        ]

    def _weights(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor | None]]:
        """Of each pair its place, and how much each target symbol and eos looks at each source symbol but eos."""
        for places in batch_by_length(pairs, self.config.tokens):
            batch = make_batch([pairs[i] for i in places], self.vocab).to(self.device)
            with torch.no_grad():
                found = self.model.attention(
                    batch.src, batch.src_pad, batch.tgt_in, self.config.attention_layer or None
                )
            for row, place in enumerate(places):
                src, tgt = pairs[place]
                yield place, None if found is None else found[row, : len(tgt) + 1, : len(src)].cpu()

    def _seen(self, hypothesis: Hypothesis, weights: Tensor | None) -> Hypothesis:
        """weights [T, S - 1]"""
        assert weights is not None
        score = hypothesis.score
        if self.config.coverage:
            score += self.config.coverage * coverage(weights)
        return replace(hypothesis, score=score, sources=weights[:-1].argmax(-1).tolist())

    def _ranked(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda h: -h.score) if self.config.coverage else hypotheses
