"""A global batch whose pairs are looked up when they are asked for: a process reads no more than it learns from.

Lengths come with the order of the data, and say how a batch is to be shared among processes.
"""

from __future__ import annotations

__all__ = ["Drawn", "sizes", "split"]

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from s2s.data.batching import Pair, Rows


class Drawn(Sequence["Pair"]):
    """The pairs at `rows` [n]; a slice shares what was looked up."""

    def __init__(
        self,
        rows: Rows,
        sizes: tuple[Rows, Rows],
        look_up: Callable[[Rows], list[Pair]],
        found: NDArray[Any] | None = None,
    ) -> None:
        self.rows, self.sizes, self._look_up = rows, sizes, look_up
        self.found = np.full(len(rows), None) if found is None else found

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> Drawn: ...
    def __getitem__(self, at: int | slice) -> Pair | Drawn:
        if isinstance(at, slice):
            src, tgt = self.sizes
            return Drawn(self.rows[at], (src[at], tgt[at]), self._look_up, self.found[at])
        if self.found[at] is None:
            self.look_up()
        pair: Pair = self.found[at]
        return pair

    def look_up(self) -> None:
        """Look up all pairs that have not been yet."""
        missing = np.flatnonzero([pair is None for pair in self.found])
        for place, pair in zip(missing, self._look_up(self.rows[missing]), strict=True):
            self.found[place] = pair


def sizes(pairs: Sequence[Pair]) -> tuple[Rows, Rows]:
    """Source and target symbols of each pair, eos counted: [n], [n]."""
    if isinstance(pairs, Drawn):
        return pairs.sizes
    src, tgt = (np.array([len(pair[side]) + 1 for pair in pairs], dtype=np.int64) for side in (0, 1))
    return src, tgt


def split(pairs: Sequence[Pair], n_parts: int) -> list[Sequence[Pair]]:
    """Cut a batch into `n_parts` runs of nearly equal numbers of symbols; some are empty if there are too many."""
    ends = np.cumsum(sum(sizes(pairs)))
    total = int(ends[-1]) if len(pairs) else 0
    bounds = [int(np.searchsorted(ends, total * part / n_parts)) for part in range(1, n_parts)]
    edges = [0, *bounds, len(pairs)]
    return [pairs[a:b] for a, b in itertools.pairwise(edges)]
