"""The forms in which a term counts as present in an output, and those in which it is required."""

from __future__ import annotations

__all__ = ["form_in", "required_forms", "words"]

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from s2s_constraints.symbols import joins, without_blanks

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_STEM = 5
"""Letters of a word up to which it is its own stem"""
ENDING = 2
"""Last letters that a longer word's stem lacks"""


def form_in(output: str, target: str) -> str | None:
    """The part of an output that is a form of the target; None: there is none.

    A form has as many words in a row as the target, each beginning with the stem of the target's, whatever the case.
    A stem is a word of up to 5 letters, or a longer one without its last 2. In scripts without blanks, and where the
    target has no letters, the target itself may be anywhere.
    """
    stems = [_stem(word) for _, _, word in words(target)]
    if not stems or any(map(without_blanks, target)):
        return target if target.casefold() in output.casefold() else None
    written = words(output)
    for first in range(len(written) - len(stems) + 1):
        some = written[first : first + len(stems)]
        if all(word.startswith(stem) for (_, _, word), stem in zip(some, stems, strict=True)):
            return output[some[0][0] : some[-1][1]]
    return None


def required_forms(target: str, *, any_case: bool) -> list[str]:
    """The target, also with a capital first letter, as where sentences begin; any_case: also with a small one."""
    firsts = [target[0], target[0].upper(), *([target[0].lower()] if any_case else [])]
    return list(dict.fromkeys(first + target[1:] for first in firsts))


def _stem(word: str) -> str:
    return word if len(word) <= LONGEST_STEM else word[:-ENDING]


@lru_cache(maxsize=1000)
def words(text: str) -> tuple[tuple[int, int, str], ...]:
    """Begin, end and case-folded text of each run of characters that belong to words."""
    return tuple(_words(text))


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    begin = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or not joins(text[end - 1], text[end]):
            if joins("a", text[begin]):
                yield begin, end, unicodedata.normalize("NFC", text[begin:end]).casefold()
            begin = end
