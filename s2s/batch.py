"""A batch of pairs, padded or packed.

Shapes: B pairs, S source length, T target length, both with eos. Packed: N tokens of M sequences, L the longest.
"""

from __future__ import annotations

__all__ = ["Batch", "Packing", "SequenceOffsets", "batch_by_length", "make_batch"]

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from s2s.tensors import map_tensors, to_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.task import Vocab

    Sentence = Sequence[int] | NDArray[Any]


@dataclass(frozen=True)
class SequenceOffsets:
    """Where the sequences of one side begin and end in a packed row."""

    cu_seqlens: Tensor
    """[M + 1] int32, cumulative lengths: sequence m is the tokens from cu_seqlens[m] to cu_seqlens[m + 1]"""
    positions: Tensor
    """[N], position of each token in its sequence"""
    padded_index: Tensor
    """[N], index of each token in the same sequences padded to [M, L] and flattened"""
    max_seqlen: int
    """L"""


@dataclass(frozen=True)
class Packing:
    """Offsets of both sides of a packed batch."""

    src: SequenceOffsets
    tgt: SequenceOffsets


@dataclass(frozen=True)
class Batch:
    """Pairs of ids, padded to [B, S] and [B, T], or packed into rows [N]."""

    src: Tensor
    """[B, S], each ending in eos"""
    src_pad: Tensor
    """[B, S], True at padding"""
    tgt_in: Tensor
    """[B, T], each beginning with `Vocab.starting_tokens`"""
    tgt_out: Tensor
    """[B, T], each ending in eos; padding where a starting token would be predicted"""
    tgt_pad: Tensor
    """[B, T], True where tgt_out is padding, which the loss ignores"""
    n_tokens: int
    """Target tokens of the loss: those of tgt_out that are not padding"""
    n_src_tokens: int
    """Source tokens that are not padding"""
    packing: Packing | None = None
    """Set for a packed batch, whose tensors are [N]. Only a loss and a model with `supports_packing = True` get one"""

    @classmethod
    def from_arrays(
        cls,
        src: NDArray[np.int64],
        tgt_in: NDArray[np.int64],
        tgt_out: NDArray[np.int64],
        vocab: Vocab,
        src_lengths: NDArray[np.int64],
        tgt_lengths: NDArray[np.int64],
        packing: Packing | None = None,
    ) -> Self:
        """From arrays of ids.

        src: [B, S]. tgt_in: [B, T]. tgt_out: [B, T]. vocab: what pads both sides. src_lengths: [B], eos included.
        tgt_lengths: [B], eos included. packing: of a packed batch, whose arrays are [N].
        """
        src_ids, tgt_ids = torch.from_numpy(src), torch.from_numpy(tgt_out)
        return cls(
            src=src_ids,
            src_pad=src_ids == vocab.src_pad,
            tgt_in=torch.from_numpy(tgt_in),
            tgt_out=tgt_ids,
            tgt_pad=tgt_ids == vocab.pad,
            n_tokens=int(tgt_lengths.sum()),
            n_src_tokens=int(src_lengths.sum()),
            packing=packing,
        )

    @classmethod
    def extend(cls, batch: Batch, **values: Any) -> Self:
        """The same pairs in a subclass with more fields; values: those of its own fields."""
        return cls(**{item.name: getattr(batch, item.name) for item in fields(Batch)}, **values)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of `Seq2Seq.forward`."""
        packing = (self.packing,) if self.packing else ()
        return self.src, self.src_pad, self.tgt_in, *packing

    def to(self, device: torch.device, *, pin: bool = False) -> Batch:
        """The same batch on `device`; pin: copied asynchronously, from pinned memory (see `Device.pins_memory`)."""
        return map_tensors(lambda t: to_device(t, device, pin=pin), self)


def make_batch(
    pairs: Sequence[tuple[Sentence, Sentence]], vocab: Vocab, starts: Sequence[Sequence[int]] | None = None
) -> Batch:
    """Pad pairs of ids.

    pairs: without starting tokens and eos, unless the vocab says that they bring them. vocab: what gives both, and
    padding.
    starts: the starting tokens of each pair, by default the vocab's.
    """
    if starts is None:
        starts = [list(tgt[:1]) if vocab.own_start and len(tgt) else vocab.starting_tokens for _, tgt in pairs]
        pairs = [(src, tgt[1:]) for src, tgt in pairs] if vocab.own_start else pairs
    ends = [src[-1] if vocab.own_end and len(src) else vocab.src_eos for src, _ in pairs]
    pairs = [(src[:-1], tgt) for src, tgt in pairs] if vocab.own_end else pairs
    before = np.array([len(start) - 1 for start in starts], dtype=np.int64)  # predictions that no loss counts
    src, src_lengths = _pad([src for src, _ in pairs], vocab.src_pad)
    tgt, tgt_lengths = _pad([tgt for _, tgt in pairs], vocab.pad, before)
    tgt_in = np.roll(tgt, 1, axis=1)  # the last column is still padding
    for row, start in zip(tgt_in, starts, strict=True):
        row[: len(start)] = start
    rows = np.arange(len(pairs))
    src[rows, src_lengths] = ends
    tgt[rows, before + tgt_lengths] = vocab.eos
    return Batch.from_arrays(src, tgt_in, tgt, vocab, src_lengths + 1, tgt_lengths + 1)


def batch_by_length(pairs: Sequence[tuple[Sentence, Sentence]], tokens: int) -> Iterator[list[int]]:
    """Indices of pairs of similar length, in batches; tokens: at most those of both sides, with padding and eos."""
    widths = [max(map(len, pair)) + 1 for pair in pairs]
    batch: list[int] = []
    for index in sorted(range(len(pairs)), key=widths.__getitem__):  # the last is the widest
        if batch and 2 * widths[index] * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _pad(
    sentences: Sequence[Sentence], pad: int, before: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows with `before` [B] tokens of padding, by default 0, and room for one more token; and the lengths [B]."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    before = np.zeros_like(lengths) if before is None else before
    padded = np.full((len(sentences), (before + lengths).max(initial=-1) + 1), pad, dtype=np.int64)
    for row, sentence, begin, length in zip(padded, sentences, before.tolist(), lengths.tolist(), strict=True):
        row[begin : begin + length] = sentence
    return padded, lengths
