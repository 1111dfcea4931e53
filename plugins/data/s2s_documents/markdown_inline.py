"""Where the inline elements of Markdown are: markdown-it-py gives their order, not their places.

Every rule of its parser for inline text is wrapped, so that each token that it adds has the part of the text that it
was read from.
"""

from __future__ import annotations

__all__ = ["Place", "inline_places", "with_places"]

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

PLACE = "place"
"""Key of a token's own data: begin and end"""


class Place(NamedTuple):
    """A part of an inline text that is more than text."""

    begin: int
    end: int
    type: str
    """As markdown-it-py names it"""
    content: str


def with_places(parser: MarkdownIt) -> MarkdownIt:
    """The parser, whose inline tokens have places from now on."""
    for rule in parser.inline.ruler.__rules__:
        parser.inline.ruler.at(rule.name, _placing(rule.name, rule.fn), {"alt": rule.alt})
    parser.inline.ruler2.disable("fragments_join")
    parser.core.ruler.disable("text_join")
    return parser


def _placing(name: str, rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    def placed(state: StateInline, silent: bool) -> bool:
        begin, n_tokens, is_waiting = state.pos, len(state.tokens), bool(state.pending)
        matched = rule(state, silent)
        if matched and not silent and len(state.tokens) > n_tokens:
            new = state.tokens[n_tokens:]
            _place(new[is_waiting and new[0].type == "text" :], name, begin, state)
        return matched

    return placed


def _place(tokens: Sequence[Token], name: str, begin: int, state: StateInline) -> None:
    """Note where tokens were read from, up to the position of the state."""
    if name == "link":
        label_end = state.md.helpers.parseLinkLabel(state, begin, True)
        tokens[0].meta[PLACE], tokens[-1].meta[PLACE] = (begin, begin + 1), (label_end, state.pos)
        return
    is_marks = name in ("emphasis", "strikethrough")
    for token in tokens:
        token.meta[PLACE] = (begin, begin + len(token.content) if is_marks else state.pos)
        begin += len(token.content) * is_marks


def inline_places(tokens: Sequence[Token]) -> Iterator[Place]:
    """The places of all tokens but text, in order: an autolink as one, as are both marks of strong emphasis."""
    n_emptied = 0
    previous: Place | None = None
    for token in tokens:
        begin, end = token.meta.get(PLACE, (0, 0))
        if begin == end or (token.type == "text" and token.content and token.info != "auto"):
            continue
        place = Place(begin, end, token.type, token.content)
        if token.type == "text" and previous and previous.type == "strong_close" and previous.end == begin:
            previous = previous._replace(end=end)
            continue
        if token.type == "text":
            n_emptied = 1
            continue
        if previous and previous.begin == begin:
            continue
        if previous:
            yield previous
        previous = place._replace(begin=begin - n_emptied)
        n_emptied = 0
    if previous:
        yield previous
