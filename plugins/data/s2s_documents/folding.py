"""A run of tokens as an annotated text: white space folded as readers of the document see it, inline tags as spans."""

from __future__ import annotations

__all__ = ["fold"]

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.text import AnnotatedText, Span
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Sequence

WHITE_SPACE = re.compile(r"[ \t\n\r\f]+")
"""What is shown as one blank; a no-break space is none"""


def fold(run: Sequence[Token], *, folds: bool) -> tuple[AnnotatedText, dict[tuple[str, str], str]]:
    """The text of a run whose tags are paired, and (opening, text) of what is kept -> its inside in the document.

    folds: white space is read as one blank.
    """
    folding = _Folding(run, folds)
    for i in range(len(run)):
        folding.add(i)
    text = folding.text.rstrip(" ") if folds else folding.text
    spans = (span._replace(begin=min(span.begin, len(text)), end=min(span.end, len(text))) for span in folding.spans)
    return AnnotatedText(text, tuple(spans)), folding.raw_inside


@dataclass
class _Element:
    """An element that is open."""

    index: int
    """Of its opening tag"""
    begin: int
    """In the text"""
    n_spans: int
    """Before it"""
    has_text: bool = False
    has_letter: bool = False
    has_translated: bool = False
    """Whether some of its text is not kept"""


class _Folding:
    """The text so far, and its spans in the order in which they open."""

    def __init__(self, run: Sequence[Token], folds: bool) -> None:
        self.run, self.folds = run, folds
        self.text = ""
        self.spans: list[Span] = []
        self.raw_inside: dict[tuple[str, str], str] = {}
        self.open = [_Element(-1, 0, 0)]

    def add(self, i: int) -> None:
        token, begin = self.run[i], len(self.text)
        match token.kind:
            case Kind.OPEN:
                self.open.append(_Element(i, begin, len(self.spans)))
            case Kind.CLOSE:
                self._close(self.open.pop(), i)
            case Kind.ALONE:
                self._append(token.text)
                self.spans.append(self._span(len(self.text), token.markup))
            case Kind.TEXT:
                self._append(token.text)
                if token.text.strip():
                    self.open[-1].has_text = True
                    self.open[-1].has_letter |= any(map(str.isalpha, token.text))
                    self.open[-1].has_translated |= not token.kept
                if token.kept:
                    self._keep_text(i, begin)

    def _append(self, text: str) -> None:
        """Add text; if it is folded, a blank only behind a word."""
        if not self.folds:
            self.text += text
            return
        folded = WHITE_SPACE.sub(" ", text)
        if not self.text or self.text.endswith(" "):
            folded = folded.removeprefix(" ")
        if folded.startswith(" "):  # stands before the elements that have just been opened
            for element in reversed(self.open):
                if element.begin < len(self.text) or element.n_spans < len(self.spans) or element.index < 0:
                    break
                element.begin += 1
        self.text += folded

    def _close(self, element: _Element, i: int) -> None:
        self.open[-1].has_text |= element.has_text
        self.open[-1].has_letter |= element.has_letter
        self.open[-1].has_translated |= element.has_translated
        opening, closing = self.run[element.index], self.run[i]
        if not element.has_text:
            tags = (token.markup for token in self.run[element.index : i + 1] if token.kind is not Kind.TEXT)
            self.spans[element.n_spans :] = [self._span(len(self.text), "".join(tags))]
        elif (opening.kept and not element.has_translated) or (opening.name == "sup" and not element.has_letter):
            self.spans[element.n_spans :] = [self._span(element.begin, opening.markup, closing.markup, keep=True)]
            self._note_inside(element.index + 1, i)
        else:
            self.spans.insert(element.n_spans, self._span(element.begin, opening.markup, closing.markup))

    def _span(self, begin: int, opening: str, closing: str = "", *, keep: bool = False) -> Span:
        """A span up to here, without a blank at its end, within the elements that are open."""
        end = len(self.text)
        if closing and self.folds and self.text.endswith(" ") and end - 1 > begin:
            end -= all(span.end < end for span in self.spans[-1:])
        return Span(begin, end, opening, closing, keep, len(self.open) - 1)

    def _keep_text(self, i: int, begin: int) -> None:
        """A span for text that is kept without an element of its own, as far as it goes."""
        first = i
        while first and self.run[first - 1].kind is Kind.TEXT and self.run[first - 1].kept:
            first -= 1
        if first < i and self.spans and self.spans[-1].keep:
            begin = self.spans.pop().begin
        if self.text[begin:].strip():
            self.spans.append(self._span(begin, "", keep=True))
            self._note_inside(first, i + 1)

    def _note_inside(self, begin: int, end: int) -> None:
        """Record how the document writes the inside of the last span."""
        span, raw = self.spans[-1], "".join(token.raw for token in self.run[begin:end])
        self.raw_inside[span.opening, self.text[span.begin : span.end].strip()] = raw.strip()
