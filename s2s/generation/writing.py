"""Turns hypotheses into text."""

from __future__ import annotations

__all__ = ["Writer"]

import logging
import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from s2s.errors import PluginError
from s2s.generation.candidates import NO_OUTPUT, Candidate, Counts, Input, Output
from s2s.generation.text_layout import WordCount, join_pieces, with_blanks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import GenerateConfig
    from s2s.decoding import Hypothesis
    from s2s.generation.output_stages import OutputStage
    from s2s.generation.reading import Segment
    from s2s.task import Task

logger = logging.getLogger(__name__)


class Writer:
    """Writes outputs, and counts them."""

    def __init__(
        self,
        task: Task,
        config: GenerateConfig,
        counts: Counts,
        stages: Sequence[OutputStage],
        search: str = "the search",
    ) -> None:
        """search: its name in errors."""
        self.task, self.config, self.counts, self.stages, self.search = task, config, counts, stages, search

    def output(self, segment: Segment, hypotheses: Sequence[Hypothesis]) -> Output:
        """The output of a segment that was searched; without hypotheses, the task's fallback."""
        if not hypotheses and not self.counts.unanswered:
            logger.warning(
                "no output within the length limit (search.max_len_a, search.max_len_b) for %r: the task's constraint "
                "or the prefix and phrases of this input allow none, or the model's logits are not finite",
                segment.src[:60],
            )
        if not hypotheses:
            self.counts.unanswered += 1
            return Output(segment.src, [replace(NO_OUTPUT, hyp=self.task.fallback(segment.src))])
        self._check_no_nan(segment, hypotheses)
        texts = [self._text(segment, hypothesis) for hypothesis in hypotheses]
        ranked = _distinct(self._ranked(texts, hypotheses), texts)[: self.config.nbest]
        return Output(segment.src, [self._candidate(segment, texts[i], hypotheses[i], score) for i, score in ranked])

    def _check_no_nan(self, segment: Segment, hypotheses: Sequence[Hypothesis]) -> None:
        """Raise PluginError for scores that no order can follow: NaN is neither better nor worse than a number."""
        for hypothesis in hypotheses:
            if math.isnan(hypothesis.score) or any(map(math.isnan, hypothesis.token_log_probs)):
                raise PluginError(
                    f"{self.search}, or what processes its results, gave an output of {segment.src[:40]!r} whose score "
                    "or log-probabilities are NaN: expected numbers, or -inf"
                )

    def _text(self, segment: Segment, hypothesis: Hypothesis) -> str:
        text = _text_of(self.task, "detokenize", self.task.detokenize(hypothesis.tokens, segment.src))
        for stage in self.stages:
            text = _text_of(stage, "text", stage.text(segment.src, hypothesis, text))
        return text

    def _ranked(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]]:
        """Indices of hypotheses and their ranking scores, best first; raises PluginError for others."""
        for stage in self.stages:
            if (ranking := stage.rerank(texts, hypotheses)) is not None:
                indices = [i for i, _ in ranking]
                if not indices or len(set(indices)) < len(indices) or not set(indices) <= set(range(len(texts))):
                    raise PluginError(
                        f"{type(stage).__name__}.rerank: expected indices from 0 to {len(texts) - 1}, each at most "
                        f"once, got {indices}"
                    )
                return ranking
        return [(i, hypothesis.score) for i, hypothesis in enumerate(hypotheses)]

    def _candidate(self, segment: Segment, text: str, hypothesis: Hypothesis, score: float) -> Candidate:
        pieces = self.task.pieces(hypothesis.tokens, segment.src) if "pieces" in self.config.fields else []
        aligned = (stage.align(segment.src, hypothesis) for stage in self.stages if stage.computes_alignment)
        align = next(filter(None, aligned), [])
        return Candidate(text, score, hypothesis.tokens, hypothesis.token_log_probs, pieces, align, hypothesis.finished)

    def join_segments(self, source: Input, segments: Sequence[Segment], outputs: Sequence[Output]) -> Output:
        """The output of an input, joined from those of its segments: the k-th best of each with those of the others."""
        self.counts.inputs += 1
        self.counts.empty += not any(segment.ids for segment in segments)
        self.counts.tokens += sum(part.n_tokens for part in outputs)
        self.counts.unfinished += not all(part.best.finished for part in outputs)
        self.counts.blank += any(
            bool(segment.ids) and not part.hyp.strip() and part.score > -math.inf
            for segment, part in zip(segments, outputs, strict=True)
        )
        if len(outputs) == 1 and not segments[0].before and not segments[0].after:
            return replace(outputs[0], src=source.src)
        n_candidates = max(len(output.nbest) for output in outputs)
        joined = [_joined(segments, [_nth(output, k) for output in outputs]) for k in range(n_candidates)]
        distinct = {one.hyp: one for one in reversed(joined)}
        nbest = [one for one in joined if distinct[one.hyp] is one]
        return Output(source.src, nbest, list(outputs) if len(outputs) > 1 else [])


def _distinct(ranked: Sequence[tuple[int, float]], texts: Sequence[str]) -> list[tuple[int, float]]:
    """The first of equal texts, which has the best score."""
    first = {texts[i]: (i, score) for i, score in reversed(ranked)}
    return [one for one in ranked if first[texts[one[0]]] == one]


def _nth(output: Output, k: int) -> Candidate:
    return output.nbest[min(k, len(output.nbest) - 1)]


def _joined(segments: Sequence[Segment], parts: Sequence[Candidate]) -> Candidate:
    """One output of a whole input."""
    pairs = list(zip(segments, parts, strict=True))
    texts = [(segment.before, part.hyp, segment.after) for segment, part in pairs]
    return Candidate(
        join_pieces(texts),
        sum(part.score for part in parts),
        list(chain.from_iterable(part.tokens for part in parts)),
        list(chain.from_iterable(part.log_probs for part in parts)),
        list(chain.from_iterable(part.pieces for part in parts)),
        _joined_alignment(segments, parts) if any(part.align for part in parts) else [],
        all(part.finished for part in parts),
    )


def _joined_alignment(segments: Sequence[Segment], parts: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Word numbers refer to the whole texts; a word of the source may span several segments."""
    joined: list[tuple[int, int]] = []
    src, tgt = WordCount(), WordCount()
    pairs = zip(segments, parts, strict=True)
    texts = with_blanks((segment.before, part.hyp, segment.after) for segment, part in pairs)
    for segment, part, text in zip(segments, parts, texts, strict=True):
        first_src, first_tgt = src.add(segment.before, segment.src, segment.after), tgt.add(*text)
        joined += [(first_src + i, first_tgt + j) for i, j in part.align]
    return joined


def _text_of(maker: object, method: str, value: Any) -> str:
    """A text that a task or a stage made; raises PluginError if it is none."""
    if not isinstance(value, str):
        raise PluginError(f"{type(maker).__name__}.{method}: expected a text, got {type(value).__name__}")
    return value
