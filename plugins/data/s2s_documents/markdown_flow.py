"""Inline Markdown as a flow of text and tags, and texts as Markdown."""

from __future__ import annotations

__all__ = ["MarkdownWriter", "inline_flow"]

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s_documents.html_flow import VOID
from s2s_documents.markdown_inline import Place, inline_places
from s2s_documents.markup_tokens import html_tokens
from s2s_documents.template import render_spans
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from markdown_it.token import Token as BlockToken

    from s2s.text import AnnotatedText, Span
    from s2s_documents.template import RawInside

TASK = re.compile(r"\[[ xX]\](?=\s)")
NO_TEXT = re.compile(
    r"""(\[\^[^\]\s]+\]  # the number of a footnote
    | \{[:\#.][^{}\n]*\} | \[![A-Za-z]+\][+-]?  # attributes; the kind of a quotation
    | \{\{[^{}\n]*\}\} | \{%[^\n]*?%\})  # templates""",
    re.VERBOSE,
)
FORMULA = re.compile(r"\$\$[^$]+\$\$|(?<![\w$\\])\$(?=[^\s$])[^$\n]*(?<=[^\s\\])\$(?![\w$])")
STANDS_ALONE = ("[", "{:", "{#", "{.")
"""How that begins which is no word of its sentence"""
NO_TEXT_LINES = re.compile(
    r"""^ (?: :{3,}.*$\n? | [!?]{3}\+?[ \t]+\w.*$\n?  # directives, with their titles
    | \$\$[ \t]*$ [^$]* ^\$\$[ \t]*$\n?  # mathematics
    | \[\^[^\]\s]+\]:[ \t]* | :[ \t]+ )  # what begins a footnote or a definition""",
    re.VERBOSE | re.MULTILINE,
)
SPECIAL = re.compile(
    r"""\\(?=[!-/:-@\[-`{-~]) | [`\[] | \*(?=\S) | (?<=\S)\* | (?<!\w)_(?=\S) | (?<=\S)_(?!\w) | ~(?=~)
    | <(?=[A-Za-z/!?]) | &(?=\#?\w+;)""",
    re.VERBOSE,
)
AT_BEGIN = re.compile(r"(?:[-+>](?=\s)|\#{1,6}(?=\s)|=+$|-+$)|\d{1,9}(?=[.)]\s)")

TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
"""The tag of HTML that means the same as a mark"""
MARKED = re.compile(r"(\*\*|__|~~|\*|_)(.*)\1", re.DOTALL)


def inline_flow(block: BlockToken, source: str, places: Sequence[int]) -> Iterator[Token]:
    """The tokens of an inline text. places: in the source, of each of its letters and of its end."""
    content, at, label_begin, no_text_end = block.content, 0, 0, 0
    if task := TASK.match(content):
        at = task.end()
        yield Token(Kind.ALONE, source[places[0] : places[at]])
    for place in _with_lines(inline_places(block.children or []), content):
        begin = place.begin
        while place.type == "hardbreak" and begin > at and content[begin - 1] == " ":
            begin -= 1
        if place.begin < no_text_end or (place.type == "formula" and place.begin < at):
            continue
        no_text_end = place.end if place.type in ("no_text", "formula") else 0
        yield from _text(content[at:begin], source[places[at] : places[begin]])
        raw = source[places[begin] : places[place.end]]
        if place.type == "link_open":
            label_begin = place.end
        if place.type == "link_close" and raw in ("]", "][]"):
            yield Token(Kind.CLOSE, raw, name="link", tag=f"][{content[label_begin:begin]}]")
        else:
            yield from _tokens(place, raw)
        at = place.end
    yield from _text(content[at:], source[places[at] : places[-1]])


def _with_lines(places: Iterable[Place], content: str) -> Iterator[Place]:
    """The places, and before those in them, the lines that are no text, and formulas."""
    lines = (Place(*one.span(), "no_text", "") for one in NO_TEXT_LINES.finditer(content))
    formulas = (Place(*one.span(), "formula", one[0]) for one in FORMULA.finditer(content))
    return iter(sorted([*lines, *formulas, *places], key=lambda place: (place.begin, -place.end)))


