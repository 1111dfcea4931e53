"""The order of the data: which pairs make each batch of an epoch.

The order is a pure function of (seed, epoch). Nothing of the size of a corpus is shuffled or stored: a keyed
permutation maps each position of an epoch to a pair, and one pool of positions at a time is sorted by length and cut
into batches. So the state of the data is two integers, (epoch, next batch), for any number of processes.

A row is the index of a pair in the concatenation of all corpora.
"""

from __future__ import annotations

__all__ = ["POOL", "Batches", "Permutation", "validation_batches"]

from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from s2s.data.lazy_batch import LazyBatch
from s2s.data.mixing import key_of, mix, seeds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.data.pairs import Pair, Rows

POOL = 400_000
"""Pairs that are sorted by length together. Batches of 25,000 tokens from a large corpus are 87% full with pools of
100,000, 94% with these, 99% with all pairs sorted at once (benchmarks/data.py); a pool takes a tenth of a second"""
VARIED_POOL = 50_000
"""The same if more than as many would be re-encoded, which must be done before they can be sorted: 5 s of one thread"""
N_ROUNDS = 4
"""Rounds after which a Feistel network is a pseudorandom permutation (Luby and Rackoff, 1988)"""


class EncodedCorpus(Protocol):
    """Pairs of ids with their lengths; `s2s.data.mapped_corpus.MappedCorpus` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Pair: ...

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Source and target lengths of rows [n] -> [n], [n], without eos."""


