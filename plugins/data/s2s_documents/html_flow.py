"""What the elements of HTML are in a flow of text, and what in it is translated."""

from __future__ import annotations

__all__ = ["html_elements", "html_flow"]

from collections import defaultdict
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

from s2s_documents.markup_tokens import element_names
from s2s_documents.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s_documents.markup_tokens import MarkupToken

BLOCKS = element_names(
    """address article aside base blockquote body button caption center colgroup datalist dd details dialog dir div dl
    dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li
    listing main menu meter nav noscript ol optgroup option p plaintext pre progress search section select slot summary
    table tbody td tfoot th thead title tr ul"""
)
"""Elements that no sentence continues across; all others are inline, be they unknown"""
VOID = element_names("area base br col embed frame hr img input link meta param source track wbr")
ATOMS = element_names("audio canvas iframe math noembed noframes object script style svg template textarea video xmp")
"""Elements that are kept with all that is inside of them, and stand alone within a sentence"""
INVISIBLE = element_names("area col link meta noembed noframes param script source style template track wbr")
"""Void elements and atoms that separate no words"""
KEPT = ("code", "kbd", "listing", "plaintext", "pre", "samp", "tt", "var")
ENDS = {
    **dict.fromkeys(("li",), ("li",)),
    **dict.fromkeys(("dt", "dd"), ("dt", "dd")),
    **dict.fromkeys(("option", "optgroup"), ("option",)),
    **dict.fromkeys(("td", "th"), ("td", "th")),
    "tr": ("td", "th", "tr"),
    **dict.fromkeys(("tbody", "tfoot", "thead"), ("td", "th", "tr", "tbody", "thead", "tfoot")),
}
"""An element that begins -> elements that it ends"""
CONTAINERS = {"table", "ul", "ol", "dl", "select"}
"""Elements out of which it ends none"""


def html_flow(markup: Iterable[MarkupToken]) -> Iterator[Token]:
    """Text, inline tags, and boundaries."""
    return _paragraphs(html_elements(markup))


def html_elements(markup: Iterable[MarkupToken]) -> Iterator[Token]:
    """The same, each tag by itself."""
    return _Flow(markup).tokens()


class _Element(NamedTuple):
    """An element that is open, as far as the source says."""

    name: str
    """Empty: it has ended within another one"""
    translated: bool


class _Elements:
    """The elements that are open, the innermost last."""

    def __init__(self) -> None:
        self.stack = [_Element("text", True)]
        self.blocks = ["text"]
        """Names of those that are blocks"""
        self.places: dict[str, list[int]] = defaultdict(list)
        """Where in the stack those of a name are"""

    def add(self, element: _Element) -> None:
        """Open an element."""
        self.places[element.name].append(len(self.stack))
        self.stack.append(element)
        self.blocks += [element.name] * (element.name in BLOCKS)

    def last(self, name: str) -> int:
        """The place of the innermost one of this name; 0: there is none."""
        places = self.places[name]
        return places[-1] if places else 0

    def end_from(self, place: int) -> None:
        """End an element with all inside it."""
        while len(self.stack) > place or not self.stack[-1].name:
            element = self.stack.pop()
            if element.name:
                self.places[element.name].pop()
            if element.name in BLOCKS:
                self.blocks.pop()

    def end_one(self, place: int) -> None:
        """End an element, but none that is open inside it."""
        self.places[self.stack[place].name].pop()
        self.stack[place] = _Element("", True)
        self.end_from(len(self.stack))


