"""From encoded corpora to batches: which pairs, in which order, together with whom.

The order is a pure function of (seed, epoch). Nothing the size of a corpus is ever shuffled or kept: a keyed
permutation says which pair stands at a position, and a pool of positions at a time is sorted by length and cut
into batches. So the whole state of the data is two integers, (epoch, next batch), for any number of processes.

Rows number the pairs of all corpora one after the other.
"""

from __future__ import annotations

__all__ = ["POOL", "Batches", "Pair", "Permutation", "in_order"]

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from s2s.data.lazy_batch import LazyBatch

Sentence = Sequence[int] | NDArray[Any]
Pair = tuple[Sentence, Sentence]
"""Source and target ids, without bos and eos"""
Rows = NDArray[np.int64]

POOL = 400_000
"""Pairs that are sorted by length together. Of batches of 25,000 symbols from a large corpus, pools of 100,000 fill
87%, these 94%, all pairs sorted at once 99% (benchmarks/data.py); they are drawn in a tenth of a second"""
N_ROUNDS = 4
"""Rounds of a Feistel network from which it passes for a random permutation (Luby and Rackoff, 1988)"""


class Lengths(Protocol):
    """What batching needs to know of a corpus; `s2s.data.mapped_corpus.MappedCorpus` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Pair: ...

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Source and target lengths of rows [n] -> [n], [n], without eos."""
        ...


