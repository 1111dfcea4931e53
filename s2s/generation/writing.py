"""Turns hypotheses into text."""

from __future__ import annotations

__all__ = ["Writer"]

import logging
import math
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from s2s.errors import PluginError
from s2s.generation.candidates import EMPTY_CANDIDATE, NO_OUTPUT, Candidate, Counts, Input, Output
from s2s.generation.text_layout import join_pieces, with_blanks
from s2s.text import AnnotatedText
from s2s.text.offsets import moved_links, word_pairs
from s2s.text.projection import project

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.config import GenerateConfig
    from s2s.decoding import Hypothesis
    from s2s.generation.output_stages import OutputStage
    from s2s.generation.segments import Segment
    from s2s.task import Task
    from s2s.text import Link

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

    def output(self, segment: Segment, hypotheses: Sequence[Hypothesis], previous: Output | None = None) -> Output:
        """The output of a segment that was searched; without hypotheses, the task's fallback.

        previous: the output that lacks something, and stays if there are no hypotheses.
        """
        if previous is not None:
            self.counts.revised += 1
            self.counts.lacking += not hypotheses
            if not hypotheses:
                return previous
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
        written = list(map(_TextWriter(self.task, self.stages, segment), hypotheses))
        texts = [text for text, _ in written]
        ranked = _distinct(self._ranked(texts, hypotheses), texts)
        if not segment.lacks(texts[ranked[0][0]]):
            ranked = [(i, score) for i, score in ranked if not segment.lacks(texts[i])]
        best = ranked[: self.config.nbest]
        return Output(segment.src, [self._candidate(segment, *written[i], hypotheses[i], score) for i, score in best])

    def unsearched(self, segment: Segment) -> Output:
        """The output of a segment without tokens: its text, if nothing in it is translated."""
        is_copied = segment.source and segment.source.taken_out
        return Output(segment.src, [replace(EMPTY_CANDIDATE, hyp=segment.src if is_copied else "")])

    def _check_no_nan(self, segment: Segment, hypotheses: Sequence[Hypothesis]) -> None:
        """Raise PluginError for scores that no order can follow: NaN is neither better nor worse than a number."""
        for hypothesis in hypotheses:
            if math.isnan(hypothesis.score) or any(map(math.isnan, hypothesis.token_log_probs)):
                raise PluginError(
                    f"{self.search}, or what processes its results, gave an output of {segment.src[:40]!r} whose score "
                    "or log-probabilities are NaN: expected numbers, or -inf"
                )

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

    def _candidate(
        self, segment: Segment, text: str, links: list[Link], hypothesis: Hypothesis, score: float
    ) -> Candidate:
        return Candidate(
            text,
            score,
            hypothesis.tokens,
            hypothesis.token_log_probs,
            self.task.pieces(hypothesis.tokens, segment.text) if "pieces" in self.config.fields else [],
            word_pairs(segment.src, text, links),
            links,
            finished=hypothesis.finished,
        )

    def join_segments(self, source: Input, segments: Sequence[Segment], outputs: Sequence[Output]) -> Output:
        """The output of an input, joined from those of its segments: the k-th best of each with those of the others."""
        self.counts.inputs += 1
        self.counts.empty += not any(segment.ids or segment.align for segment in segments)
        self.counts.tokens += sum(part.n_tokens for part in outputs)
        self.counts.unfinished += not all(part.best.finished for part in outputs)
        self.counts.blank += any(
            bool(segment.ids) and not part.hyp.strip() and part.score > -math.inf
            for segment, part in zip(segments, outputs, strict=True)
        )
        if len(outputs) == 1 and not segments[0].before and not segments[0].after:
            return _annotated(source, replace(outputs[0], src=source.src))
        n_candidates = max(len(output.nbest) for output in outputs)
        joined = [_joined(segments, [_nth(output, k) for output in outputs]) for k in range(n_candidates)]
        distinct = {one.hyp: one for one in reversed(joined)}
        nbest = [one for one in joined if distinct[one.hyp] is one]
        parts = list(outputs) if len(outputs) > 1 else []
        return _annotated(source, Output(source.src, nbest, parts))


