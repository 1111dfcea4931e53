"""Packed attention by torch's varlen kernel, with a loop standing in for it, against padded attention."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from s2s.batch import SequenceOffsets
from s2s.nn.attention import math_attention
from s2s.nn.varlen import FlashVarlen, PaddedVarlen, VarlenLayout

LENGTHS = [3, 1, 5], [2, 4, 5]
"""Of queries and keys"""


def offsets(lengths: list[int]) -> SequenceOffsets:
    longest = max(lengths)
    index = [row * longest + i for row, n in enumerate(lengths) for i in range(n)]
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    positions = torch.cat([torch.arange(n) for n in lengths])
    return SequenceOffsets(ends, positions, torch.tensor(index), longest)


def slow_varlen(
    q: Tensor, k: Tensor, v: Tensor, q_ends: Tensor, k_ends: Tensor, q_max: int, k_max: int, window_size: Any
) -> Tensor:
    """What torch documents: q [N, h, d]; sentence by sentence; a window of (-1, 0) is causal, (-1, -1) sees all."""
    assert (q_max, k_max) == (int(q_ends.diff().max()), int(k_ends.diff().max()))
    assert window_size in ((-1, 0), (-1, -1))
    out = torch.zeros(*q.shape[:2], v.size(-1))
    for s in range(len(q_ends) - 1):
        for i in range(int(q_ends[s]), int(q_ends[s + 1])):
            last = int(k_ends[s]) + i - int(q_ends[s]) + 1 if window_size[1] == 0 else int(k_ends[s + 1])
            seen = slice(int(k_ends[s]), last)
            weights = (torch.einsum("hd,khd->hk", q[i], k[seen]) / math.sqrt(q.size(-1))).softmax(-1)
            out[i] = torch.einsum("hk,khd->hd", weights, v[seen])
    return out


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """[h, N, d], [h, S, d] twice"""
    torch.manual_seed(0)
    n, s = map(sum, LENGTHS)
    return torch.randn(2, n, 4), torch.randn(2, s, 4), torch.randn(2, s, 4)


@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_for_packed_sentences_is_asked_for_what_padding_computes(
    causal: bool, inputs: tuple[Tensor, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = inputs
    queries = offsets(LENGTHS[0])
    keys = queries if causal else offsets(LENGTHS[1])
    if causal:
        k, v = k[:, : q.size(1)], v[:, : q.size(1)]
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", slow_varlen)
    packed = FlashVarlen(queries, keys, causal).attend(q, k, v, 0.0)
    padded = PaddedVarlen.within_sentences(queries, keys, q.dtype, math_attention, causal=causal).attend(q, k, v, 0.0)
    torch.testing.assert_close(packed, padded)


@pytest.mark.parametrize(
    ("has_kernel", "dropout", "d_v", "kind"),
    [
        (True, 0.0, 4, FlashVarlen),
        (False, 0.0, 4, PaddedVarlen),
        (True, 0.1, 4, PaddedVarlen),
        (True, 0.0, 3, PaddedVarlen),
    ],
    ids=["kernel", "other device", "dropout", "other width of values"],
)
def test_the_kernel_is_taken_where_it_can_do_what_is_asked(
    has_kernel: bool, dropout: float, d_v: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s2s.backend.core_devices.CPU.has_varlen_attention", lambda *_: has_kernel)
    layout = VarlenLayout(offsets(LENGTHS[0]), offsets(LENGTHS[1]), math_attention)
    chosen = layout._layout(torch.zeros(2, 9, 4), torch.zeros(2, 11, d_v), dropout)
    assert type(chosen) is kind


def test_every_key_of_the_sentence_is_seen_unless_the_layout_is_causal(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    q, k, v = inputs
    queries, keys = offsets(LENGTHS[0]), offsets(LENGTHS[1])
    seen = VarlenLayout(queries, keys, math_attention).attend(q, k, v, 0.0)
    ends = queries.cu_seqlens, keys.cu_seqlens, queries.max_seqlen, keys.max_seqlen
    expected = slow_varlen(*(x.transpose(0, 1) for x in (q, k, v)), *ends, (-1, -1)).transpose(0, 1)
    torch.testing.assert_close(seen, expected)
