"""Which of the kept parts of a text belong together as brackets, quotes and tags do."""

from __future__ import annotations

__all__ = ["pairs"]

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRS = re.findall(
    r"\S+",
    "() [] {} <> «» »« ‹› ›‹ “” „“ „” ”” ‘’ ‚‘ ‚’ \"\" '' `` `' 「」 『』 【】 《》 〈〉 〔〕 （） ［］ ｛｝ ** __ ~~",
)
CLOSED_BY = {opening: frozenset(pair[1] for pair in PAIRS if pair[0] == opening) for opening, _ in PAIRS}
TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^<>]*(?<!/)>")
DEPTH = 16
"""Nested pairs within which the partner of a closing part is looked for"""


class _Delimiter(NamedTuple):
    """A part that may open or close a pair."""

    begin: int
    end: int
    name: str
    closing: frozenset[str]
    """Names of what closes it"""


def pairs(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of indices of places: opening and closing, with a text between them, properly nested."""
    found, opened = list[tuple[int, int]](), list[tuple[int, _Delimiter]]()
    for n, (begin, end) in enumerate(places):
        one = _delimiter(text, begin, end)
        if one is None:
            continue
        is_symmetric = one.name in one.closing
        before, after = text[begin - 1 : begin] if begin else "", text[end : end + 1]
        partner = next((k for k in range(1, min(len(opened), DEPTH) + 1) if _closes(one, opened[-k][1])), 0)
        if partner and not (is_symmetric and before.isspace()):
            found.append((opened[-partner][0], n))
            del opened[-partner:]
        elif one.closing and not (is_symmetric and (before.isalnum() or not after.strip())):
            opened.append((n, one))
    return found


def _delimiter(text: str, begin: int, end: int) -> _Delimiter | None:
    """The part at a place, if it may be one of a pair."""
    import html  # which few texts need

    part = html.unescape(text[begin:end])
    if match := TAG.fullmatch(part):
        is_closing, name = match.groups()
        return _Delimiter(begin, end, f"{is_closing}{name}", frozenset() if is_closing else frozenset((f"/{name}",)))
    return _Delimiter(begin, end, part, CLOSED_BY.get(part, frozenset())) if len(part) == 1 else None


def _closes(one: _Delimiter, opening: _Delimiter) -> bool:
    return one.name in opening.closing and opening.end < one.begin
