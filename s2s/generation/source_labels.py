"""The labels of source words that a model has learnt (`Vocab.labels`), where a search has not found them itself.

Shapes: B sentences, S source tokens, W words of the longest, L labels.
"""

from __future__ import annotations

__all__ = ["lack_labels", "with_labels"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from s2s.batch import batch_by_length, make_batch
from s2s.nn.words import SourceWords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from s2s.decoding.sentences import Hypothesis, SearchResult, SourceSentence
    from s2s.model import Seq2Seq
    from s2s.vocab import Vocab


def lack_labels(hypotheses: Iterable[Hypothesis]) -> bool:
    """Whether the labels of any are not known."""
    return any(hypothesis.source_labels is None for hypothesis in hypotheses)


def with_labels(
    results: Iterable[Iterable[SearchResult]],
    sources: Mapping[int, SourceSentence],
    model: Seq2Seq,
    vocab: Vocab,
    n_tokens: int,
) -> Iterator[Iterable[SearchResult]]:
    """The results of a search with `Hypothesis.source_labels`, if the model has learnt any.

    sources: the sentences, by their indices; n_tokens: source tokens in a batch.
    """
    words = SourceWords(vocab)  # whose tables are made at the first use
    for some in map(list, results):
        missing = [one.index for one in some if lack_labels(one.hypotheses)]
        found = word_labels([vocab.without_end(sources[index].ids) for index in missing], model, words, n_tokens)
        labels = dict(zip(missing, found, strict=True))
        yield [_labelled(one, labels[one.index]) if one.index in labels else one for one in some]


def _labelled(result: SearchResult, labels: list[int] | None) -> SearchResult:
    return replace(result, hypotheses=[replace(one, source_labels=labels) for one in result.hypotheses])


@torch.no_grad()
def word_labels(
    sources: Sequence[Sequence[int]], model: Seq2Seq, words: SourceWords, n_tokens: int
) -> list[list[int] | None]:
    """The index in `Vocab.labels` of the most probable label of each word but what ends the source; None if the model
    has not learnt labels."""
    labels: list[list[int] | None] = [None] * len(sources)
    pairs: list[tuple[Sequence[int], list[int]]] = [(source, []) for source in sources]
    device = next(model.parameters(), torch.empty(0)).device
    for indices in batch_by_length(pairs, n_tokens):
        batch = make_batch([pairs[i] for i in indices], words.vocab).to(device)
        logits = model.label_logits(batch.src, batch.src_pad)  # [B, W, L]
        if logits is None:
            return labels
        n_words = words.begins_word(batch.src, batch.src_pad).sum(1)
        for i, row, n in zip(indices, logits.argmax(-1).tolist(), n_words.tolist(), strict=True):
            labels[i] = row[: n - 1]
    return labels
