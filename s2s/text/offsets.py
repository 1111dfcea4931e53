"""Where tokens are in a text, in characters."""

from __future__ import annotations

__all__ = ["Offset", "lower_offsets", "moved_links", "offsets_by_prefix", "offsets_by_words", "word_pairs"]

import re
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from s2s.text.annotated import Link

Offset = tuple[int, int]
"""Begin and end of a token, in characters of its text; it may include the blank before a word"""
WORD = re.compile(r"\S+")


def offsets_by_words(text: str, encode: Callable[[Sequence[str]], Sequence[Sequence[int]]]) -> list[Offset]:
    """For each token of a text that of its word between blanks: slow, and right where words are encoded one by one."""
    words = [word.span() for word in WORD.finditer(text)]
    texts = [text[:end] for _, end in words[:-1]]
    whole, *beginnings = encode([text, *texts])
    ends = [len(ids) for ids in beginnings]
    return [words[bisect_right(ends, place)] for place in range(len(whole))] if words else [(0, 0)] * len(whole)


def offsets_by_prefix(texts: Sequence[str]) -> list[Offset]:
    """Those of the tokens of an output, of which the texts of none, one, …, all tokens are given."""
    ends = [_n_common(text, texts[-1]) for text in texts]
    least = list(accumulate(ends[::-1], min))[::-1]  # a later token may still change the end, such as drop a blank
    return list(pairwise(least))


def _n_common(text: str, other: str) -> int:
    """Characters with which both begin."""
    if other.startswith(text):
        return len(text)
    pairs = enumerate(zip(text, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(text), len(other)))


def lower_offsets(text: str, offsets: Iterable[Offset]) -> list[Offset]:
    """Offsets in a text, of those in its lower case, which may be longer."""
    lengths = [len(character.lower()) for character in text]
    if sum(lengths) == len(text):
        return list(offsets)
    index = [i for i, length in enumerate(lengths) for _ in range(length)] + [len(text)]
    return [(index[begin], index[max(end - 1, begin)] + 1 if end > begin else index[begin]) for begin, end in offsets]


def word_pairs(source: str, target: str, links: Iterable[Link]) -> list[tuple[int, int]]:
    """Aligned pairs of source and target word numbers; a token without letters belongs to the next word."""
    links = list(links)
    if not links:
        return []
    src, tgt = ([word.end() for word in WORD.finditer(text)] for text in (source, target))
    pairs = {(bisect_right(src, sb), bisect_right(tgt, tb)) for sb, _, tb, _ in links}
    return sorted({(min(i, len(src) - 1), min(j, len(tgt) - 1)) for i, j in pairs if src and tgt})


def moved_links(links: Iterable[Link], before: str, after: str) -> list[Link]:
    """Links to a text of which words were replaced, of which each is then that of the whole word; none if others."""
    links = list(links)
    if before == after:
        return links
    old, new = ([word.span() for word in WORD.finditer(text)] for text in (before, after))
    if len(old) != len(new):
        return []
    ends = [end for _, end in old]
    return [(sb, se, *new[min(bisect_right(ends, tb), len(new) - 1)]) for sb, se, tb, _ in links if new]
