"""Turns hypotheses into text."""

from __future__ import annotations

__all__ = ["Writer"]

import logging
import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from s2s.errors import PluginError
from s2s.generation.candidates import EMPTY_CANDIDATE, LONG, NO_OUTPUT, Candidate, Counts, Input, Output
from s2s.generation.text_layout import join_pieces, with_blanks
from s2s.generation.text_writer import TextWriter
from s2s.text import AnnotatedText
from s2s.text.offsets import word_pairs

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
            prefix = segment.required.prefix
            hyp = self.task.fallback(segment.src) or (prefix.text if prefix else "")
            return Output(segment.src, [replace(NO_OUTPUT, hyp=hyp)])
        self._check_no_nan(segment, hypotheses)
        written = list(map(TextWriter(self.task, self.stages, segment), hypotheses))
        texts = [text for text, _ in written]
        ranked = _distinct(self._ranked(texts, hypotheses), texts)
        if not segment.lacks(texts[ranked[0][0]]):
            ranked = [(i, score) for i, score in ranked if not segment.lacks(texts[i])]
        best = ranked[: self.config.nbest]
        return Output(segment.src, [self._candidate(segment, *written[i], hypotheses[i], score) for i, score in best])

    def unsearched(self, segment: Segment) -> Output:
        """The output of a segment without tokens: its text, if nothing in it is translated."""
        is_copied = segment.source and segment.source.taken_out
        hyp = segment.required.copied(segment.src if is_copied else "")
        return Output(segment.src, [replace(EMPTY_CANDIDATE, hyp=hyp)])

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
        self.counts.short += self._is_short(segments, outputs)
        if len(outputs) == 1 and not segments[0].before and not segments[0].after:
            (whole,) = outputs
            return _annotated(source, whole if whole.src == source.src else replace(whole, src=source.src))
        n_candidates = max(len(output.nbest) for output in outputs)
        joined = [_joined(segments, [_nth(output, k) for output in outputs]) for k in range(n_candidates)]
        distinct = {one.hyp: one for one in reversed(joined)}
        nbest = [one for one in joined if distinct[one.hyp] is one]
        parts = list(outputs) if len(outputs) > 1 else []
        return _annotated(source, Output(source.src, nbest, parts))

    def _is_short(self, segments: Sequence[Segment], outputs: Sequence[Output]) -> bool:
        """Whether a text that should be about as long as its input is not, though it is not empty."""
        n_read, n_written = sum(map(self._n_read, segments)), sum(part.n_tokens for part in outputs)
        is_text = self.task.running_text and any(part.hyp.strip() for part in outputs)
        return is_text and n_read >= LONG and 4 * n_written < n_read

    def _n_read(self, segment: Segment) -> int:
        return segment.n_read(lambda text: len(self.task.encode_source([text])[0]))


def _distinct(ranked: Sequence[tuple[int, float]], texts: Sequence[str]) -> list[tuple[int, float]]:
    """The first of equal texts, which has the best score."""
    first = {texts[i]: (i, score) for i, score in reversed(ranked)}
    return [one for one in ranked if first[texts[one[0]]] == one]


def _nth(output: Output, k: int) -> Candidate:
    return output.nbest[min(k, len(output.nbest) - 1)]


def _joined(segments: Sequence[Segment], parts: Sequence[Candidate]) -> Candidate:
    """One output of a whole input."""
    pairs = zip(segments, parts, strict=True)
    texts = list(with_blanks(_behind_prefix(segment, part.hyp) for segment, part in pairs))
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


def _behind_prefix(segment: Segment, hyp: str) -> tuple[str, str, str]:
    """What stands before an output, the output, and what stands behind it; before a prefix, which begins the whole
    output, nothing does."""
    prefix = segment.required.prefix
    if prefix is None:
        return segment.before, hyp, segment.after
    symbols = "" if segment.required.is_complete else segment.before.strip()
    is_missing = bool(symbols) and symbols not in prefix.text
    return "", f"{hyp} {symbols}" if is_missing else hyp, segment.after


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


def _annotated(source: Input, output: Output) -> Output:
    """The output whose candidates have the inline elements of the input."""
    if not source.spans:
        return output
    from s2s.text.projection import project  # with modules that text without markup does without

    text = AnnotatedText(source.src, source.spans)
    nbest = [replace(one, annotated=project(text, one.hyp, one.links)) for one in output.nbest]
    return replace(output, nbest=nbest)
