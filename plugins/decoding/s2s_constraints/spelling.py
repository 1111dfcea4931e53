"""The texts of tokens, and the tokens that can spell a text."""

from __future__ import annotations

__all__ = ["Spelling"]

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from s2s_constraints.symbols import context, is_complete, joins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

N_KEPT = 10_000
"""Texts whose next tokens are kept"""
LAST = "\U0010ffff"


class Spelling:
    """The symbols of every token of a vocabulary."""

    def __init__(self, texts: Sequence[str], *, tokenwise: bool = False) -> None:
        """Texts by token; empty: the token spells nothing, as special ones do. tokenwise: symbols are tokens."""
        self.texts, self.tokenwise = texts, tokenwise
        self.longest = max(map(len, texts), default=0)
        self._sorted = sorted((text, i) for i, text in enumerate(texts) if text)
        self._ids: dict[str, list[int]] = {}
        for text, i in self._sorted:
            self._ids.setdefault(text, []).append(i)
        self._continuing: dict[str, list[int]] = {}

    @classmethod
    def tokens(cls, n: int) -> Spelling:
        """Of n tokens that are one symbol each."""
        return cls([chr(i) for i in range(n)], tokenwise=True)

    @cached_property
    def beginning_outside(self) -> list[int]:
        """The tokens whose first character continues no word."""
        first = ((i, text.encode("latin-1").decode(errors="ignore")[:1]) for text, i in self._sorted if text)
        return [i for i, character in first if character and not joins("a", character)]

    def continuing(self, rest: str) -> list[int]:
        """The tokens that begin with `rest`, or begin it and leave what further tokens can spell; none: no tokens can.

        The last word of `rest` is open: the token that completes it may go on.
        """
        if rest not in self._continuing:
            if len(self._continuing) > N_KEPT:
                self._continuing.clear()
            self._fill(rest)
        return self._continuing[rest]

    def _fill(self, rest: str) -> None:
        """Find the tokens for every end of `rest`, the shortest first: a token is possible if what it leaves is."""
        for begin in reversed(range(len(rest))):
            end = rest[begin:]
            lengths = range(1, min(self.longest, len(end) - 1) + 1)
            within = (self._ids[end[:n]] for n in lengths if end[:n] in self._ids and self.continuing(end[n:]))
            self._continuing[end] = [*(i for ids in within for i in ids), *self._beginning_with(end)]

    def _beginning_with(self, text: str) -> list[int]:
        return _with_prefix(self._sorted, text)

    @cached_property
    def contexts(self) -> list[str | None]:
        """The `context` that each token leaves; None: it has a part of a character, or spells nothing."""
        if self.tokenwise:
            return [""] * len(self.texts)
        return [context(text) if text and is_complete(text) else None for text in self.texts]

    def touching(self, text: str) -> set[int]:
        """The tokens that contain a text, or end with symbols that begin it."""
        ends = (_with_prefix(self._reversed, text[:n][::-1]) for n in range(1, len(text) + 1))
        return {*self._containing(text), *(i for ids in ends for i in ids)}

    @cached_property
    def _reversed(self) -> list[tuple[str, int]]:
        return sorted((text[::-1], i) for i, text in enumerate(self.texts) if text)

    def _containing(self, text: str) -> Iterator[int]:
        joined, ends = self._joined
        at = joined.find(text)
        while at >= 0:
            yield bisect_right(ends, at)
            at = joined.find(text, at + 1)

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All texts in one, each with a symbol of no text behind it, and where each ends."""
        return "".join(f"{text}{LAST}" for text in self.texts), list(accumulate(len(text) + 1 for text in self.texts))


def _with_prefix(texts: Sequence[tuple[str, int]], prefix: str) -> list[int]:
    """The tokens whose texts begin so, of sorted texts."""
    first = bisect_left(texts, (prefix, -1))
    return [i for _, i in texts[first : bisect_left(texts, (prefix + LAST, -1), lo=first)]]
