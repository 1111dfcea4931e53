"""Pairs laid end to end instead of in a rectangle: no place is padding but, where the shape is to be constant, a rest.

Only attention needs to know where a sentence begins; all else works place by place. What is left of a constant shape
is filled with sentences of padding, so that a kernel never meets a place that is in no sentence.
Shapes: N places, M sentences, L the most places that a sentence can take.
"""

from __future__ import annotations

__all__ = ["Capacity", "pack"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from s2s.batch import Batch, Ends, Packing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from s2s.data.batching import Pair
    from s2s.task import Vocab

MULTIPLE = 64
"""Of places: what the tiles of a GPU's matrix products divide into"""
SHORTEST = 4
"""Symbols of a pair's longer side, eos counted, on the average of a batch: with shorter ones it is full earlier"""


@dataclass(frozen=True)
class Capacity:
    """A shape for all batches of at most `tokens` symbols a side and `n_pairs` pairs."""

    tokens: int
    longest: int
    """Symbols of the longest sentence, eos counted"""

    @property
    def n_pairs(self) -> int:
        """As many pairs as a batch may have."""
        return max(self.tokens // SHORTEST, 1)

    @property
    def n_fill(self) -> int:
        """Sentences of padding: as many as could fill an empty batch, each of at least one place."""
        return math.ceil((self.tokens + MULTIPLE) / (self.longest - 1))

    @property
    def n_places(self) -> int:
        """N, the same for both sides."""
        return math.ceil((self.tokens + self.n_fill) / MULTIPLE) * MULTIPLE

    def for_(self, pairs: Sequence[Pair]) -> Capacity:
        """This shape, or the next larger one that holds the pairs: a part of a batch may be uneven."""
        most = max(sum(len(pair[side]) + 1 for pair in pairs) for side in (0, 1))
        longest = max(1 + len(side) for pair in pairs for side in pair)
        fits = most <= self.tokens and len(pairs) <= self.n_pairs and longest <= self.longest
        return self if fits else Capacity(self.tokens + self.tokens // 4 + 1, max(self.longest, longest)).for_(pairs)


def pack(pairs: Sequence[Pair], vocab: Vocab, capacity: Capacity | None = None) -> Batch:
    """Pairs of ids without bos and eos as a batch of one row a side, in the shape of `capacity` or the smallest."""
    (src, src_lengths), (tgt, tgt_lengths) = (_join([p[side] for p in pairs], vocab, capacity) for side in (0, 1))
    src_ends, tgt_ends = _ends(src_lengths, capacity), _ends(tgt_lengths, capacity)
    tgt_in = np.roll(tgt, 1)
    tgt_in[tgt_ends.bounds[:-1].numpy()[tgt_lengths > 0]] = vocab.bos
    own = slice(len(pairs))
    return Batch.of(src, tgt_in, tgt, vocab.pad, src_lengths[own], tgt_lengths[own], Packing(src_ends, tgt_ends))


def _join(sentences: Sequence[Any], vocab: Vocab, capacity: Capacity | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Ids [N] with eos, then the rest, and the lengths of all sentences [M], those of padding last."""
    lengths = np.array([len(sentence) + 1 for sentence in sentences], dtype=np.int64)
    ids = np.concatenate([np.append(np.asarray(sentence, dtype=np.int64), vocab.eos) for sentence in sentences])
    if capacity is None:
        return ids, lengths
    rest, n_absent = capacity.n_places - len(ids), capacity.n_pairs - len(sentences)
    assert rest >= capacity.n_fill and n_absent >= 0, "a batch keeps to its capacity"  # noqa: PT018  one fact
    share = np.full(capacity.n_fill, rest // capacity.n_fill)
    share[: rest % capacity.n_fill] += 1
    lengths = np.concatenate([lengths, share, np.zeros(n_absent, dtype=np.int64)])
    return np.concatenate([ids, np.full(rest, vocab.pad)]), lengths


def _ends(lengths: NDArray[np.int64], capacity: Capacity | None) -> Ends:
    longest = capacity.longest if capacity else int(lengths.max())
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    row = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(bounds[-1]) - bounds[row]
    return Ends(
        torch.from_numpy(bounds.astype(np.int32)),
        torch.from_numpy(position),
        torch.from_numpy(row * longest + position),
        longest,
    )
