"""Parts of speech of outputs, from the labels that an encoder has learnt (task.word_labels=tags).

Shapes: B sentences, S source tokens, W words of the longest, L labels.
"""

from __future__ import annotations

__all__ = ["TagStage"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from s2s import batch_by_length, make_batch
from s2s.generation import OutputStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from s2s import Seq2Seq
    from s2s.decoding import Hypothesis, SearchResult, SourceSentence
    from s2s_parsing.task import Parsing


class TagStage(OutputStage):
    """Writes the part of speech that is most probable for the encoder at each word of an output."""

    def __init__(self, model: Seq2Seq, task: Parsing, n_tokens: int) -> None:
        """n_tokens: source tokens in a batch."""
        self.model, self.task, self.n_tokens = model, task, n_tokens

    def results(
        self, results: Iterable[Iterable[SearchResult]], sources: Mapping[int, SourceSentence]
    ) -> Iterator[Iterable[SearchResult]]:
        """The results with the labels of their sentences."""
        for some in map(list, results):
            labels = self.labels([sources[one.index].ids[:-1] for one in some])
            yield [
                replace(
                    one, hypotheses=[replace(hypothesis, source_labels=word_labels) for hypothesis in one.hypotheses]
                )
                for one, word_labels in zip(some, labels, strict=True)
            ]

    def text(self, src: str, hypothesis: Hypothesis, text: str) -> str:
        """The tree with these parts of speech."""
        del src
        return text if hypothesis.source_labels is None else self.task.with_tags(text, hypothesis.source_labels)

    @torch.no_grad()
    def labels(self, sources: Sequence[Sequence[int]]) -> list[list[int] | None]:
        """The index in `Vocab.labels` of each word's most probable label, for sources without eos; None if the model
        has not learnt labels."""
        labels: list[list[int] | None] = [None] * len(sources)
        pairs: list[tuple[Sequence[int], list[int]]] = [(source, []) for source in sources]
        device = next(self.model.parameters(), torch.empty(0)).device
        for indices in batch_by_length(pairs, self.n_tokens):
            batch = make_batch([pairs[i] for i in indices], self.task.vocab).to(device)
            logits = self.model.label_logits(batch.src, batch.src_pad)
            if logits is None:
                return labels
            for i, row in zip(indices, logits.argmax(-1).tolist(), strict=True):
                labels[i] = row[: sum(self.task.vocab.word_begins[token] for token in sources[i])]
        return labels