class Permutation:
    """A bijection of [0, n) chosen by a key, computed position by position: no list is kept.

    A Feistel network permutes the next power of four; whoever lands outside [0, n) walks on until inside.
    """

    def __init__(self, n: int, *key: int) -> None:
        self.n = n
        self.half = np.uint64(max((max(n - 1, 1).bit_length() + 1) // 2, 1))
        self.low = np.uint64((1 << int(self.half)) - 1)
        seed = np.zeros(1, dtype=np.uint64)
        for part in key:
            seed = _mix(seed ^ np.uint64(part & 0xFFFF_FFFF_FFFF_FFFF))
        rounds = np.arange(1, N_ROUNDS + 1, dtype=np.uint64)
        self.round_keys = _mix(seed + rounds)

    def __call__(self, positions: Rows) -> Rows:
        """[m] distinct positions in [0, n) -> [m] distinct places in [0, n)."""
        places = self._feistel(positions.astype(np.uint64))
        outside = np.flatnonzero(places >= self.n)
        while len(outside):
            places[outside] = self._feistel(places[outside])
            outside = outside[places[outside] >= self.n]
        return places.astype(np.int64)

    def _feistel(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = x >> self.half, x & self.low
        for key in self.round_keys:
            left, right = right, left ^ (_mix(right ^ key) & self.low)
        return (left << self.half) | right


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every input bit over all output bits (the finaliser of SplitMix64, Steele et al., 2014)."""
    x = x + np.uint64(0x9E37_79B9_7F4A_7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))


class Batches:
    """All epochs of weighted corpora as batches of at most `tokens` symbols on each side, padding and eos counted.

    A corpus of weight w gives each of its pairs w times per epoch: 2 twice, 0.5 in every other epoch. A pair
    longer than `tokens` is a batch of its own. With `most_pairs` no places are padding, a batch has at most so many
    pairs, and they are of all lengths.
    """

    def __init__(
        self,
        corpora: Sequence[tuple[Lengths, float]],
        tokens: int,
        seed: int,
        pool: int = POOL,
        most_pairs: int | None = None,
    ) -> None:
        self.corpora = [corpus for corpus, _ in corpora]
        self.weights = [Fraction(str(weight)) for _, weight in corpora]  # 0.1 means a tenth, not the float near it
        self.first = np.cumsum([0, *map(len, self.corpora)])
        self.tokens = tokens
        self.seed = seed
        self.pool = pool
        self.most_pairs = most_pairs

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Rows]:
        """The rows of each batch of an epoch, from batch `start` on."""
        n = sum(self._share(corpus, epoch)[1] for corpus in range(len(self.corpora)))
        order = Permutation(n, self.seed, epoch)
        for number, begin in enumerate(range(0, n, self.pool)):
            rows = self.rows(epoch, order(np.arange(begin, min(begin + self.pool, n))))
            batches = self._cut(rows)
            if start >= len(batches):
                start -= len(batches)
                continue
            shuffled = Permutation(len(batches), self.seed, epoch, number + 1)(np.arange(len(batches)))
            for index in shuffled[start:]:
                yield batches[index]
            start = 0

    def onwards(self, epoch: int, start: int) -> Iterator[tuple[int, int, LazyBatch]]:
        """All batches from batch `start` of an epoch on, without end: epoch, number in it, pairs."""
        while True:
            for number, rows in enumerate(self.epoch(epoch, start), start):
                yield epoch, number, LazyBatch(rows, self.lengths(rows), self.pairs)
            epoch, start = epoch + 1, 0

    def rows(self, epoch: int, positions: Rows) -> Rows:
        """The pairs at positions of an epoch, before any sorting: [m] -> [m]."""
        rows = np.empty_like(positions)
        begin = 0
        for corpus, first in enumerate(self.first[:-1]):
            drawn, count = self._share(corpus, epoch)
            here = (positions >= begin) & (positions < begin + count)
            rows[here] = first + self._draw(corpus, drawn + positions[here] - begin)
            begin += count
        return rows

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Source and target lengths, eos counted: [m] -> [m], [m]."""
        src, tgt = np.empty_like(rows), np.empty_like(rows)
        for corpus, first, last in zip(self.corpora, self.first, self.first[1:], strict=False):
            here = (rows >= first) & (rows < last)
            src[here], tgt[here] = corpus.lengths(rows[here] - first)
        return src + 1, tgt + 1

    def pairs(self, rows: Rows) -> list[Pair]:
        """The pairs themselves."""
        owners = np.searchsorted(self.first, rows, side="right") - 1
        places = rows - self.first[owners]
        return [self.corpora[c][r] for c, r in zip(owners.tolist(), places.tolist(), strict=True)]

    def _share(self, corpus: int, epoch: int) -> tuple[int, int]:
        """How many pairs of a corpus were drawn before an epoch, and how many are drawn in it."""
        per_epoch = self.weights[corpus] * len(self.corpora[corpus])
        before, after = int(epoch * per_epoch), int((epoch + 1) * per_epoch)
        return before, after - before

    def _draw(self, corpus: int, numbers: Rows) -> Rows:
        """A corpus is drawn in passes, each of which takes every pair once: draw number [m] -> pair [m]."""
        size = len(self.corpora[corpus])
        if self.weights[corpus].denominator == 1:  # an epoch takes whole passes, and is itself permuted
            return numbers % size
        places, passes = numbers % size, numbers // size
        for number in np.unique(passes):
            here = passes == number
            places[here] = Permutation(size, self.seed, corpus + 1, int(number), size)(places[here])
        return places

    def _cut(self, rows: Rows) -> list[Rows]:
        """A pool in batches, sorted by length where that saves padding; else pairs stay in the order drawn."""
        src, tgt = self.lengths(rows)
        if self.most_pairs:
            return np.split(rows, _cut_full(src, tgt, self.tokens, self.most_pairs))
        by_length = _by_length(src, tgt)
        bounds = _cut(src[by_length], tgt[by_length], self.tokens)
        return np.split(rows[by_length], bounds)


def _by_length(src: Rows, tgt: Rows) -> Rows:
    """The order of pairs by target length, then by source length, up and down in turn; ties stay as they are.

    A batch that spans two target lengths then meets like sources on both sides of the border: 2 to 5% less padding
    than always upwards.
    """
    return np.lexsort((np.where(tgt % 2 == 0, src, -src), tgt))


def _cut(src: Rows, tgt: Rows, tokens: int) -> list[int]:
    """Where to cut pairs in the order of their target lengths so that each batch, padded, keeps the budget."""
    bounds, begin = [], 0
    while begin < len(src):
        most = max(tokens // int(tgt[begin]), 1)
        widest = np.maximum(np.maximum.accumulate(src[begin : begin + most]), tgt[begin : begin + most])
        padded = widest * np.arange(1, len(widest) + 1)
        begin += max(int(np.searchsorted(padded, tokens, side="right")), 1)
        bounds.append(begin)
    return bounds[:-1]


def _cut_full(src: Rows, tgt: Rows, tokens: int, most_pairs: int) -> list[int]:
    """Where to cut pairs so that no batch holds more than `tokens` symbols on a side, and each is as full as can be."""
    bounds, begin = [], 0
    ends = [np.cumsum(src), np.cumsum(tgt)]
    before = [0, 0]
    while begin < len(src):
        fits = min(int(np.searchsorted(e, b + tokens, side="right")) for e, b in zip(ends, before, strict=True))
        begin = min(max(fits, begin + 1), begin + most_pairs)
        before = [int(e[begin - 1]) for e in ends]
        bounds.append(begin)
    return bounds[:-1]


def in_order(corpus: Lengths, tokens: int) -> Iterator[list[Pair]]:
    """A corpus once, the shortest pairs first, in batches as in training: for validation."""
    src, tgt = (lengths + 1 for lengths in corpus.lengths(np.arange(len(corpus))))
    by_length = _by_length(src, tgt)
    for rows in np.split(by_length, _cut(src[by_length], tgt[by_length], tokens)):
        yield [corpus[int(row)] for row in rows]
