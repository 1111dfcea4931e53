"""A document as text with slots, each of which takes an output."""

from __future__ import annotations

__all__ = ["RawInside", "Slot", "Template", "TemplatePart", "render_spans", "rendered", "walk"]

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from s2s.text import Block, Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from s2s.text import AnnotatedText, Span


class Slot(NamedTuple):
    """The place of a block."""

    block: Block
    raw: str
    """The source as the document writes it"""
    write: Callable[[AnnotatedText], str]
    """An output as the document writes it"""


TemplatePart: TypeAlias = str | Slot


class Template(Document):
    """The parts of a document in a row."""

    def __init__(self, parts: Iterable[TemplatePart], encode: Callable[[str], bytes]) -> None:
        self.parts, self.encode = list(parts), encode
        self.blocks = [part.block for part in self.parts if isinstance(part, Slot)]

    def render(self, outputs: Sequence[AnnotatedText]) -> bytes:
        return self.encode("".join(rendered(self.parts, iter(outputs))))


def rendered(parts: Sequence[TemplatePart], outputs: Iterator[AnnotatedText]) -> Iterator[str]:
    """The parts with an output in each slot; takes as many outputs as there are slots."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        output = next(outputs)
        yield part.raw if _is_unchanged(output, part.block.source) else part.write(output)


RawInside: TypeAlias = "Mapping[tuple[str, str], str]"
"""(opening, text without blanks at its edges) of a span that is kept -> its inside as the document writes it"""


class Event(NamedTuple):
    """A step along an annotated text."""

    kind: Literal["text", "open", "close", "keep"]
    text: str
    """What is between tags; of a span that is kept, its inside"""
    span: Span | None = None


def walk(text: AnnotatedText) -> Iterator[Event]:
    """The text and its tags in order. A span that is kept is one event."""
    around: list[Span] = []
    at = 0
    for span, parent in zip((*text.spans, None), (*text.parents, -1), strict=True):
        outer = text.spans[parent] if parent >= 0 else None
        while around and around[-1] is not outer:
            yield Event("text", text.text[at : around[-1].end])
            at = around[-1].end
            yield Event("close", "", around.pop())
        if span is not None:
            yield Event("text", text.text[at : span.begin])
            at = span.end if span.keep else span.begin
            yield Event("keep" if span.keep else "open", text.text[span.begin : at], span)
            around += [] if span.keep else [span]
    yield Event("text", text.text[at:])


def render_spans(text: AnnotatedText, raw_inside: RawInside, escape: Callable[[str], str]) -> str:
    """The text with its tags."""
    return "".join(_rendered_event(event, raw_inside, escape) for event in walk(text))


def _rendered_event(event: Event, raw_inside: RawInside, escape: Callable[[str], str]) -> str:
    if event.span is None:
        return escape(event.text)
    if event.kind == "keep":
        inside = event.text.strip()
        before, _, after = event.text.partition(inside)
        raw = raw_inside.get((event.span.opening, inside)) or escape(inside)
        return f"{event.span.opening}{before}{raw}{after}{event.span.closing}"
    return event.span.opening if event.kind == "open" else event.span.closing


def _is_unchanged(output: AnnotatedText, source: AnnotatedText) -> bool:
    """The same text and tags, however the depth of elements is given."""
    return output.text == source.text and [span[:5] for span in output.spans] == [span[:5] for span in source.spans]
