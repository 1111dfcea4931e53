"""A batch of pairs: what the data hands to the loss.

Shapes: B pairs, S source length, T target length, both counting eos.
"""

from __future__ import annotations

__all__ = ["Batch", "make_batch"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from s2s.model import map_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.task import Vocab


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

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`; copies from pinned memory do not wait."""
        return map_tensors(lambda t: t.to(device, non_blocking=True), self)


def make_batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], vocab: Vocab) -> Batch:
    """Pad pairs of ids, which come without bos and eos."""
    src = _pad([[*s, vocab.eos] for s, _ in pairs], vocab.pad)
    tgt_out = _pad([[*t, vocab.eos] for _, t in pairs], vocab.pad)
    tgt_in = _pad([[vocab.bos, *t] for _, t in pairs], vocab.pad)
    return Batch(
        src=src,
        src_pad=src == vocab.pad,
        tgt_in=tgt_in,
        tgt_out=tgt_out,
        tgt_pad=tgt_out == vocab.pad,
        n_tokens=sum(len(t) + 1 for _, t in pairs),
        n_src_tokens=sum(len(s) + 1 for s, _ in pairs),
    )


def _pad(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    padded = np.full((len(rows), max(map(len, rows), default=0)), pad, dtype=np.int64)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(padded)
