"""Documents, a translator without a model, and what a translated document must keep."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from s2s.registry import Choice
from s2s.text.annotated import AnnotatedText, Link
from s2s.text.projection import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.text import DocumentFormat


def words(source: AnnotatedText) -> list[tuple[int, int]]:
    """Begin and end of each word of a text; one that is kept is a word, with what is attached to it."""
    bounds: list[tuple[int, int]] = []
    kept = [(span.begin, span.end) for span in source.spans if span.keep]
    for match in re.finditer(r"\S+", source.text):
        begin, end = match.span()
        if bounds and any(b < bounds[-1][1] and begin < e for b, e in kept):
            begin, _ = bounds.pop()
        bounds.append((begin, end))
    return bounds


def capitals(source: AnnotatedText, begin: int, end: int) -> str:
    """A word in capitals, but for what is kept."""
    is_kept = [any(span.keep and span.begin <= i < span.end for span in source.spans) for i in range(begin, end)]
    letters = zip(source.text[begin:end], is_kept, strict=True)
    return "".join(letter if kept or len(letter.upper()) > 1 else letter.upper() for letter, kept in letters)


def translation(source: AnnotatedText, *, backwards: bool) -> tuple[str, list[Link]]:
    """The words in capitals, in the reverse order if `backwards`, and each of them with its own in the source."""
    text, links, previous = "", list[Link](), 0
    for begin, end in reversed(words(source)) if backwards else words(source):
        text += " " * bool(text) if backwards else source.text[previous:begin]
        cuts = sorted({begin, end, *(cut for span in source.spans for cut in span[:2] if begin < cut < end)})
        links += [(b, e, len(text) + b - begin, len(text) + e - begin) for b, e in itertools.pairwise(cuts)]
        text += capitals(source, begin, end)
        previous = end
    return text, links


def translated(source: AnnotatedText, *, backwards: bool = True) -> AnnotatedText:
    """A translation with the tags of its source."""
    return project(source, *translation(source, backwards=backwards))


def render(format_type: type[DocumentFormat], data: str | bytes, *, backwards: bool = False) -> str:
    """A translated document; that of its sources must be the document itself."""
    raw = data.encode() if isinstance(data, str) else data
    document = format_type(Choice()).read(raw)  # type: ignore[call-arg]
    sources = [block.source for block in document.blocks]
    assert document.render(sources) == raw
    return document.render([translated(source, backwards=backwards) for source in sources]).decode()


def texts(format_type: type[DocumentFormat], data: str | bytes) -> list[str]:
    """Those of the blocks."""
    raw = data.encode() if isinstance(data, str) else data
    return [block.source.text for block in format_type(Choice()).read(raw).blocks]  # type: ignore[call-arg]


class Tags(HTMLParser):
    """The tags, comments and text of a page, as the standard library reads them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"</{tag}>")

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(self.get_starttag_text() or "")

    def handle_comment(self, data: str) -> None:
        self.tags.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.tags.append(f"<!{decl}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def counts(self) -> Counter[str]:
        """How often each tag is there."""
        return Counter(self.tags)