class _Flow:
    """The elements that are open along the source."""

    def __init__(self, markup: Iterable[MarkupToken]) -> None:
        self.markup = iter(markup)
        self.open = _Elements()

    def tokens(self) -> Iterator[Token]:
        for token in self.markup:
            match token.kind:
                case "start":
                    yield self._start(token)
                case "empty":
                    kind = Kind.OUTSIDE if token.name in BLOCKS else Kind.ALONE
                    kept = not self._is_translated(token)
                    yield Token(kind, token.raw, _separator(token.name), token.name, kept)
                case "end":
                    yield self._end(token)
                case "comment":
                    yield Token(Kind.ALONE, token.raw)
                case "reference":
                    yield self._reference(token)
                case "text":
                    yield self._text(token)

    @property
    def around(self) -> _Element:
        """The innermost element."""
        return self.open.stack[-1]

    def _reference(self, token: MarkupToken) -> Token:
        """An entity that the document itself defines is kept."""
        text = unescape(token.raw)
        is_defined_elsewhere = text == token.raw and text.endswith(";")
        return Token(Kind.TEXT, token.raw, text, kept=is_defined_elsewhere or not self.around.translated)

    def _text(self, token: MarkupToken) -> Token:
        text = unescape(token.raw) if self.around.name == "title" else token.raw
        return Token(Kind.TEXT, token.raw, text, kept=not self.around.translated)

    def _start(self, token: MarkupToken) -> Token:
        name, separator, translated = token.name, _separator(token.name), self._is_translated(token)
        if name in VOID and name not in BLOCKS:
            return Token(Kind.ALONE, token.raw, separator, name, not translated)
        if name in ATOMS:
            return Token(Kind.ALONE, token.raw + self._rest_of_atom(name), separator, name, not translated)
        if token.has_slash and name not in BLOCKS:
            return Token(Kind.ALONE, token.raw, "", name, not translated)
        if name in BLOCKS:
            self._end_implied(name)
            translated = self._is_translated(token)
        if name not in VOID:
            self.open.add(_Element(name, translated))
        kind = Kind.OUTSIDE if name in BLOCKS else Kind.OPEN
        return Token(kind, token.raw, name=name, kept=not translated)

    def _end(self, token: MarkupToken) -> Token:
        last = self.open.last(token.name)
        if last and token.name in BLOCKS:
            self.open.end_from(last)
        elif last:
            self.open.end_one(last)
        if token.name in BLOCKS:
            return Token(Kind.OUTSIDE, token.raw, name=self.open.blocks[-1])
        return Token(Kind.CLOSE, token.raw, name=token.name)

    def _rest_of_atom(self, name: str) -> str:
        """All up to the tag that ends it."""
        raw, depth = "", 1
        for token in self.markup:
            raw += token.raw
            if token.name == name:
                depth += {"start": 1, "end": -1}.get(token.kind, 0)
            if not depth:
                break
        return raw

    def _is_translated(self, token: MarkupToken) -> bool:
        """Of the text in an element, by its attributes, else its name, else the element around it."""
        translate = token.attribute("translate")
        if translate is not None and translate.lower() in ("yes", "no", ""):
            return translate.lower() != "no"
        if "notranslate" in (token.attribute("class") or "").split() or token.name in KEPT:
            return False
        return self.around.translated

    def _end_implied(self, name: str) -> None:
        """Close what the beginning of a block closes without a tag."""
        for ended in (*ENDS.get(name, ()), "p"):
            last = self.open.last(ended)
            if last and max(map(self.open.last, CONTAINERS)) < last:
                self.open.end_from(last)


def _separator(name: str) -> str:
    """What an element that stands alone is between two words."""
    return "" if name in INVISIBLE or name not in (*VOID, *ATOMS) else " "


def _paragraphs(tokens: Iterator[Token]) -> Iterator[Token]:
    """Two line breaks in a row, with white space alone between them, end a block."""
    waiting: list[Token] = []
    n_breaks = 0
    for token in tokens:
        if token.name == "br" and token.kind is Kind.ALONE:
            n_breaks += 1
        elif not (waiting and token.kind is Kind.TEXT and not token.text.strip()):
            yield from _breaks(waiting, n_breaks)
            yield token
            waiting, n_breaks = [], 0
            continue
        waiting.append(token)
    yield from _breaks(waiting, n_breaks)


def _breaks(waiting: list[Token], n_breaks: int) -> Iterator[Token]:
    if n_breaks > 1:
        yield Token(Kind.OUTSIDE, "".join(token.raw for token in waiting))
    else:
        yield from waiting
