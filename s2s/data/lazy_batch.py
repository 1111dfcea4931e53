"""A global batch whose pairs are read when they are first used, so that a process reads only its own part.

Lengths are known from the start: they determine how a batch is split among processes.
"""

from __future__ import annotations

__all__ = ["LazyBatch", "pair_lengths", "split"]

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from s2s.data.pairs import Pair, Rows


class LazyBatch(Sequence["Pair"]):
    """The pairs at `rows` [n]; a slice shares the pairs that have been read."""

    def __init__(
        self,
        rows: Rows,
        lengths: tuple[Rows, Rows],
        read: Callable[[Rows], list[Pair]],
        pairs: NDArray[Any] | None = None,
    ) -> None:
        """`lengths`: of source and target, eos included, [n] each; `read`: rows -> their pairs."""
        self.rows, self.lengths, self._read = rows, lengths, read
        self.pairs = np.full(len(rows), None) if pairs is None else pairs
        """[n]; None where a pair has not been read"""

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> LazyBatch: ...
    def __getitem__(self, index: int | slice) -> Pair | LazyBatch:
        if isinstance(index, slice):
            src, tgt = self.lengths
            return LazyBatch(self.rows[index], (src[index], tgt[index]), self._read, self.pairs[index])
        if self.pairs[index] is None:
            self.load()
        pair: Pair = self.pairs[index]
        return pair

    def load(self) -> None:
        """Read all pairs that have not been read."""
        missing = np.flatnonzero([pair is None for pair in self.pairs])
        for index, pair in zip(missing, self._read(self.rows[missing]), strict=True):
            self.pairs[index] = pair


def pair_lengths(pairs: Sequence[Pair]) -> tuple[Rows, Rows]:
    """Source and target length of each pair, eos included: [n], [n]."""
    if isinstance(pairs, LazyBatch):
        return pairs.lengths
    src, tgt = (np.array([len(pair[side]) + 1 for pair in pairs], dtype=np.int64) for side in (0, 1))
    return src, tgt


def split(pairs: Sequence[Pair], n_parts: int) -> list[Sequence[Pair]]:
    """Cut a batch into `n_parts` consecutive parts of nearly equal token counts; some may be empty."""
    ends = np.cumsum(sum(pair_lengths(pairs)))
    total = int(ends[-1]) if len(pairs) else 0
    bounds = [int(np.searchsorted(ends, total * part / n_parts)) for part in range(1, n_parts)]
    edges = [0, *bounds, len(pairs)]
    return [pairs[a:b] for a, b in itertools.pairwise(edges)]
