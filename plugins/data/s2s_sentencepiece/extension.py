"""Pieces to add to a model: its merges are continued, within words, over the pieces that it makes of another text.

So no piece of its own changes its meaning, and every new one is a sequence of old ones, or a new character.
"""

from __future__ import annotations

__all__ = ["new_pieces"]

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

Pair = tuple[str, str]
BETTER = 1e-3
"""By how much a piece of unigram has a higher log-probability than its parts together, at least"""


def new_pieces(
    kind: str, known: Mapping[str, float], fixed: Set[str], words: Iterable[Sequence[str]], n: int, least: int
) -> list[tuple[str, float]]:
    """At most `n` pieces, each with its score, that occur `least` times in a text, the most frequent first.

    known: the scores of a model's pieces; fixed: those that are never part of another. words: the pieces that it makes
    of each word. Merges of bpe come after all of the model's; a piece of unigram has its log-probability, or a little
    more than its parts together.
    """
    counted = Counter(map(tuple, words))
    total = max(sum(len(word) * count for word, count in counted.items()), 1)
    if kind == "word":
        counted = Counter({("".join(word),): count for word, count in counted.items()})
    counts: Counter[str] = Counter()
    for word, count in counted.items():
        for piece in word:
            counts[piece] += count
    new = {piece: math.log(c / total) for piece, c in counts.most_common() if c >= least and piece not in known}
    if kind in ("bpe", "unigram"):
        scores = {**known, **new}
        for left, right, count in _merges(counted, scores.keys() - fixed, least):
            if len(new) >= n:
                break
            if left + right not in scores:
                score = max(math.log(count / total), scores[left] + scores[right] + BETTER)
                new[left + right] = scores[left + right] = score
    first, lowest = list(new.items())[:n], min(known.values())
    return [(piece, lowest - 1 - i if kind == "bpe" else score) for i, (piece, score) in enumerate(first)]


def _merges(words: Mapping[tuple[str, ...], int], usable: Set[str], least: int) -> Iterator[tuple[str, str, int]]:
    """The most frequent pair of neighbours within words and its count, again and again, each then being one piece."""
    texts, counts = [list(word) for word in words], list(words.values())
    pairs: Counter[Pair] = Counter()
    places = defaultdict[Pair, set[int]](set)

    def count(place: int, sign: int) -> None:
        for pair in pairwise(texts[place]):
            pairs[pair] += sign * counts[place]
            places[pair].add(place)

    for place in range(len(texts)):
        count(place, 1)
    usable = set(usable)
    while pairs:
        pair = max(pairs, key=lambda pair: (pairs[pair], pair))
        n = pairs[pair]
        if n < least:
            return
        if not usable.issuperset(pair):
            del pairs[pair]
            continue
        yield (*pair, n)
        usable.add("".join(pair))
        for place in places.pop(pair):
            count(place, -1)
            texts[place] = _merged(texts[place], pair)
            count(place, 1)
        del pairs[pair]


def _merged(word: Sequence[str], pair: Pair) -> list[str]:
    """The word with each occurrence of the pair, from the left, as one piece."""
    merged: list[str] = []
    for piece in word:
        if merged and (merged[-1], piece) == pair:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
