"""Paragraphs of Word and PowerPoint as a flow: the format of most of the text is that of text without a tag, another
one is a tag around its words.

Runs of equal format are joined, and what a run has beside text becomes a run of its own.
"""

from __future__ import annotations

__all__ = ["PROOFING", "VISIBLE", "OfficeWriter", "Paragraph"]

import re
from collections import Counter
from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING

from s2s_documents.markup_tokens import element_end
from s2s_documents.runs import parts
from s2s_documents.template import walk
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.text import AnnotatedText
    from s2s_documents.markup_tokens import MarkupToken
    from s2s_documents.template import RawInside, TemplatePart

PROOFING = ("proofErr", "lastRenderedPageBreak")
"""Marks of the text as it was, which a translation drops"""
VISIBLE = ("br", "cr", "tab", "fld", "ptab")
TRANSLATED_FIELDS = ("HYPERLINK", "TOC")
"""Fields whose results are text of the author; others are numbers, dates, and names"""
IRRELEVANT = re.compile(r'\s(?:lang|altLang|dirty|err|smtClean)="[^"]*"|<w:(?:lang|noProof)\b[^>]*/>')
"""What of a format no reader sees"""


@dataclass
class _Text:
    """Text of one format."""

    properties: str
    """The element rPr, or nothing"""
    text: str

    @property
    def key(self) -> str:
        """Equal for formats that look alike."""
        return IRRELEVANT.sub("", self.properties)


@dataclass(frozen=True)
class OfficeWriter:
    """Writes the texts of one paragraph."""

    prefix: str
    """w in Word, a in PowerPoint"""
    properties: str
    """The format of text without a tag"""

    @property
    def opening(self) -> str:
        """A run up to its text."""
        space = ' xml:space="preserve"' if self.prefix == "w" else ""
        return f"<{self.prefix}:r>{self.properties}<{self.prefix}:t{space}>"

    @property
    def closing(self) -> str:
        """A run behind its text."""
        return f"</{self.prefix}:t></{self.prefix}:r>"

    def run(self, text: str) -> str:
        """A run of text."""
        return f"{self.opening}{escape(text, quote=False)}{self.closing}" if text else ""

    def __call__(self, text: AnnotatedText, raw_inside: RawInside) -> str:
        """Runs, each in the innermost format around its text."""
        written, formats = list[str](), [self.opening]
        for kind, inside, span in walk(text):
            is_format = span is not None and span.closing == self.closing
            if span is None and inside:
                written += [formats[-1], escape(inside, quote=False), self.closing]
            elif span is not None and kind == "keep":
                raw = raw_inside.get((span.opening, inside.strip())) or self.run(inside)
                written += [span.opening, raw, span.closing]
            elif span is not None and is_format and kind == "open":
                formats.append(span.opening)
            elif is_format:
                formats.pop()
            elif span is not None:
                written.append(span.opening if kind == "open" else span.closing)
        return "".join(written)


class Paragraph:
    """What has been read of a paragraph since its last boundary."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.pieces: list[_Text | Token] = []
        self.raw = ""
        self.header = ""
        """The beginning of a field, up to its result"""
        self.kept_fields: list[bool] = []
        """Of each field that is open, whether its result stays as it is"""

    def add_run(self, run: Sequence[MarkupToken]) -> None:
        """The content of a run, each part in the format of the run."""
        properties, i = "", 1
        while i < len(run) - 1:
            end = element_end(run, i)
            name, raw = run[i].local, "".join(token.raw for token in run[i:end])
            alone = f"<{self.prefix}:r>{properties}{raw}</{self.prefix}:r>"
            if name == "rPr":
                properties = raw
            elif name == "t":
                self._add_text(properties, unescape("".join(token.raw for token in run[i + 1 : end - 1])))
            elif name in ("fldChar", "instrText"):
                self._add_field_part(alone, run[i].attribute(f"{self.prefix}:fldchartype"))
            elif self.header:
                self.header += alone
            elif name and name not in PROOFING:
                self.pieces.append(Token(Kind.ALONE, alone, " " * (name in VISIBLE)))
            i = end

    def _add_text(self, properties: str, text: str) -> None:
        last, piece = self.pieces[-1] if self.pieces else None, _Text(properties, text)
        run = OfficeWriter(self.prefix, properties).run(text)
        if self.header:
            self.header += run
        elif any(self.kept_fields):
            self.pieces.append(Token(Kind.TEXT, run, text, kept=True))
        elif isinstance(last, _Text) and last.key == piece.key:
            last.text += text
        else:
            self.pieces.append(piece)

    def _add_field_part(self, run: str, kind: str | None) -> None:
        """A field is code, then its result: from `begin` to `separate`, and up to `end`."""
        if kind in (None, "begin"):
            self.header += run
            return
        if self.header:
            is_kept = not any(name in self.header for name in TRANSLATED_FIELDS)
            self.pieces.append(Token(Kind.OPEN, self.header + run * (kind == "separate"), name="field", kept=is_kept))
            self.kept_fields.append(is_kept)
            self.header = ""
        if kind == "end":
            self.pieces.append(Token(Kind.CLOSE, run, name="field"))
            self.kept_fields = self.kept_fields[:-1]

    def finish(self) -> Iterator[TemplatePart]:
        """Its parts, as they were if they have no text; begins anew."""
        letters: Counter[str] = Counter()
        for piece in self.pieces:
            if isinstance(piece, _Text):
                letters[piece.properties] += len(piece.text.strip())
        if any(isinstance(piece, _Text) and any(map(str.isalpha, piece.text)) for piece in self.pieces):
            write = OfficeWriter(self.prefix, letters.most_common(1)[0][0])
            yield from parts(_with_formats(self.pieces, write), write, "paragraph")
            yield self.header
        else:
            yield self.raw
        self.pieces, self.raw, self.header = [], "", ""


def _with_formats(pieces: Sequence[_Text | Token], write: OfficeWriter) -> Iterator[Token]:
    base = _Text(write.properties, "").key
    for piece in pieces:
        if isinstance(piece, Token):
            yield piece
        elif piece.key == base:
            yield Token(Kind.TEXT, write.run(piece.text), piece.text)
        else:
            opening = OfficeWriter(write.prefix, piece.properties).opening
            yield Token(Kind.OPEN, opening, name="run")
            yield Token(Kind.TEXT, escape(piece.text, quote=False), piece.text)
            yield Token(Kind.CLOSE, write.closing, name="run")
