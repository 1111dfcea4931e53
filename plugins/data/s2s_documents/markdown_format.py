"""Markdown: CommonMark with tables and strikethrough."""

from __future__ import annotations

__all__ = ["MarkdownFormat"]

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from s2s.text import DocumentFormat
from s2s_documents.encodings import decode
from s2s_documents.libraries import library
from s2s_documents.markdown_flow import MarkdownWriter, inline_flow
from s2s_documents.markdown_inline import with_places
from s2s_documents.markup_formats import html_parts
from s2s_documents.runs import parts
from s2s_documents.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt

    from s2s import Choice
    from s2s.text import Document
    from s2s_documents.template import TemplatePart

FRONT_MATTER = re.compile(r"\ufeff?(?:(---|\+\+\+)[ \t]*\r?\n.*?\n(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z))?", re.DOTALL)
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")


class MarkdownFormat(DocumentFormat):
    """Markdown, which is translated but for code, front matter, targets of links, and texts of images."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        parser = with_places(library("markdown_it", "markdown-it-py").MarkdownIt("commonmark"))
        parser.enable(["table", "strikethrough"])
        text, encode = decode(data)
        matter = FRONT_MATTER.match(text)
        begin = matter.end() if matter else 0
        return Template([text[:begin], *self._parts(parser, text[begin:])], encode)

    def _parts(self, parser: MarkdownIt, source: str) -> Iterator[TemplatePart]:
        lines = LINE.findall(source)
        starts = [0, *accumulate(map(len, lines))]
        at, kind, references = 0, "p", dict[str, Any]()
        for block in parser.parse(source, references):
            first, last = block.map or (0, 0)
            kind = block.tag if block.nesting == 1 else kind
            if block.type == "html_block" and block.level == 0:
                yield source[at : starts[first]]
                yield from html_parts(source[starts[first] : starts[last]])
                at = starts[last]
            elif block.type == "inline" and block.content:
                is_cell = kind in ("td", "th")
                places = _places(block.content, first, lines, starts, max(at, starts[first]) if is_cell else None)
                if not places:
                    continue
                yield source[at : places[0]]
                write = MarkdownWriter(block, lambda text: parser.parseInline(text, references), is_cell=is_cell)
                yield from parts(inline_flow(block, source, places), write, kind)
                at = places[-1]
        yield source[at:]


def _places(content: str, first: int, lines: list[str], starts: list[int], cells_from: int | None) -> list[int]:
    """The place in the source of each letter of an inline text, and of its end; none if it stands otherwise there.

    first: the line in which it begins; cells_from: in a table, where it may begin at the earliest.
    """
    places: list[int] = []
    for number, line in enumerate(content.split("\n"), first):
        written = line if cells_from is None else line.replace("|", "\\|")
        start = starts[number]
        column = lines[number].rfind(line) if cells_from is None else lines[number].find(written, cells_from - start)
        if column < 0:
            return []
        widths = (1 + (letter == "|" and cells_from is not None) for letter in line)
        places += accumulate(widths, initial=start + column)
    return places
