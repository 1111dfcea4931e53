"""The words of tokens, from where these are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def word_numbers(text: str, offsets: Sequence[tuple[int, int] | None]) -> list[int | None]:
    """For each token the number of the word in which it begins; one that begins between two belongs to the next."""
    n_words = len(text.split())
    return [None if one is None else max(min(_number(text, one[0]), n_words - 1), 0) for one in offsets]


def _number(text: str, begin: int) -> int:
    is_within = begin > 0 and not text[begin - 1].isspace() and not text[begin : begin + 1].isspace()
    return len(text[:begin].split()) - (is_within and begin < len(text))
