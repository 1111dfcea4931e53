"""Packed batches: sequences concatenated in one row instead of padded, with padding only to reach a static shape.

Only attention depends on where a sequence begins. The rest of a static shape is filled with sequences of padding, so
that every position belongs to a sequence.
Shapes: N positions, M sequences, L maximum length of a sequence.
"""

from __future__ import annotations

__all__ = ["Capacity", "pack"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from s2s.batch import Batch, Packing, SequenceOffsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from s2s.data.pairs import Pair
    from s2s.task import Vocab

MULTIPLE = 64
"""N is a multiple of this, as the tiles of a GPU's matrix products require"""
SHORTEST = 4
"""Minimum average length of a pair's longer side, eos included; for shorter pairs, their number limits a batch"""


@dataclass(frozen=True)
class Capacity:
    """A static shape for all batches of at most `tokens` tokens on each side and `n_pairs` pairs."""

    tokens: int
    max_len: int
    """Length of the longest sequence, eos included"""

    @property
    def n_pairs(self) -> int:
        """Maximum number of pairs in a batch."""
        return max(self.tokens // SHORTEST, 1)

    @property
    def n_fill(self) -> int:
        """Sequences of padding: enough to fill an empty batch, each of at least one position."""
        return math.ceil((self.tokens + MULTIPLE) / (self.max_len - 1))

    @property
    def n_positions(self) -> int:
        """N, the same for both sides."""
        return math.ceil((self.tokens + self.n_fill) / MULTIPLE) * MULTIPLE

    def grown_for(self, pairs: Sequence[Pair], n_start: int = 1) -> Capacity:
        """This shape, or the next larger one that holds the pairs: a batch may be divided unevenly.

        n_start: starting tokens of each target.
        """
        lengths = [(len(src) + 1, len(tgt) + n_start) for src, tgt in pairs]
        most, longest = max(map(sum, zip(*lengths, strict=True))), max(map(max, lengths))
        fits = most <= self.tokens and len(pairs) <= self.n_pairs and longest <= self.max_len
        if fits:
            return self
        return Capacity(self.tokens + self.tokens // 4 + 1, max(self.max_len, longest)).grown_for(pairs, n_start)


def pack(pairs: Sequence[Pair], vocab: Vocab, capacity: Capacity | None = None) -> Batch:
    """A packed batch of pairs of ids without starting tokens and eos, in the shape of `capacity` or the smallest."""
    first, *more = vocab.starting_tokens
    starts = [int(tgt[0]) if vocab.own_start else first for _, tgt in pairs]
    targets = [tgt[1:] if vocab.own_start else [*more, *tgt] if more else tgt for _, tgt in pairs]
    src, src_lengths = _join([vocab.ended(src) for src, _ in pairs], vocab.src_pad, capacity)
    tgt, tgt_lengths = _join([[*tgt, vocab.eos] for tgt in targets], vocab.pad, capacity)
    src_offsets, tgt_offsets = _offsets(src_lengths, capacity), _offsets(tgt_lengths, capacity)
    tgt_in = np.roll(tgt, 1)
    begins = tgt_offsets.cu_seqlens[:-1].numpy()
    n_pairs = len(pairs)
    tgt_in[begins[tgt_lengths > 0]] = first
    tgt_in[begins[:n_pairs]] = starts
    more = [] if vocab.own_start else more
    for i in range(len(more)):  # no loss counts the predictions of starting tokens
        tgt[begins[:n_pairs] + i] = vocab.pad
    counted = tgt_lengths[:n_pairs] - len(more)
    packing = Packing(src_offsets, tgt_offsets)
    return Batch.from_arrays(src, tgt_in, tgt, vocab, src_lengths[:n_pairs], counted, packing)


def _join(
    sentences: Sequence[Sequence[int]], pad: int, capacity: Capacity | None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Ids [N], then padding, and the lengths of all sequences [M], those of padding last."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ids = np.concatenate([np.asarray(sentence, dtype=np.int64) for sentence in sentences])
    if capacity is None:
        return ids, lengths
    rest, n_absent = capacity.n_positions - len(ids), capacity.n_pairs - len(sentences)
    assert rest >= capacity.n_fill and n_absent >= 0, "a batch must fit its capacity"  # noqa: PT018  one fact
    share = np.full(capacity.n_fill, rest // capacity.n_fill)
    share[: rest % capacity.n_fill] += 1
    lengths = np.concatenate([lengths, share, np.zeros(n_absent, dtype=np.int64)])
    return np.concatenate([ids, np.full(rest, pad)]), lengths


def _offsets(lengths: NDArray[np.int64], capacity: Capacity | None) -> SequenceOffsets:
    longest = capacity.max_len if capacity else int(lengths.max())
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)])
    row = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.arange(cu_seqlens[-1]) - cu_seqlens[row]
    return SequenceOffsets(
        torch.from_numpy(cu_seqlens.astype(np.int32)),
        torch.from_numpy(positions),
        torch.from_numpy(row * longest + positions),
        longest,
    )
