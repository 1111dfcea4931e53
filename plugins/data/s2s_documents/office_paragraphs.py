"""Where the paragraphs of Word and PowerPoint begin and end, and what in them is a run, a wrapper, or a boundary."""

from __future__ import annotations

__all__ = ["office_parts"]

from itertools import takewhile
from typing import TYPE_CHECKING

from s2s_documents.markup_tokens import element_ends, xml_tokens
from s2s_documents.office_flow import PROOFING, VISIBLE, Paragraph
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence, Set

    from s2s_documents.markup_tokens import MarkupToken
    from s2s_documents.template import TemplatePart

WRAPPERS = ("hyperlink", "ins", "moveTo", "smartTag")
"""Elements around runs that a sentence continues through"""
KEPT_CONTROLS = ("checkbox", "comboBox", "dataBinding", "date", "dropDownList", "picture")
"""Properties of a content control whose text is a choice, or comes from elsewhere"""


def office_parts(source: str, prefix: str) -> Iterator[TemplatePart]:
    """The parts of a document's part, such as word/document.xml."""
    tokens = list(xml_tokens(source))
    ends, with_paragraphs = element_ends(tokens), _with_paragraphs(tokens, f"{prefix}:p")
    at = i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.name != f"{prefix}:p" or token.kind != "start":
            i += 1
            continue
        yield "".join(each.raw for each in tokens[at : i + 1])
        i = at = yield from _paragraph(tokens, ends, with_paragraphs, i + 1, prefix)
    yield "".join(token.raw for token in tokens[at:])


def _with_paragraphs(tokens: Sequence[MarkupToken], name: str) -> set[int]:
    """Indices of the tokens of paragraphs, and of the opening tags around these."""
    around, marked = list[int](), set[int]()
    for i, token in enumerate(tokens):
        if token.name == name:
            for outer in takewhile(lambda outer: outer not in marked, reversed(around)):
                marked.add(outer)
            marked.add(i)
        if token.kind == "start":
            around.append(i)
        elif token.kind == "end":
            around.pop()
    return marked


def _paragraph(
    tokens: Sequence[MarkupToken], ends: Sequence[int], with_paragraphs: Set[int], i: int, prefix: str
) -> Generator[TemplatePart, None, int]:
    """The parts of a paragraph whose opening tag ends before token i; returns the index of its closing tag.

    What has paragraphs inside of it, such as a text box, is a boundary.
    """
    around, paragraph, name = list[Paragraph](), Paragraph(prefix), f"{prefix}:p"
    while True:
        token, local, end = tokens[i], tokens[i].local, ends[i]
        if token.name == name and token.kind == "end":
            yield from paragraph.finish()
            if not around:
                return i
            yield token.raw
            paragraph, i = around.pop(), i + 1
            continue
        if (token.kind == "end" and local not in (*WRAPPERS, "sdtContent")) or i in with_paragraphs:
            yield from paragraph.finish()
            yield token.raw
            if token.name == name and token.kind == "start":
                around.append(paragraph)
                paragraph = Paragraph(prefix)
            i += 1
            continue
        if local == "r" and token.kind == "start":
            paragraph.add_run(tokens[i:end])
        elif local == "sdt" and (behind := _control_header(tokens, i, end)):
            end = behind
            header = "".join(each.raw for each in tokens[i:end])
            paragraph.pieces.append(Token(Kind.OPEN, header, name=local))
        elif local == "sdtContent":
            end = next(n for n in range(i, len(tokens)) if tokens[n].local == "sdt") + 1
            footer = "".join(each.raw for each in tokens[i:end])
            paragraph.pieces.append(Token(Kind.CLOSE, footer, name="sdt"))
        elif local in WRAPPERS and token.kind != "empty":
            end = i + 1
            paragraph.pieces.append(Token(Kind.CLOSE if token.kind == "end" else Kind.OPEN, token.raw, name=local))
        else:
            raw = "".join(each.raw for each in tokens[i:end])
            is_mark = local in PROOFING or not local
            paragraph.pieces.append(Token(Kind.TEXT if is_mark else Kind.ALONE, raw, " " * (local in VISIBLE)))
        paragraph.raw += "".join(each.raw for each in tokens[i:end])
        i = end


def _control_header(tokens: Sequence[MarkupToken], i: int, end: int) -> int:
    """The index behind what a content control has before its content; 0 for a control that is kept."""
    for n in range(i, end):
        if tokens[n].local in KEPT_CONTROLS:
            return 0
        if tokens[n].local == "sdtContent":
            return n + 1 if tokens[n].kind == "start" else 0
    return 0
