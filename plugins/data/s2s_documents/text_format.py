"""Plain text."""

from __future__ import annotations

__all__ = ["TextFormat"]

from typing import TYPE_CHECKING

from s2s.text import AnnotatedText, Block, DocumentFormat
from s2s_documents.encodings import decode
from s2s_documents.template import Slot, Template

if TYPE_CHECKING:
    from s2s import Choice
    from s2s.text import Document


class TextFormat(DocumentFormat):
    """Plain text: a line is a block."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        text, encode = decode(data)
        return Template((part for line in text.splitlines(keepends=True) for part in _line_parts(line)), encode)


def _line_parts(line: str) -> list[str | Slot]:
    """What is before the text of a line, the text, and what is behind it."""
    inner = line.strip("\ufeff \t\r\n\f\v\x1c\x1d\x1e\x85\u2028\u2029")
    if not any(map(str.isalpha, inner)):
        return [line]
    before, _, after = line.partition(inner)
    return [before, Slot(Block(AnnotatedText(inner), "line"), inner, lambda output: output.text), after]
