"""Subtitles: SRT and WebVTT. The lines of a cue are one text, which is wrapped again.

The library `srt` writes a file anew; here all but the text of cues keeps its bytes.
"""

from __future__ import annotations

__all__ = ["SrtFormat", "VttFormat"]

import re
from bisect import bisect_left
from dataclasses import replace
from html import escape, unescape
from typing import TYPE_CHECKING

from s2s.text import DocumentFormat
from s2s_documents.encodings import decode
from s2s_documents.runs import parts
from s2s_documents.template import Template, render_spans
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s import Choice
    from s2s.text import AnnotatedText, Document
    from s2s_documents.template import RawInside, TemplatePart

CUE = re.compile(
    r"^(?:(?!-->)[^\r\n])*+-->[^\r\n]*+(?:\r\n|\n|\r)(?P<text>(?:[^\r\n]++(?:\r\n|\n|\r|\Z))*+)", re.MULTILINE
)
INLINE = re.compile(
    r"""
    (?P<code> \{\\[^{}]*\} | <\d[\d:.]*> )
    | </(?P<end>[A-Za-z]+)> | <(?P<start>[A-Za-z]+)(?:[\s.][^<>]*)?>
    | (?P<reference> &\#?\w+; ) | (?P<line_end> [ \t]*(?:\r\n|\n|\r) ) | [^<&{\r\n]++ | .
    """,
    re.VERBOSE,
)
DIALOGUE = re.compile(r"^(?:\{[^{}]*\}|<[^<>]*>)*[-–—]", re.MULTILINE)
DASH = re.compile(r"[-–—]\s*")
MAX_WIDTH = 42
"""Letters of a line that a translation may have, if those of the source have fewer"""


class SrtFormat(DocumentFormat):
    """SubRip: numbered cues."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        text, encode = decode(data)
        return Template(_parts(text, has_references=False), encode)


class VttFormat(DocumentFormat):
    """WebVTT, whose text has references such as &amp;."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        text, encode = decode(data)
        return Template(_parts(text, has_references=True), encode)


def _parts(source: str, *, has_references: bool) -> Iterator[TemplatePart]:
    at = 0
    for cue in CUE.finditer(source):
        yield source[at : cue.start("text")]
        lines = cue["text"].splitlines(keepends=True)
        # Lines of two speakers are texts of their own.
        for text in lines if len(DIALOGUE.findall(cue["text"])) > 1 else [cue["text"]]:
            yield from parts(_tokens(text, has_references=has_references), _Wrapping(text, has_references), "cue")
        at = cue.end()
    yield source[at:]


def _tokens(text: str, *, has_references: bool) -> Iterator[Token]:
    body, has_text = text.rstrip("\r\n"), False
    for match in INLINE.finditer(body):
        raw = match[0]
        if match["line_end"]:
            yield Token(Kind.TEXT, raw, " ")
        elif match["code"]:
            yield Token(Kind.ALONE, raw)
        elif match["start"] or match["end"]:
            yield Token(Kind.OPEN if match["start"] else Kind.CLOSE, raw, name=match["start"] or match["end"])
        elif match["reference"] and has_references:
            yield Token(Kind.TEXT, raw, unescape(raw))
        else:
            dash = None if has_text else DASH.match(raw)
            if dash:
                yield Token(Kind.ALONE, dash[0])
            has_text, raw = True, raw[dash.end() if dash else 0 :]
            yield Token(Kind.TEXT, raw, raw)
    yield Token(Kind.OUTSIDE, text[len(body) :])


class _Wrapping:
    """Writes a text on as many lines as its source has, or more if they would be too wide."""

    def __init__(self, source: str, has_references: bool) -> None:
        lines = source.splitlines()
        self.n_lines, self.width = len(lines), max(MAX_WIDTH, *map(len, lines), 0)
        self.line_end = (re.findall(r"\r\n|\n|\r", source) or ["\n"])[0]
        self.has_references = has_references

    def __call__(self, text: AnnotatedText, raw_inside: RawInside) -> str:
        wrapped = replace(text, text=_wrapped(text.text, self.n_lines, self.width))
        written = render_spans(
            wrapped, raw_inside, lambda plain: escape(plain, quote=False) if self.has_references else plain
        )
        return written.replace("\n", self.line_end)


def _wrapped(text: str, n_lines: int, width: int) -> str:
    """The text with line ends for some of its blanks, so that lines are nearly equally long."""
    n_lines = max(n_lines, -(-len(text) // width))
    letters, first = list(text), 0
    blanks = [i for i, letter in enumerate(text) if letter == " "]
    for n in range(1, n_lines):
        best = n * len(text) / n_lines
        behind = bisect_left(blanks, best, first)
        nearest = range(max(behind - 1, first), min(behind + 1, len(blanks)))
        if not nearest:
            break
        chosen = min(nearest, key=lambda k: abs(blanks[k] - best))
        letters[blanks[chosen]] = "\n"
        first = chosen + 1
    return "".join(letters)
