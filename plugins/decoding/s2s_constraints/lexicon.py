"""Terms from pairs of sentences: words and the translations that are most associated with them."""

from __future__ import annotations

__all__ = ["associated_terms"]

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from s2s_constraints.glossary import Term
from s2s_constraints.term_forms import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_PAIRS = 50_000
"""More pairs, of which counts need the memory, change few terms"""
LEAST_COUNT = 3
MOST_SHARE = 0.1
"""Share of the sentences in which a word of the grammar is, rather than a term"""
LEAST_DICE = 0.3


def associated_terms(pairs: Iterable[tuple[str, str]]) -> list[Term]:
    """Each word with the one of which it is the best translation, too, by Dice's coefficient of their sentences.

    2 * n(source, target) / (n(source) + n(target)); words that are equally good for one another are none.
    """
    sample = [(_words(src, folded=True), _words(tgt)) for src, tgt in _sample(pairs)]
    n_src, n_tgt = (_counted(side, len(sample)) for side in zip(*sample, strict=True)) if sample else ({}, {})
    n_both = Counter(one for src, tgt in sample for one in product(src & n_src.keys(), tgt & n_tgt.keys()))
    dice = {(s, t): 2 * n / (n_src[s] + n_tgt[t]) for (s, t), n in n_both.items() if n >= LEAST_COUNT}
    best = _best(dice), _best({(t, s): value for (s, t), value in dice.items()})
    return [Term(s, (t,)) for s, t in sorted(best[0].items()) if best[1].get(t) == s and dice[s, t] >= LEAST_DICE]


def _sample(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """All pairs, or every second, fourth, … of more than MOST_PAIRS."""
    sample, stride = list[tuple[str, str]](), 1
    for n, pair in enumerate(pairs):
        if n % stride == 0:
            sample.append(pair)
        if len(sample) > MOST_PAIRS:
            del sample[1::2]
            stride *= 2
    return sample


def _words(text: str, *, folded: bool = False) -> set[str]:
    """The words with letters."""
    spelt = (folded_word if folded else text[begin:end] for begin, end, folded_word in words(text))
    return {word for word in spelt if any(map(str.isalpha, word))}


def _counted(sentences: Iterable[set[str]], n: int) -> dict[str, int]:
    """In how many of n sentences a word is, of words that are neither rare nor everywhere."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return {word: count for word, count in counts.items() if LEAST_COUNT <= count <= max(MOST_SHARE * n, LEAST_COUNT)}


def _best(dice: Mapping[tuple[str, str], float]) -> dict[str, str]:
    """The second word that is best for each first one, unless several are."""
    found: dict[str, tuple[float, str]] = {}
    for (word, other), value in dice.items():
        before, _ = found.get(word, (0.0, ""))
        if value >= before:
            found[word] = value, other if value > before else ""
    return {word: other for word, (_, other) in found.items() if other}