class Permutation:
    """A bijection of [0, n) chosen by a key and computed per position: nothing of size n is stored.

    A Feistel network permutes the next power of four; results outside [0, n) are permuted again (cycle walking).
    """

    def __init__(self, n: int, *key: int) -> None:
        self.n = n
        self.half = np.uint64(max(((n - 1).bit_length() + 1) // 2, 1))
        self.low = np.uint64((1 << int(self.half)) - 1)
        rounds = np.arange(1, N_ROUNDS + 1, dtype=np.uint64)
        self.round_keys = mix(key_of(*key) + rounds)

    def __call__(self, positions: Rows) -> Rows:
        """Distinct positions [m] in [0, n) -> distinct images [m] in [0, n)."""
        images = self._feistel(positions.astype(np.uint64))
        outside = np.flatnonzero(images >= self.n)
        while len(outside):
            images[outside] = self._feistel(images[outside])
            outside = outside[images[outside] >= self.n]
        return images.astype(np.int64)

    def _feistel(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = x >> self.half, x & self.low
        for key in self.round_keys:
            left, right = right, left ^ (mix(right ^ key) & self.low)
        return (left << self.half) | right


class _Varied:
    """The pairs at some rows in one epoch, those of `seeds` re-encoded."""

    def __init__(self, batches: Batches, rows: Rows, seeds: list[int], vary: Callable[[Pair, int], Pair]) -> None:
        """rows [m] and seeds: of the pairs to re-encode, in ascending order."""
        self._batches = batches
        pairs = batches.pairs(rows)
        self._pairs = {row: vary(pair, seed) for row, pair, seed in zip(rows.tolist(), pairs, seeds, strict=True)}
        self._rows = rows
        self._lengths = [np.array([len(pair[side]) for pair in self._pairs.values()], np.int64) for side in (0, 1)]

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """As `Batches.lengths`."""
        src, tgt = self._batches.lengths(rows)
        at = np.searchsorted(self._rows, rows)
        here = np.isin(rows, self._rows, assume_unique=False)
        for lengths, varied in zip((src, tgt), self._lengths, strict=True):
            lengths[here] = varied[at[here]] + 1
        return src, tgt

    def pairs(self, rows: Rows) -> list[Pair]:
        """As `Batches.pairs`."""
        others = [row for row in rows.tolist() if row not in self._pairs]
        read = dict(zip(others, self._batches.pairs(np.array(others, np.int64)), strict=True))
        return [self._pairs[row] if row in self._pairs else read[row] for row in rows.tolist()]


class Batches:
    """All epochs of weighted corpora as batches of at most `tokens` tokens on each side, padding and eos included.

    Each pair of a corpus of weight w is seen w times per epoch: 2 is twice, 0.5 every other epoch. A pair longer than
    `tokens` is a batch of its own. With `max_pairs`, batches are for packing: not sorted by length, without padding, of
    at most that many pairs. `vary` re-encodes a pair: a function of the pair and of a seed of 64 bits that is derived
    from (seed, epoch, row). It is called for a share of the pairs, those with the smallest seeds.
    """

    def __init__(
        self,
        corpora: Sequence[tuple[EncodedCorpus, float]],
        tokens: int,
        seed: int,
        pool: int | None = None,
        max_pairs: int | None = None,
        vary: Callable[[Pair, int], Pair] | None = None,
        share: float = 1.0,
    ) -> None:
        self.corpora = [corpus for corpus, _ in corpora]
        self.weights = [Fraction(str(weight)) for _, weight in corpora]  # 0.1 is a tenth, not the nearest float
        self.first = np.cumsum([0, *map(len, self.corpora)])
        self.tokens = tokens
        self.seed = seed
        self.pool = pool or (VARIED_POOL if vary and share * POOL > VARIED_POOL else POOL)
        self.max_pairs = max_pairs
        self.vary, self.share = vary, share

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Rows]:
        """The rows of each batch of an epoch, from batch `start` on."""
        return (rows for rows, _ in self._epoch(epoch, start))

    def _epoch(self, epoch: int, start: int) -> Iterator[tuple[Rows, Batches | _Varied]]:
        """The rows of each batch, and the source of their lengths and pairs."""
        n = sum(self._share(corpus, epoch)[1] for corpus in range(len(self.corpora)))
        order = Permutation(n, self.seed, epoch)
        for number, begin in enumerate(range(0, n, self.pool)):
            rows = self.rows(epoch, order(np.arange(begin, min(begin + self.pool, n))))
            pool = self._varied(epoch, rows) if self.vary else self
            batches = self._cut(rows, *pool.lengths(rows))
            shuffled = Permutation(len(batches), self.seed, epoch, number + 1)(np.arange(len(batches)))
            for index in shuffled[start:]:
                yield batches[index], pool
            start = max(start - len(batches), 0)

    def iterate_from(self, epoch: int, start: int) -> Iterator[tuple[int, int, LazyBatch]]:
        """All batches from batch `start` of an epoch on, endlessly: epoch, number in the epoch, pairs."""
        while True:
            for number, (rows, pool) in enumerate(self._epoch(epoch, start), start):
                yield epoch, number, LazyBatch(rows, pool.lengths(rows), pool.pairs)
            epoch, start = epoch + 1, 0

    def rows(self, epoch: int, positions: Rows) -> Rows:
        """The rows at positions of an epoch before sorting: [m] -> [m]."""
        rows = np.empty_like(positions)
        begin = 0
        for corpus, first in enumerate(self.first[:-1]):
            sample, count = self._share(corpus, epoch)
            here = (positions >= begin) & (positions < begin + count)
            rows[here] = first + self._draw(corpus, sample + positions[here] - begin)
            begin += count
        return rows

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Source and target lengths, eos included: [m] -> [m], [m]."""
        src, tgt = np.empty_like(rows), np.empty_like(rows)
        for corpus, first, last in zip(self.corpora, self.first, self.first[1:], strict=False):
            here = (rows >= first) & (rows < last)
            src[here], tgt[here] = corpus.lengths(rows[here] - first)
        return src + 1, tgt + 1

    def pairs(self, rows: Rows) -> list[Pair]:
        """The pairs at rows."""
        owners = np.searchsorted(self.first, rows, side="right") - 1
        indices = rows - self.first[owners]
        return [self.corpora[c][i] for c, i in zip(owners.tolist(), indices.tolist(), strict=True)]

    def _share(self, corpus: int, epoch: int) -> tuple[int, int]:
        """The number of pairs of a corpus drawn before an epoch, and in it."""
        per_epoch = self.weights[corpus] * len(self.corpora[corpus])
        before, after = int(epoch * per_epoch), int((epoch + 1) * per_epoch)
        return before, after - before

    def _draw(self, corpus: int, numbers: Rows) -> Rows:
        """Draw numbers [m] -> indices of pairs [m]. Each pass over a corpus draws every pair once."""
        size = len(self.corpora[corpus])
        if self.weights[corpus].denominator == 1:  # an epoch is whole passes and is itself permuted
            return numbers % size
        indices, passes = numbers % size, numbers // size
        for number in np.unique(passes):
            here = passes == number
            indices[here] = Permutation(size, self.seed, corpus + 1, int(number), size)(indices[here])
        return indices

    def _varied(self, epoch: int, rows: Rows) -> _Varied:
        assert self.vary
        rows = np.unique(rows)  # a corpus of weight 2 has each twice
        seeds = seeds_of(rows, self.seed, epoch)
        if self.share < 1:
            chosen = seeds < np.uint64(self.share * 2**64)
            rows, seeds = rows[chosen], seeds[chosen]
        return _Varied(self, rows, seeds.tolist(), self.vary)

    def _cut(self, rows: Rows, src: Rows, tgt: Rows) -> list[Rows]:
        """Cut a pool into batches, sorted by length to save padding; batches for packing keep the drawn order."""
        if self.max_pairs:
            return np.split(rows, _cut_packed(src, tgt, self.tokens, self.max_pairs))
        by_length = _by_length(src, tgt)
        bounds = _cut(src[by_length], tgt[by_length], self.tokens)
        return np.split(rows[by_length], bounds)


def _by_length(src: Rows, tgt: Rows) -> Rows:
    """Argsort by target length, then by source length, alternately ascending and descending; stable.

    A batch that spans two target lengths then has similar source lengths at the border: 2 to 5% less padding than with
    ascending order alone.
    """
    return np.lexsort((np.where(tgt % 2 == 0, src, -src), tgt))


def _cut(src: Rows, tgt: Rows, tokens: int) -> list[int]:
    """Indices at which to cut pairs, sorted by target length, so that each padded batch has at most `tokens` tokens."""
    bounds, begin = [], 0
    while begin < len(src):
        most = tokens // int(tgt[begin])  # targets only grow
        widest = np.maximum(np.maximum.accumulate(src[begin : begin + most]), tgt[begin : begin + most])
        padded = widest * np.arange(1, len(widest) + 1)
        begin += max(int(np.searchsorted(padded, tokens, side="right")), 1)
        bounds.append(begin)
    return bounds[:-1]


def _cut_packed(src: Rows, tgt: Rows, tokens: int, max_pairs: int) -> list[int]:
    """Indices at which to cut pairs so that each batch is as full as possible with `tokens` tokens on either side."""
    bounds, begin = [], 0
    ends = [np.cumsum(src), np.cumsum(tgt)]
    before = [0, 0]
    while begin < len(src):
        fits = min(int(np.searchsorted(e, b + tokens, side="right")) for e, b in zip(ends, before, strict=True))
        begin = min(max(fits, begin + 1), begin + max_pairs)
        before = [int(e[begin - 1]) for e in ends]
        bounds.append(begin)
    return bounds[:-1]


def validation_batches(corpus: EncodedCorpus, tokens: int) -> Iterator[list[Pair]]:
    """One pass over a corpus for validation, the shortest pairs first, in batches as in training."""
    src, tgt = (lengths + 1 for lengths in corpus.lengths(np.arange(len(corpus))))
    by_length = _by_length(src, tgt)
    for rows in np.split(by_length, _cut(src[by_length], tgt[by_length], tokens)):
        yield [corpus[int(row)] for row in rows]
