"""What the elements of XML are in a flow of text, of vocabularies that s2s does not have."""

from __future__ import annotations

__all__ = ["is_html", "xml_flow"]

from html import unescape
from typing import TYPE_CHECKING

from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_documents.markup_tokens import MarkupToken

KEPT = ("script", "style", "metadata")
"""Elements whose text is not for readers, as in SVG"""
REFERENCES = ("&lt;", "&gt;", "&amp;", "&quot;", "&apos;")


def is_html(tokens: Sequence[MarkupToken]) -> bool:
    """Whether the document is XHTML."""
    root = next(token for token in tokens if token.kind in ("start", "empty"))
    return root.name == "html" or root.attribute("xmlns") == "http://www.w3.org/1999/xhtml"


def xml_flow(tokens: Sequence[MarkupToken]) -> Iterator[Token]:
    """Text, inline tags, and boundaries: an element is inline if text stands beside it, or an inline one around it."""
    has_text = _elements_with_text(tokens)
    inline, translated, names = [False], [True], ["text"]
    for i, token in enumerate(tokens):
        match token.kind:
            case "start":
                names.append(token.name)
                translated.append(_is_translated(token, around=translated[-1]))
                kind = Kind.OPEN if inline[-1] else Kind.OUTSIDE
                inline.append(inline[-1] or i in has_text)
                yield Token(kind, token.raw, name=token.name, kept=not translated[-1])
            case "end":
                inline.pop(), translated.pop(), names.pop()
                kind = Kind.CLOSE if inline[-1] else Kind.OUTSIDE
                yield Token(kind, token.raw, name=token.name if kind is Kind.CLOSE else names[-1])
            case "empty":
                yield Token(Kind.ALONE if inline[-1] else Kind.OUTSIDE, token.raw, name=names[-1])
            case "comment":
                yield Token(Kind.ALONE, token.raw)
            case "text":
                yield Token(Kind.TEXT, token.raw, token.raw, kept=not translated[-1])
            case "reference":
                is_known = token.raw in REFERENCES or token.raw.startswith("&#")
                text = unescape(token.raw) if is_known else token.raw
                yield Token(Kind.TEXT, token.raw, text, kept=not (is_known and translated[-1]))


def _elements_with_text(tokens: Sequence[MarkupToken]) -> set[int]:
    """Indices of the opening tags of elements that have text of their own."""
    open_elements, with_text = [-1], set()
    for i, token in enumerate(tokens):
        if token.kind == "start":
            open_elements.append(i)
        elif token.kind == "end":
            open_elements.pop()
        elif token.kind == "reference" or (token.kind == "text" and token.raw.strip()):
            with_text.add(open_elements[-1])
    return with_text


def _is_translated(token: MarkupToken, *, around: bool) -> bool:
    """Of the text in an element: as HTML and ITS say in an attribute, else as around it."""
    says = token.attribute("its:translate") or token.attribute("translate")
    if says in ("yes", "no"):
        return says == "yes"
    return around and token.name.rpartition(":")[2] not in KEPT
