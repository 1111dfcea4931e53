"""A text and the inline elements around its parts."""

from __future__ import annotations

__all__ = ["AnnotatedText", "Link", "Span", "with_depths"]

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from s2s.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Link = tuple[int, int, int, int]
"""Source begin and end, target begin and end, in characters: a target token and the source token it attends to"""


class Span(NamedTuple):
    """An inline element."""

    begin: int
    end: int
    """Characters of the text; begin == end: an element that is empty or stands alone, such as br and img"""
    opening: str = ""
    closing: str = ""
    """The markup as it stands in the document; an element that stands alone has no closing"""
    keep: bool = False
    """Whether its text is copied instead of translated, as in code, and by translate="no" """
    depth: int | None = None
    """Number of elements around it; None: as many as there are around its place, where an element without text is
    outside of one that ends there"""


@dataclass(frozen=True)
class AnnotatedText:
    """A text and its elements."""

    text: str
    spans: tuple[Span, ...] = ()
    """In the order of the document: by where they open, outer before inner; properly nested"""

    def __post_init__(self) -> None:
        """Raises DataError for elements that cross, are not in order, or lie outside of the text."""
        ends: dict[int, int] = {}  # by parent that of the previous element in it
        for span, parent in zip(self.spans, self.parents, strict=True):
            around = self.spans[parent] if parent >= 0 else Span(0, len(self.text))
            if not ends.get(parent, around.begin) <= span.begin <= span.end <= around.end:
                raise DataError(
                    f"element {span.opening!r} at {span.begin} to {span.end}: elements are nested within one another "
                    "and the text, in the order in which they open"
                )
            ends[parent] = span.end

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """For each element the index of the one that it is directly in, or -1."""
        parents, around = [], list[int]()
        for i, span in enumerate(self.spans):
            while around and not _is_in(span, self.spans[around[-1]], len(around)):
                around.pop()
            parents.append(around[-1] if around else -1)
            around.append(i)
        return tuple(parents)

    def render(self, escape: Callable[[str], str] = str) -> str:
        """The document: the text between the elements after `escape`, the markup as it is."""
        parts, around, at = list[str](), list[Span](), 0
        for span, parent in zip((*self.spans, None), (*self.parents, -1), strict=True):
            while around and (span is None or around[-1] is not (self.spans[parent] if parent >= 0 else None)):
                parts += [escape(self.text[at : around[-1].end]), around[-1].closing]
                at = around.pop().end
            if span is not None:
                parts += [escape(self.text[at : span.begin]), span.opening]
                at = span.begin
                around.append(span)
        return "".join([*parts, escape(self.text[at:])])


def with_depths(text: str, spans: Sequence[Span], parents: Sequence[int]) -> AnnotatedText:
    """The text with these elements; those that their place alone would put into another parent get a depth."""
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    placed, around = [], list[Span]()
    for span, depth in zip(spans, depths, strict=True):
        n = len(around)
        while n and not _is_in(span._replace(depth=None), around[n - 1], n):
            n -= 1
        placed.append(span if span.depth is None and n == depth else span._replace(depth=depth))
        around = [*around[:depth], span]
    return AnnotatedText(text, tuple(placed))


def _is_in(span: Span, around: Span, depth: int) -> bool:
    """Whether an element is within another, which has `depth` - 1 elements around it and opens before."""
    if span.depth is not None:
        return depth <= span.depth
    return span.begin < around.end and span.end <= around.end
