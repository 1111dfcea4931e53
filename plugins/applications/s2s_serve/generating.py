"""Text in, sentences out in order, each as soon as it is finished."""

from __future__ import annotations

__all__ = [
    "ListedText",
    "Sentence",
    "TextOptions",
    "join_lines",
    "lines_of",
    "list_outputs",
    "outputs",
    "read_text",
    "text_outputs",
]

import asyncio
import re
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from s2s import DataError
from s2s.generation import Input, Output, Segment
from s2s.text import Span
from s2s_serve.refusal import RefusedError, invalid, unavailable
from s2s_serve.turns import in_order

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from s2s.generation import Candidate, Generator
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
    spans: tuple[Span, ...] = ()
    """Inline markup of the text, which candidates have in `annotated`"""


@dataclass(frozen=True)
class Sentence:
    """One sentence of a text; or a line that is not split, or a part of one that is too long."""

    line: int
    """The line of the text, from 0"""
    segment: Segment
    """With the text between it and the one before"""

    @property
    def n_tokens(self) -> int:
        """Source tokens, eos included."""
        return len(self.segment.ids) + 1


class ListedText(NamedTuple):
    """A text of a list, whose texts may need several engines."""

    engine: Engine
    sentences: list[Sentence]
    options: TextOptions


async def read_text(engine: Engine, text: str, options: TextOptions) -> list[Sentence]:
    """The sentences of a text; raises RefusedError if one is invalid."""
    return await engine.process_text(lambda: _read(engine.generator, text, options), len(text))


def _read(generator: Generator, text: str, options: TextOptions) -> list[Sentence]:
    if (options.split and generator.read.layout) or options.spans:
        return _numbered(_segments(generator, [text], options, None)[0])
    lines = lines_of(text)
    if (options.prefix or options.phrases) and len(lines) > 1:
        raise invalid("prefix and phrases are for a text of one line where it is not split")
    by_line = _segments(generator, [line for _, line, _ in lines], options, "text")
    sentences: list[Sentence] = []
    for number, ((before, _, after), segments) in enumerate(zip(lines, by_line, strict=True)):
        if before:
            segments[0] = replace(segments[0], before=before + segments[0].before)
        if after:
            segments[-1] = replace(segments[-1], after=segments[-1].after + after)
        sentences += [Sentence(number, segment) for segment in segments]
    return sentences


def _segments(
    generator: Generator, texts: Sequence[str], options: TextOptions, unit: Literal["text"] | None
) -> list[list[Segment]]:
    """Those of each text; raises RefusedError if one is invalid."""
    texts = [generator.task.read_raw(text) for text in texts] if options.raw else texts
    inputs = [Input(text, options.prefix, options.phrases, options.fields, spans=options.spans) for text in texts]
    try:
        segments, error = generator.read(list(map(generator.follower(), inputs)), unit)
    except DataError as bad:
        raise invalid(str(bad)) from bad
    if error:
        raise invalid(str(error))
    return segments


def _numbered(segments: Sequence[Segment]) -> list[Sentence]:
    """The segments of a text with the numbers of the lines in which they begin; Unicode says where these end."""
    sentences, line = [], 0
    for segment in segments:
        line += _n_line_ends(segment.before)
        sentences.append(Sentence(line, segment))
        line += _n_line_ends(segment.src)
    return sentences


def _n_line_ends(text: str) -> int:
    return len(f"{text}.".splitlines()) - 1


def lines_of(text: str) -> list[tuple[str, str, str]]:
    """The lines of a text as s2s-generate reads them from a file, each between the line ends around it.

    That before it, the line, and behind the last line its own: other separators, such as U+2028, end none.
    """
    parts = re.split("(\r?\n)", text)
    lines = [(before, line, "") for before, line in zip(["", *parts[1::2]], parts[::2], strict=True)]
    if len(lines) > 1 and not lines[-1][1]:
        (end, _, _), (before, line, _) = lines.pop(), lines.pop()
        lines.append((before, line, end))
    return lines


def outputs(engine: Engine, sentences: list[Sentence], options: TextOptions) -> AsyncGenerator[Output]:
    """The output of each sentence, in order; closing the generator removes the others from the batch."""
    return _outputs([ListedText(engine, sentences, options)])


async def _outputs(texts: Sequence[ListedText]) -> AsyncGenerator[Output]:
    """As `outputs`, for each sentence of each text."""
    window = asyncio.Semaphore(WINDOW)
    if len(texts) == 1 and len(texts[0].sentences) == 1:  # most requests, which need no task of their own
        yield await _output(texts[0].engine, texts[0].sentences[0], texts[0].options, window)
        return
    calls = (_output(text.engine, one, text.options, window) for text in texts for one in text.sentences)
    async with aclosing(in_order(calls)) as found:
        async for output in found:
            yield output


async def _output(engine: Engine, sentence: Sentence, options: TextOptions, window: asyncio.Semaphore) -> Output:
    """The output of a sentence; of the last search, if some are needed."""
    segment: Segment | None = sentence.segment
    output: Output | None = None
    while segment is not None:
        output = await _segment_output(engine, segment, options, window, output)
        is_final = segment.instead is None and segment.revision is None
        segment = None if is_final else await engine.process_text(partial(segment.again, output.hyp), len(segment.src))
    assert output is not None
    return output


async def _segment_output(
    engine: Engine, segment: Segment, options: TextOptions, window: asyncio.Semaphore, previous: Output | None
) -> Output:
    if not segment.ids:
        return engine.generator.write.unsearched(segment)
    try:
        async with window:
            hypotheses = await engine.search(segment, nbest=options.nbest, align=options.align)
    except RefusedError:
        raise
    except Exception as error:  # of the search; the engine has logged it
        raise unavailable("the search has failed on this batch; try again") from error
    write = engine.writing(align=options.align).write
    n_chars = len(segment.src) * len(hypotheses)
    return await engine.process_text(lambda: write.output(segment, hypotheses, previous), n_chars)


async def text_outputs(engine: Engine, text: str, options: TextOptions) -> list[Candidate]:
    """The `options.nbest` best outputs of a whole text; raises RefusedError while too many others wait."""
    read = ListedText(engine, await read_text(engine, text, options), options)
    async with aclosing(list_outputs([read])) as found:
        return await anext(found)


async def list_outputs(texts: Sequence[ListedText]) -> AsyncGenerator[list[Candidate]]:
    """As `text_outputs`, for each text, in order; raises RefusedError unless there is room for all of them."""
    with ExitStack() as admitted:
        for engine in {id(text.engine): text.engine for text in texts}.values():
            listed = (text.sentences for text in texts if text.engine is engine)
            admitted.enter_context(engine.admitted(sum(one.n_tokens for sentences in listed for one in sentences)))
        async with aclosing(_outputs(texts)) as found:
            for engine, sentences, options in texts:
                parts = [await anext(found) for _ in sentences]
                yield await join_lines(engine, sentences, parts, options.nbest, options.spans)


async def join_lines(
    engine: Engine, sentences: Sequence[Sentence], outputs: Sequence[Output], n: int, spans: tuple[Span, ...] = ()
) -> list[Candidate]:
    """The n best outputs of a text: the k-th joins the k-th best output of each sentence."""
    segments = [sentence.segment for sentence in sentences]
    text = "".join(segment.before + segment.src + segment.after for segment in segments)
    write = engine.generator.write
    n_chars = len(text) * max(len(output.nbest) for output in outputs)
    source = Input(text, spans=spans)
    joined = await engine.process_text(lambda: write.join_segments(source, segments, outputs), n_chars)
    return joined.nbest[:n]
