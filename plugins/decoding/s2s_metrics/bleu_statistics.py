"""The statistics of sacrebleu's BLEU for a whole corpus: the same integers, counted by sorting.

The number of an n-gram is the rank of (number of the n-gram before its last token, last token) among all of a batch;
that of the empty one is its sentence, so that equal numbers are equal n-grams of the same sentence. Shapes:
B sentences, R references, T tokens of all texts, N orders, G different n-grams.
"""

from __future__ import annotations

__all__ = ["bleu_statistics"]

import logging
from collections import defaultdict
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sacrebleu.metrics.bleu import BLEU

    Integers = NDArray[np.int64]

logger = logging.getLogger(__name__)
BATCH = 1024
"""Sentences counted at once: their n-grams fit in the processor's caches"""
TOKENIZED = 100
"""Outputs that end in a period of its own, from which on a warning is logged, as in sacrebleu"""


def bleu_statistics(scorer: BLEU, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Integers:
    """[B, 2 + 2 N]: lengths of the output and of the closest reference, matches and n-grams of the output by order."""
    n_tokenized = sum(hyp.endswith(" .") for hyp in hyps)
    if n_tokenized >= TOKENIZED and not scorer._force:
        logger.warning("%s outputs end in ' .'; BLEU is for text that is not tokenised", f"{n_tokenized:,}")
    scorer.num_refs = len(refs)  # for the signature
    begins = range(0, len(hyps), BATCH)
    return np.concatenate([_count(scorer, [texts[i : i + BATCH] for texts in (hyps, *refs)]) for i in begins])


def _count(scorer: BLEU, texts: Sequence[Sequence[str]]) -> Integers:
    """The same of B sentences; texts [1 + R, B], the outputs first."""
    words = [scorer._preprocess_segment(line).split() for line in chain(*texts)]
    lengths = np.array([len(line) for line in words]).reshape(len(texts), -1)  # [1 + R, B]
    numbers = defaultdict[str, int](count().__next__)
    token = np.array([numbers[word] for line in words for word in line], dtype=np.int64)  # [T]
    orders = np.arange(scorer.max_ngram_order)
    n_grams = np.maximum(lengths[0] - orders[:, None], 0)  # [N, B]
    matches = _matches(token, lengths, len(orders), len(numbers))
    return np.vstack([lengths[0], _closest(lengths), matches, n_grams]).T


def _closest(lengths: Integers) -> Integers:
    """Of the references' lengths, the closest to that of the output; of two such, the smaller. [1 + R, B] -> [B]"""
    refs = np.sort(lengths[1:], axis=0)
    return np.take_along_axis(refs, np.abs(refs - lengths[0]).argmin(0)[None], axis=0)[0]


def _matches(token: Integers, lengths: Integers, n_orders: int, n_tokens: int) -> Integers:
    """[N, B], n-grams of outputs that references have, each at most as often as the reference with most of it."""
    n_texts, B = lengths.shape
    text = np.repeat(np.arange(lengths.size), lengths.ravel())  # [T]
    left = lengths.cumsum()[text] - np.arange(len(token))  # [T], tokens of the text from here on
    begin, gram, found = np.arange(len(token)), text % B, np.zeros((n_orders, B), dtype=np.int64)
    for order in range(n_orders):
        inside = left[begin] > order
        begin, gram = begin[inside], gram[inside]
        kinds, gram = np.unique(gram * n_tokens + token[begin + order], return_inverse=True)
        counts = np.bincount(text[begin] // B * len(kinds) + gram, minlength=n_texts * len(kinds))
        counts = counts.reshape(n_texts, -1)  # [1 + R, G]
        sentence = np.empty(len(kinds), dtype=np.int64)
        sentence[gram] = text[begin] % B
        found[order] = np.bincount(sentence, weights=np.minimum(counts[0], counts[1:].max(0)), minlength=B)
    return found
