"""Messages: their tags, as in HTML, and their placeholders."""

from __future__ import annotations

__all__ = ["message_flow", "write_message"]

import re
from typing import TYPE_CHECKING

from s2s_documents.template import render_spans
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.text import AnnotatedText
    from s2s_documents.template import RawInside

MESSAGE = re.compile(
    r"""
    (?P<kept> %(?:\([\w.]++\)|\d++\$)?[-+\#0]*+(?:[1-9]\d*+|\*)?(?:\.(?:\d++|\*))?
            (?:hh|h|ll|l|q|j|z|t|L)?[diouxXeEfFgGcrsap@%](?!\w)
        | %\{\w+\} | %L?\d{1,2}(?!\w) | \$?\{[\w.:!\#$-]*\} | &\#?\w+; )
    | </(?P<end>[A-Za-z][\w:-]*)\s*>
    | <(?P<start>[A-Za-z][\w:-]*)(?:\s[^<>]*)?(?P<alone>/?)>
    | [^%$&<{]++ | .
    """,
    re.VERBOSE | re.DOTALL,
)
ALONE = ("br", "hr", "img", "input", "wbr")


def message_flow(message: str) -> Iterator[Token]:
    """Text, tags as in HTML, and placeholders such as %s and {name}, which are kept."""
    for match in MESSAGE.finditer(message):
        raw, name = match[0], match["start"] or match["end"] or ""
        if match["kept"]:
            yield Token(Kind.TEXT, raw, raw, kept=True)
        elif match["end"]:
            yield Token(Kind.CLOSE, raw, name=name)
        elif match["start"]:
            is_alone = bool(match["alone"]) or name.lower() in ALONE
            yield Token(Kind.ALONE if is_alone else Kind.OPEN, raw, name=name)
        else:
            yield Token(Kind.TEXT, raw, raw)


def write_message(text: AnnotatedText, raw_inside: RawInside) -> str:
    """The text with its tags."""
    return render_spans(text, raw_inside, str)