def _text(text: str, raw: str) -> Iterator[Token]:
    """Text, in which references to footnotes stand alone, and templates are kept."""
    if not NO_TEXT.search(text):
        yield from [Token(Kind.TEXT, raw, text)] * bool(text)
        return
    split = zip(NO_TEXT.split(text), NO_TEXT.split(raw), strict=True)  # they differ in \\| of cells alone
    for i, (part, raw_part) in enumerate(split):
        if i % 2 and (part.startswith(STANDS_ALONE) and not part.startswith("{{")):
            yield Token(Kind.ALONE, raw_part)
        else:
            yield Token(Kind.TEXT, raw_part, part, kept=i % 2 == 1)


def _tokens(place: Place, raw: str) -> Iterator[Token]:
    match place.type:
        case "no_text":
            yield Token(Kind.OUTSIDE, raw)
        case "softbreak":
            yield Token(Kind.TEXT, raw, " ")
        case "hardbreak" | "image":
            yield Token(Kind.ALONE, raw, " ")
        case "code_inline" | "formula":
            yield Token(Kind.TEXT, raw, place.content, kept=True)
        case "text_special":
            yield Token(Kind.TEXT, raw, place.content)
        case "html_inline":
            yield _html(raw)
        case "link_open" if len(raw) > 1:  # an autolink
            yield Token(Kind.TEXT, raw, raw[1:-1], kept=True)
        case _:
            name, _, side = place.type.rpartition("_")
            yield Token(Kind.OPEN if side == "open" else Kind.CLOSE, raw, name=name)


def _html(raw: str) -> Token:
    token = next(html_tokens(raw))
    if token.raw != raw:  # to HTML, it ends earlier
        return Token(Kind.ALONE, raw)
    is_tag = token.kind in ("start", "end") and token.name not in VOID and not token.has_slash
    kind = (Kind.OPEN if token.kind == "start" else Kind.CLOSE) if is_tag else Kind.ALONE
    return Token(kind, raw, "" if is_tag else " " * (token.name == "br"), name=token.name)


class MarkdownWriter:
    """Writes the texts of a block, with a backslash before letters that would be marks."""

    def __init__(self, block: BlockToken, parse: Callable[[str], Iterable[BlockToken]], *, is_cell: bool) -> None:
        """parse: the blocks of an inline text."""
        self.n_elements, self.parse, self.is_cell = _n_elements([block]), parse, is_cell

    def __call__(self, text: AnnotatedText, raw_inside: RawInside) -> str:
        """The text; with tags of HTML instead of marks where words beside them would make these text, too."""
        written = self._written(text, raw_inside)
        if _n_elements(self.parse(written)) != self.n_elements:
            written = self._written(replace(text, spans=tuple(map(_with_tags, text.spans))), raw_inside)
        return written.replace("|", "\\|").replace("\\\\|", "\\|") if self.is_cell else written

    def _written(self, text: AnnotatedText, raw_inside: RawInside) -> str:
        written = render_spans(text, raw_inside, lambda plain: SPECIAL.sub(r"\\\g<0>", plain))
        mark = AT_BEGIN.match(written)
        if not mark:
            return written
        at = mark.end() if mark[0].isdecimal() else 0
        return f"{written[:at]}\\{written[at:]}"


def _n_elements(blocks: Iterable[BlockToken]) -> Counter[str]:
    """How often each kind of inline element is there."""
    children = (child.type for block in blocks for child in block.children or [])
    return Counter(kind for kind in children if kind not in ("text", "text_special", "softbreak", "hardbreak"))


def _with_tags(span: Span) -> Span:
    tag = TAGS.get(span.opening)
    if tag and span.closing == span.opening:
        return span._replace(opening=f"<{tag}>", closing=f"</{tag}>")
    return span if span.closing else span._replace(opening=_tags_around(span.opening))


def _tags_around(markup: str) -> str:
    """What stands alone, such as an image in emphasis."""
    match = MARKED.fullmatch(markup)
    return f"<{TAGS[match[1]]}>{_tags_around(match[2])}</{TAGS[match[1]]}>" if match else markup
