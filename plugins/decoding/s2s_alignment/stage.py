"""Attention of the model over outputs that a search found: source positions of tokens, and coverage.

No torch at import, since most outputs need no attention. Shapes: T output tokens with eos, S source tokens with eos.
"""

from __future__ import annotations

__all__ = ["AttentionStage"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.decoding import Hypothesis, SearchResult
from s2s.generation import OutputStage
from s2s_alignment.words import replace_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from s2s import Seq2Seq, Task
    from s2s.decoding import SourceSentence
    from s2s_alignment import AlignmentOptions
    from s2s_alignment.attention import Pair


class AttentionStage(OutputStage):
    """Adds source positions to outputs, and re-ranks them by coverage."""

    def __init__(self, load_model: Callable[[], Seq2Seq], task: Task, config: AlignmentOptions) -> None:
        """Raises ConfigError, before anything is decoded, if the model does not provide attention weights."""
        self.load_model, self.task, self.config = load_model, task, config
        self.computes_alignment = config.format == "aligned" or "align" in config.fields
        asked = config.needs_attention
        self.needs_attention = bool(asked)
        if asked and next(self._weights([([], [])], [self.task.vocab.starting_tokens]))[1] is None:
            raise ConfigError(
                f"{asked} takes the attention of the model, which this architecture does not give (Seq2Seq.attention); "
                "leave it out"
            )

    def results(
        self, results: Iterable[Iterable[SearchResult]], sources: Mapping[int, SourceSentence]
    ) -> Iterator[Iterable[SearchResult]]:
        """The results with attention, in batches; `sources` are the sentences, by their indices."""
        pending: list[SearchResult] = []
        n_tokens = 0
        for batch in map(list, results):
            processed = [one for one in batch if self.processes(sources[one.index])]
            if len(processed) < len(batch):
                yield [one for one in batch if not self.processes(sources[one.index])]
            for one in processed:
                pending.append(one)
                n_tokens += sum(len(sources[one.index].ids) + len(h.tokens) for h in one.hypotheses)
                if n_tokens >= self.config.tokens:
                    yield self._annotated(pending, sources)
                    pending, n_tokens = [], 0
        yield self._annotated(pending, sources)

    def processes(self, sentence: SourceSentence) -> bool:
        """Whether an option needs attention, or the sentence itself."""
        return self.needs_attention or sentence.align

    def text(self, src: str, hypothesis: Hypothesis, text: str) -> str:
        """The text with unknown words replaced by source words, if replace_unk is set."""
        return replace_unknown(self.task, src, hypothesis, text) if self.config.replace_unk else text

    def _annotated(self, results: Sequence[SearchResult], sources: Mapping[int, SourceSentence]) -> list[SearchResult]:
        pairs = [
            (self.task.vocab.without_end(sources[one.index].ids), h.tokens) for one in results for h in one.hypotheses
        ]
        starts = [
            sources[one.index].starting_tokens or self.task.vocab.starting_tokens
            for one in results
            for _ in one.hypotheses
        ]
        weights = dict(self._weights(pairs, starts))
        if self.task.context:  # words and coverage are those of the input itself
            n_context = [len(src) - len(self.task.cut_context(src, 0)) for src, _ in pairs]
            weights = {i: None if part is None else part[:, n_context[i] :] for i, part in weights.items()}
        numbers = iter(range(len(pairs)))
        return [
            SearchResult(
                one.index, self._ranked([self._with_weights(h, weights[next(numbers)]) for h in one.hypotheses])
            )
            for one in results
        ]

    def _weights(self, pairs: Sequence[Pair], starts: Sequence[Sequence[int]]) -> Iterator[tuple[int, Tensor | None]]:
        """See `attention_weights`."""
        from s2s_alignment.attention import attention_weights  # torch

        layer = self.config.attention_layer or None
        return attention_weights(self.load_model(), self.task.vocab, pairs, starts, self.config.tokens, layer)

    def _with_weights(self, hypothesis: Hypothesis, weights: Tensor | None) -> Hypothesis:
        """weights [T, S - 1]; None: the architecture gives none, and no option needs any"""
        if weights is None:
            return hypothesis
        score = hypothesis.score
        if self.config.coverage:
            from s2s_alignment.attention import coverage

            score += self.config.coverage * coverage(weights)
        return replace(hypothesis, score=score, source_positions=weights[:-1].argmax(-1).tolist())

    def _ranked(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda h: -h.score) if self.config.coverage else hypotheses
