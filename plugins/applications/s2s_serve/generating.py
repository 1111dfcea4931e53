"""Text in, sentences out in order, each as soon as it is finished."""

from __future__ import annotations

__all__ = ["Sentence", "TextCandidate", "TextOptions", "join_lines", "lines_of", "outputs", "read_text", "text_outputs"]

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import DataError
from s2s.generation import Input, Output, Segment
from s2s_serve.refusal import RefusedError, invalid, unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from s2s.decoding import Hypothesis
    from s2s.generation import Generator
    from s2s_serve.engine import Engine

WINDOW = 16
"""Maximum sentences of one request in the queue at once, so that a long text does not delay short ones"""


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options of a request for a text."""

    prefix: str = ""
    phrases: tuple[str, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of each input that the task reads"""
    split: bool = True
    """Split each line into sentences, where the task can"""
    raw: bool = False
    """The text is untokenised: the task tokenises it into words"""
    nbest: int = 1
    """Outputs of which there is use"""
    align: bool = False


@dataclass(frozen=True)
class Sentence:
    """One sentence of a text, or a line that is not split."""

    line: int
    """The line of the text, from 0"""
    input: Input
    segments: list[Segment]
    """Parts that are decoded separately: one, unless the sentence is too long"""

    @property
    def n_tokens(self) -> int:
        """Source tokens, each eos included."""
        return sum(len(segment.ids) + 1 for segment in self.segments)


class TextCandidate(NamedTuple):
    """One output of a whole text."""

    hyp: str
    score: float
    """The sum of the scores of its sentences"""
    align: list[tuple[int, int]]
    """Pairs of source and output word numbers"""


async def read_text(engine: Engine, text: str, options: TextOptions) -> list[Sentence]:
    """The sentences of a text; raises RefusedError if one is invalid."""
    return await engine.in_text_thread(lambda: _read(engine.generator, text, options))


def _read(generator: Generator, text: str, options: TextOptions) -> list[Sentence]:
    task, constrained = generator.task, bool(options.prefix or options.phrases)
    lines = lines_of(text)
    if constrained and len(lines) > 1:
        raise invalid("prefix and phrases are for a text of one line")
    sentences = []
    for number, line in enumerate(lines):
        layout = generator.read.layout if options.split and not constrained else None
        parts = [piece.text for piece in layout.pieces(line)] if layout else [line]
        texts = [task.read_raw(part) if options.raw else part for part in parts]
        inputs = [Input(text, options.prefix, options.phrases, options.fields) for text in texts]
        try:
            segments, error = generator.read(inputs, "text")
        except DataError as bad:
            raise invalid(str(bad)) from bad
        if error:
            raise invalid(str(error))
        sentences += [Sentence(number, one, of) for one, of in zip(inputs, segments, strict=True)]
    return sentences


def lines_of(text: str) -> list[str]:
    """The lines of a text, as s2s-generate reads them from a file: other separators, such as U+2028, end none."""
    *lines, last = re.split("\r?\n", text)
    return [*lines, last] if last or not lines else lines


async def outputs(engine: Engine, sentences: Sequence[Sentence], options: TextOptions) -> AsyncGenerator[Output]:
    """The output of each sentence, in order; closing the generator removes the others from the batch."""
    window = asyncio.Semaphore(WINDOW)
    tasks = [asyncio.create_task(_output(engine, sentence, options, window)) for sentence in sentences]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _output(engine: Engine, sentence: Sentence, options: TextOptions, window: asyncio.Semaphore) -> Output:
    try:
        async with window:
            results = [await _search(engine, segment, options) for segment in sentence.segments]
    except (RefusedError, asyncio.CancelledError):
        raise
    except Exception as error:  # of the search; the engine has logged it
        raise unavailable("the search has failed on this batch; try again") from error
    write = (engine.aligning_generator if options.align and engine.aligning_generator else engine.generator).write

    def written() -> Output:
        parts = [
            write.output(segment, hypotheses) if segment.ids else Output.empty(segment.src)
            for segment, hypotheses in zip(sentence.segments, results, strict=True)
        ]
        return write.join_segments(sentence.input, sentence.segments, parts)

    return await engine.in_text_thread(written)


async def _search(engine: Engine, segment: Segment, options: TextOptions) -> list[Hypothesis]:
    return await engine.search(segment, nbest=options.nbest, align=options.align) if segment.ids else []


async def text_outputs(engine: Engine, text: str, options: TextOptions) -> list[TextCandidate]:
    """The `options.nbest` best outputs of a whole text; raises RefusedError while too many others wait."""
    sentences = await read_text(engine, text, options)
    with engine.admitted(sum(sentence.n_tokens for sentence in sentences)):
        parts = [output async for output in outputs(engine, sentences, options)]
    return join_lines(sentences, parts, options.nbest)


def join_lines(sentences: Sequence[Sentence], outputs: Sequence[Output], n: int) -> list[TextCandidate]:
    """The n best outputs of a text: the k-th joins the k-th best output of each sentence."""
    n_candidates = min(n, max(len(output.nbest) for output in outputs))
    return [_joined(sentences, outputs, k) for k in range(n_candidates)]


def _joined(sentences: Sequence[Sentence], outputs: Sequence[Output], k: int) -> TextCandidate:
    lines: dict[int, list[str]] = {}
    align: list[tuple[int, int]] = []
    score, n_src, n_tgt = 0.0, 0, 0
    for sentence, output in zip(sentences, outputs, strict=True):
        candidate = output.nbest[min(k, len(output.nbest) - 1)]
        lines.setdefault(sentence.line, []).append(candidate.hyp)
        align += [(n_src + i, n_tgt + j) for i, j in candidate.align]
        score += candidate.score
        n_src, n_tgt = n_src + len(sentence.input.src.split()), n_tgt + len(candidate.hyp.split())
    texts = [hyps[0] if len(hyps) == 1 else " ".join(hyps) for hyps in lines.values()]
    return TextCandidate("\n".join(texts), score, align)
