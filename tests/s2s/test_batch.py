"""Padded batches against loops over their sentences."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from s2s.batch import Batch, Packing, batch_by_length, make_batch
from s2s.task import Vocab

VOCAB = Vocab(src=20, tgt=20, pad=9, unk=1, bos=7, eos=8)
PAIRS = [([10, 11, 12], [13]), ([14], [15, 16]), ([], []), ([17, 18], [19, 10, 11, 12])]


def padded(rows: list[list[int]]) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [9] * (longest - len(row)) for row in rows]


@pytest.mark.parametrize("form", [list, np.array])
def test_a_batch_has_a_row_for_each_pair_padded_to_the_longest(form: Any) -> None:
    batch = make_batch([(form(src), form(tgt)) for src, tgt in PAIRS], VOCAB)
    assert batch.src.tolist() == padded([[*src, 8] for src, _ in PAIRS])
    assert batch.tgt_out.tolist() == padded([[*tgt, 8] for _, tgt in PAIRS])
    assert batch.tgt_in.tolist() == padded([[7, *tgt] for _, tgt in PAIRS])
    assert torch.equal(batch.src_pad, batch.src == 9)
    assert torch.equal(batch.tgt_pad, batch.tgt_out == 9)
    assert (batch.n_src_tokens, batch.n_tokens) == (6 + 4, 7 + 4), "each end counts"


def test_a_batch_without_pairs_has_no_rows() -> None:
    batch = make_batch([], VOCAB)
    assert (batch.src.shape[0], batch.tgt_in.shape[0], batch.n_tokens, batch.n_src_tokens) == (0, 0, 0, 0)


def test_a_model_is_given_the_packing_of_a_packed_batch_alone() -> None:
    batch = make_batch(PAIRS, VOCAB)
    assert [x is y for x, y in zip(batch.inputs, (batch.src, batch.src_pad, batch.tgt_in), strict=True)] == [True] * 3
    packing: Any = Packing(None, None)  # type: ignore[arg-type]
    assert replace(batch, packing=packing).inputs[3] is packing


@pytest.mark.parametrize(("device", "pinned", "options"), [("cpu", 0, {}), ("xpu", 5, {"non_blocking": True})])
def test_a_batch_goes_to_a_gpu_from_pinned_memory_without_waiting(
    monkeypatch: pytest.MonkeyPatch, device: str, pinned: int, options: dict[str, bool]
) -> None:
    pins, copies = list[Tensor](), list[tuple[str, dict[str, bool]]]()
    monkeypatch.setattr(Tensor, "pin_memory", lambda t: pins.append(t) or t)
    monkeypatch.setattr(Tensor, "to", lambda t, place, **given: copies.append((str(place), given)) or t)
    moved = make_batch(PAIRS, VOCAB).to(torch.device(device), pin=bool(pinned))
    assert isinstance(moved, Batch)
    assert (len(pins), copies) == (pinned, [(device, options)] * 5)


def test_pairs_of_like_length_come_together_as_many_as_fit() -> None:
    lengths = [(2, 1), (5, 5), (1, 2), (3, 0), (2, 2), (0, 1)]
    pairs = [([4] * src, [4] * tgt) for src, tgt in lengths]
    # widths with eos: 3 6 3 4 3 2; two sides of three pairs of 3 positions are 18
    assert list(batch_by_length(pairs, 18)) == [[5, 0, 2], [4, 3], [1]]
    assert list(batch_by_length(pairs, 17)) == [[5, 0], [2, 4], [3], [1]]
    assert list(batch_by_length(pairs, 1)) == [[5], [0], [2], [4], [3], [1]], "one at least"
    assert list(batch_by_length([], 18)) == []


@pytest.mark.parametrize("tokens", [10, 30, 64, 1000])
def test_no_batch_by_length_is_larger_than_allowed_and_none_could_take_the_next_pair(tokens: int) -> None:
    draw = random.Random(tokens)
    pairs = [([4] * draw.randint(0, 12), [4] * draw.randint(0, 12)) for _ in range(60)]
    batches = list(batch_by_length(pairs, tokens))
    assert sorted(i for batch in batches for i in batch) == list(range(60))
    width = lambda batch: max(len(side) + 1 for i in batch for side in pairs[i])  # noqa: E731
    for batch, after in zip(batches, [*batches[1:], None], strict=True):
        assert len(batch) == 1 or 2 * width(batch) * len(batch) <= tokens
        assert after is None or 2 * width([*batch, after[0]]) * (len(batch) + 1) > tokens
