"""Words and n-grams of texts as people write them, and how many of them outputs share with their references."""

from __future__ import annotations

__all__ = ["count_ngrams", "f1", "matched_ngrams", "matches_by_bucket", "text_words"]

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import regex

from s2s.text import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

WORD = regex.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+|[^\w\s]")
"""A letter of a script without blanks between words is a word"""
LONGEST = 4
"""Words of the longest n-gram"""

Ngram = tuple[str, ...]


def text_words(text: str) -> list[str]:
    """The words of a text, punctuation marks by themselves."""
    return WORD.findall(text)


def f1(sums: NDArray[np.float64]) -> float:
    """The harmonic mean of precision and recall, in percent: [3] shared, of outputs, of references."""
    shared, n_hyp, n_ref = sums
    return float(200 * shared / (n_hyp + n_ref)) if n_hyp + n_ref else 0.0


def matches_by_bucket(
    hyps: Sequence[str], refs: Sequence[str], bucket_of: Callable[[str], int], n_buckets: int
) -> NDArray[np.float64]:
    """Words of each kind in every sentence, [n_buckets, n, 3]: shared by output and reference, and those of each."""
    counts = np.zeros((n_buckets, len(hyps), 3))
    for i, (hyp, ref) in enumerate(zip(hyps, refs, strict=True)):
        of_hyp, of_ref = Counter(text_words(hyp)), Counter(text_words(ref))
        for column, words in enumerate((of_hyp & of_ref, of_hyp, of_ref)):
            for word, n in words.items():
                counts[bucket_of(word), i, column] += n
    return counts


def ngrams(text: str) -> Counter[Ngram]:
    """How often each n-gram of one to `LONGEST` words occurs."""
    words = text_words(text)
    return Counter(tuple(words[i : i + n]) for n in range(1, LONGEST + 1) for i in range(len(words) - n + 1))


def count_ngrams(texts: Iterable[str]) -> Counter[Ngram]:
    """The same in all texts."""
    total: Counter[Ngram] = Counter()
    for text in texts:
        total.update(ngrams(text))
    return total


def matched_ngrams(hyps: Sequence[str], refs: Sequence[str]) -> Counter[Ngram]:
    """How often each n-gram of an output occurs in its reference, too."""
    total: Counter[Ngram] = Counter()
    for hyp, ref in zip(hyps, refs, strict=True):
        total.update(ngrams(hyp) & ngrams(ref))
    return total
