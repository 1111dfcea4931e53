"""A batch of pairs: what the data hands to the loss.

Shapes: B pairs, S source length, T target length, both counting eos. Of sentences that lie end to end: N places,
M sentences, L the most places that a sentence can take.
"""

from __future__ import annotations

__all__ = ["Batch", "Ends", "Packing", "batch_by_length", "make_batch"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from s2s.model import map_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.task import Vocab

    Sentence = Sequence[int] | NDArray[Any]


@dataclass(frozen=True)
class Ends:
    """Where the sentences of one side lie."""

    bounds: Tensor
    """[M + 1] int32: sentence m takes the places from bounds[m] to bounds[m + 1]"""
    position: Tensor
    """[N], of a place in its sentence"""
    place: Tensor
    """[N], the same place in a rectangle [M, L]"""
    longest: int
    """L"""


@dataclass(frozen=True)
class Packing:
    """Where the sentences of both sides lie."""

    src: Ends
    tgt: Ends


@dataclass(frozen=True)
class Batch:
    """Padded pairs of ids."""

    src: Tensor
    """[B, S], each ending in eos"""
    src_pad: Tensor
    """[B, S], True at padding"""
    tgt_in: Tensor
    """[B, T], each beginning with bos"""
    tgt_out: Tensor
    """[B, T], each ending in eos"""
    tgt_pad: Tensor
    """[B, T], True where tgt_out is padding, which counts in no loss"""
    n_tokens: int
    """Target symbols that count in the loss: those of tgt_out that are not padding"""
    n_src_tokens: int
    """Source symbols that are not padding"""
    packing: Packing | None = None
    """Where sentences lie, if they lie end to end: all of the above are then [N]. Only a loss and a model that say
    `packs` get such a batch"""

    @classmethod
    def of(
        cls,
        src: NDArray[np.int64],
        tgt_in: NDArray[np.int64],
        tgt_out: NDArray[np.int64],
        pad: int,
        src_lengths: NDArray[np.int64],
        tgt_lengths: NDArray[np.int64],
        packing: Packing | None = None,
    ) -> Self:
        """From ids as they lie in memory, and the lengths of the pairs' sides, eos counted."""
        src_ids, tgt_ids = torch.from_numpy(src), torch.from_numpy(tgt_out)
        return cls(
            src=src_ids,
            src_pad=src_ids == pad,
            tgt_in=torch.from_numpy(tgt_in),
            tgt_out=tgt_ids,
            tgt_pad=tgt_ids == pad,
            n_tokens=int(tgt_lengths.sum()),
            n_src_tokens=int(src_lengths.sum()),
            packing=packing,
        )

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the model's `forward` takes."""
        packing = (self.packing,) if self.packing else ()
        return self.src, self.src_pad, self.tgt_in, *packing

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`; the host does not wait for the copies."""
        if device.type != "cuda":
            return map_tensors(lambda t: t.to(device), self)
        return map_tensors(lambda t: t.pin_memory().to(device, non_blocking=True), self)


def make_batch(pairs: Sequence[tuple[Sentence, Sentence]], vocab: Vocab) -> Batch:
    """Pad pairs of ids, which come without bos and eos."""
    src, src_lengths = _pad([src for src, _ in pairs], vocab.pad)
    tgt, tgt_lengths = _pad([tgt for _, tgt in pairs], vocab.pad)
    tgt_in = np.roll(tgt, 1, axis=1)  # the last column is padding still
    rows = np.arange(len(pairs))
    src[rows, src_lengths] = vocab.eos
    tgt[rows, tgt_lengths] = vocab.eos
    tgt_in[:, :1] = vocab.bos
    return Batch.of(src, tgt_in, tgt, vocab.pad, src_lengths + 1, tgt_lengths + 1)


def batch_by_length(pairs: Sequence[tuple[Sentence, Sentence]], tokens: int) -> Iterator[list[int]]:
    """Places of pairs of like length, as many as have `tokens` symbols of both sides, padding and ends counted."""
    widths = [max(map(len, pair)) + 1 for pair in pairs]
    batch: list[int] = []
    for place in sorted(range(len(pairs)), key=widths.__getitem__):  # each is as wide as those before it
        if batch and 2 * widths[place] * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _pad(sentences: Sequence[Sentence], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sentences as rows with room for one more symbol, [B, longest + 1], and their lengths [B]."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    padded = np.full((len(sentences), lengths.max(initial=-1) + 1), pad, dtype=np.int64)
    for row, sentence, length in zip(padded, sentences, lengths.tolist(), strict=True):
        row[:length] = sentence
    return padded, lengths
