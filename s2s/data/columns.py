"""Consecutive pairs as two lists, one of each side: an object for each pair would take a third of the time of encoding.

To others they are sequences of `Example` and `Encoded`, which are made where they are asked for.
"""

from __future__ import annotations

__all__ = ["EncodedColumns", "PairReader", "TextColumns", "column", "usable"]

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from s2s.task import Encoded, Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

Wanted = Callable[[int], bool]
N_READ = 8192
"""Pairs that are read at once where they are asked for one by one"""


class TextColumns(Sequence[Example | Rejected]):
    """Pairs of texts without fields; those that cannot be used are `rejected`, by their indices."""

    def __init__(self, src: list[str], tgt: list[str], rejected: Mapping[int, Rejected] = MappingProxyType({})) -> None:
        """Of a rejected pair, `src` and `tgt` have any texts."""
        self.src, self.tgt, self.rejected = src, tgt, rejected

    def __len__(self) -> int:
        return len(self.src)

    @overload
    def __getitem__(self, index: int) -> Example | Rejected: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example | Rejected]: ...
    def __getitem__(self, index: int | slice) -> Example | Rejected | list[Example | Rejected]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.rejected.get(index % len(self)) or Example(self.src[index], self.tgt[index])

    def __iter__(self) -> Iterator[Example | Rejected]:
        pairs = map(Example, self.src, self.tgt)
        return (self.rejected.get(i) or pair for i, pair in enumerate(pairs)) if self.rejected else pairs

    def take(self, indices: Sequence[int]) -> TextColumns:
        """The pairs at some indices, none of which is rejected."""
        if len(indices) == len(self):
            return self
        return TextColumns([self.src[i] for i in indices], [self.tgt[i] for i in indices])

    def mapped(self, change: Callable[[str], str]) -> TextColumns:
        """With every text changed."""
        return TextColumns(list(map(change, self.src)), list(map(change, self.tgt)), self.rejected)


class EncodedColumns(Sequence[Encoded]):
    """Pairs of ids."""

    def __init__(self, src: list[list[int]], tgt: list[list[int]]) -> None:
        self.src, self.tgt = src, tgt

    def __len__(self) -> int:
        return len(self.src)

    @overload
    def __getitem__(self, index: int) -> Encoded: ...
    @overload
    def __getitem__(self, index: slice) -> EncodedColumns: ...
    def __getitem__(self, index: int | slice) -> Encoded | EncodedColumns:
        if isinstance(index, slice):
            return EncodedColumns(self.src[index], self.tgt[index])
        return Encoded(self.src[index], self.tgt[index])


class PairReader(Iterator[Example | Rejected]):
    """The pairs of a corpus, one by one or in `columns`; each pair is read once."""

    def __init__(self, columns: Callable[[int, Wanted], Iterator[TextColumns | None]]) -> None:
        """columns: a function of the number of pairs to read at once, and of which of these columns, from 0, are
        wanted; it gives None for each of the others, which may be passed over without decoding it."""
        self.columns = columns
        self._pairs: Iterator[Example | Rejected] | None = None

    def __next__(self) -> Example | Rejected:
        if self._pairs is None:
            self._pairs = chain.from_iterable(filter(None, self.columns(N_READ, lambda _: True)))
        return next(self._pairs)

    def mapped(self, change: Callable[[str], str]) -> PairReader:
        """With every text changed."""
        return PairReader(lambda *which: (pairs and pairs.mapped(change) for pairs in self.columns(*which)))


def column(pairs: Sequence[Any], side: Literal["src", "tgt"]) -> list[Any]:
    """The sources or the targets of pairs."""
    if isinstance(pairs, TextColumns | EncodedColumns):
        return getattr(pairs, side)
    return [getattr(pair, side) for pair in pairs]


def usable(pairs: Sequence[Example | Rejected], indices: Sequence[int]) -> Sequence[Example]:
    """The pairs at some indices, none of which is rejected."""
    if isinstance(pairs, TextColumns):
        return cast("Sequence[Example]", pairs.take(indices))
    return [pair for index in indices if isinstance(pair := pairs[index], Example)]