def _distinct(ranked: Sequence[tuple[int, float]], texts: Sequence[str]) -> list[tuple[int, float]]:
    """The first of equal texts, which has the best score."""
    first = {texts[i]: (i, score) for i, score in reversed(ranked)}
    return [one for one in ranked if first[texts[one[0]]] == one]


def _nth(output: Output, k: int) -> Candidate:
    return output.nbest[min(k, len(output.nbest) - 1)]


def _joined(segments: Sequence[Segment], parts: Sequence[Candidate]) -> Candidate:
    """One output of a whole input."""
    pairs = zip(segments, parts, strict=True)
    texts = list(with_blanks((segment.before, part.hyp, segment.after) for segment, part in pairs))
    text, links = join_pieces(texts), _joined_links(segments, parts, texts)
    return Candidate(
        text,
        sum(part.score for part in parts),
        list(chain.from_iterable(part.tokens for part in parts)),
        list(chain.from_iterable(part.log_probs for part in parts)),
        list(chain.from_iterable(part.pieces for part in parts)),
        word_pairs("".join(one.before + one.src + one.after for one in segments), text, links),
        links,
        finished=all(part.finished for part in parts),
    )


def _joined_links(
    segments: Sequence[Segment], parts: Sequence[Candidate], texts: Iterable[tuple[str, str, str]]
) -> list[Link]:
    """Links between the whole texts; what stands between two parts is aligned with itself."""
    links: list[Link] = []
    src = tgt = 0
    if not any(part.links for part in parts):
        return links
    for segment, part, (before, hyp, after) in zip(segments, parts, texts, strict=True):
        if before.strip():
            links.append((src, src + len(before), tgt, tgt + len(before)))
        src, tgt = src + len(segment.before), tgt + len(before)
        links += [(src + sb, src + se, tgt + tb, tgt + te) for sb, se, tb, te in part.links]
        src, tgt = src + len(segment.src + segment.after), tgt + len(hyp + after)
    return links


def _text_of(maker: object, method: str, value: Any) -> str:
    """A text that a task or a stage made; raises PluginError if it is none."""
    if not isinstance(value, str):
        raise PluginError(f"{type(maker).__name__}.{method}: expected a text, got {type(value).__name__}")
    return value


class _TextWriter:
    """Writes the hypotheses of a segment as text, with links between it and the segment."""

    def __init__(self, task: Task, stages: Sequence[OutputStage], segment: Segment) -> None:
        self.task, self.stages, self.segment = task, stages, segment
        self.is_aligned = segment.align or any(stage.computes_alignment for stage in stages)

    def __call__(self, hypothesis: Hypothesis) -> tuple[str, list[Link]]:
        src = self.segment.text
        detokenized = text = _text_of(self.task, "detokenize", self.task.detokenize(hypothesis.tokens, src))
        for stage in self.stages:
            text = _text_of(stage, "text", stage.text(src, hypothesis, text))
        links = moved_links(self._links(hypothesis), detokenized, text)
        if self.segment.source is None:
            return text, links
        restored, links = self.segment.source.restored(text, links)
        return (restored, links) if restored.startswith(self.segment.prefix) else (text, [])

    def _links(self, hypothesis: Hypothesis) -> list[Link]:
        """Each token of the output with the source token that it attends to most."""
        if hypothesis.source_positions is None or not self.is_aligned:
            return []
        targets = self.task.target_offsets(hypothesis.tokens, self.segment.text)
        sources = (self._sources[position] for position in hypothesis.source_positions)
        return [(*source, *target) for source, target in zip(sources, targets, strict=True) if source and target]

    @cached_property
    def _sources(self) -> Sequence[tuple[int, int] | None]:
        return self.task.source_offsets(self.segment.text)


def _annotated(source: Input, output: Output) -> Output:
    """The output whose candidates have the inline elements of the input."""
    if not source.spans:
        return output
    text = AnnotatedText(source.src, source.spans)
    nbest = [replace(one, annotated=project(text, one.hyp, one.links)) for one in output.nbest]
    return replace(output, nbest=nbest)
