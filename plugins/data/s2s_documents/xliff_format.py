"""XLIFF 1.2 and 2: units without a translation, or with one to be made again, get one.

translate-toolkit would write the whole file anew; here all else keeps its bytes.
"""

from __future__ import annotations

__all__ = ["XliffFormat"]

import re
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

from s2s import DataError
from s2s.text import DocumentFormat
from s2s_documents.encodings import decode_xml
from s2s_documents.markup_formats import check_well_formed, write_markup
from s2s_documents.markup_tokens import element_end, xml_tokens
from s2s_documents.runs import parts
from s2s_documents.template import Template
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.text import Document
    from s2s_documents import UnitConfig
    from s2s_documents.markup_tokens import MarkupToken
    from s2s_documents.template import TemplatePart

UNITS = ("trans-unit", "segment")
OUTSIDE_UNITS = ("file", "group", "unit")
UNTRANSLATED = ("new", "needs-translation", "initial")
"""States of a target, or in version 2 of its segment, whose text is no translation yet"""
ATTRIBUTE = re.compile(r"""(?:(\s(state|approved)\s*=\s*)|=\s*)(["'])(?:(?!\3).)*+\3""", re.DOTALL)
NEW_VALUES = {"state": "translated", "approved": "no"}
"""Attributes of a unit or a target that has just been translated"""
NATIVE = ("bpt", "ept", "it", "ph")
"""Elements of version 1.2 whose inside is code"""
PAIRS = {"bpt": Kind.OPEN, "sc": Kind.OPEN, "bx": Kind.OPEN, "ept": Kind.CLOSE, "ec": Kind.CLOSE, "ex": Kind.CLOSE}
"""Elements of which two make a pair"""


class XliffFormat(DocumentFormat):
    """XLIFF, in the encoding that it declares."""

    def __init__(self, config: UnitConfig) -> None:
        self.retranslate = config.retranslate

    def read(self, data: bytes) -> Document:
        text, encode = decode_xml(data)
        check_well_formed(text)
        tokens = list(xml_tokens(text))
        if next(token.local for token in tokens if token.name) != "xliff":
            raise DataError("no XLIFF file: its root is another element")
        return Template(_parts(tokens, retranslate=self.retranslate), encode)


class _Element(NamedTuple):
    """A part of the tokens: from an opening tag up to behind its closing one."""

    begin: int
    end: int


def _parts(tokens: Sequence[MarkupToken], *, retranslate: bool) -> Iterator[TemplatePart]:
    at, translated = 0, [True]
    for i, token in enumerate(tokens):
        if token.local in OUTSIDE_UNITS and token.kind == "end":
            translated.pop()
        elif token.local in (*OUTSIDE_UNITS, *UNITS) and token.kind == "start":
            says = token.attribute("translate")
            is_translated = translated[-1] if says is None else says == "yes"
            if token.local in OUTSIDE_UNITS:
                translated.append(is_translated)
            elif is_translated:
                yield from _raw(tokens[at:i])
                at = element_end(tokens, i)
                yield from _unit(tokens[i:at], retranslate=retranslate)
    yield from _raw(tokens[at:])


def _unit(tokens: Sequence[MarkupToken], *, retranslate: bool) -> Iterator[TemplatePart]:
    """The parts of a unit or a segment."""
    source, target = _child(tokens, "source"), _child(tokens, "target")
    state = tokens[target.begin if target and tokens[0].local == "trans-unit" else 0].attribute("state")
    is_empty = not target or not _has_text(tokens[target.begin : target.end])
    if (
        not source
        or not _has_text(tokens[source.begin : source.end])
        or not (is_empty or retranslate or state in UNTRANSLATED)
    ):
        yield from _raw(tokens)
        return
    inside = list(parts(_flow(tokens[source.begin + 1 : source.end - 1]), write_markup, "unit", folds=False))
    first, name = _marked(tokens[0].raw), tokens[source.begin].name.removesuffix("source") + "target"
    if target:
        yield first + "".join(token.raw for token in tokens[1 : target.begin])
        yield re.sub(r"\s*/>$", ">", _marked(tokens[target.begin].raw))
        yield from inside
        yield f"</{tokens[target.begin].name}>"
        yield from _raw(tokens[target.end :])
    else:
        indent = tokens[source.begin - 1].raw if not tokens[source.begin - 1].raw.strip() else ""
        yield first + "".join(token.raw for token in tokens[1 : source.end]) + f"{indent}<{name}>"
        yield from inside
        yield f"</{name}>"
        yield from _raw(tokens[source.end :])


def _marked(tag: str) -> str:
    """A tag that says that the text is a translation which no one has approved."""
    return ATTRIBUTE.sub(lambda one: f"{one[1]}{one[3]}{NEW_VALUES[one[2]]}{one[3]}" if one[1] else one[0], tag)


def _child(tokens: Sequence[MarkupToken], name: str) -> _Element | None:
    """The first element of this name inside of another one, not within alternatives of a translation memory."""
    i = 1
    while i < len(tokens):
        if tokens[i].local == name:
            return _Element(i, element_end(tokens, i))
        i = element_end(tokens, i) if tokens[i].kind == "start" else i + 1
    return None


def _flow(tokens: Sequence[MarkupToken]) -> Iterator[Token]:
    """The inside of a source; the native code in it stands alone, or in pairs."""
    i, kept = 0, [False]
    while i < len(tokens):
        token, end = tokens[i], i + 1
        if token.local in (*NATIVE, *PAIRS) and token.kind in ("start", "empty"):
            end = element_end(tokens, i)
            raw = "".join(each.raw for each in tokens[i:end])
            names = (token.attribute(name) for name in ("startref", "rid", "id"))
            yield Token(PAIRS.get(token.local, Kind.ALONE), raw, name=f"pair {next(filter(None, names), '')}")
        elif token.kind == "start":
            is_kept = token.attribute("translate") == "no" or token.attribute("mtype") == "protected"
            kept.append(is_kept or kept[-1])
            yield Token(Kind.OPEN, token.raw, name=token.name, kept=kept[-1])
        elif token.kind == "end":
            kept.pop()
            yield Token(Kind.CLOSE, token.raw, name=token.name)
        elif token.kind in ("empty", "comment"):
            yield Token(Kind.ALONE, token.raw)
        else:
            yield Token(Kind.TEXT, token.raw, _text(token), kept=kept[-1])
        i = end


def _has_text(tokens: Sequence[MarkupToken]) -> bool:
    return any(_text(token).strip() for token in tokens)


def _text(token: MarkupToken) -> str:
    if token.kind == "reference":
        return unescape(token.raw)
    return token.raw if token.kind == "text" else ""


def _raw(tokens: Sequence[MarkupToken]) -> Iterator[str]:
    yield "".join(token.raw for token in tokens)
