"""Corpora smaller than a batch, or than the number of processes: none hangs, and every pair is learnt from once."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from harness.sorting_runs import records, train_in_ranks
from s2s.data.lazy_batch import split

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SIZES = [(1, 3), (2, 4), (3, 2), (5, 4), (17, 3), (50, 4)]


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
def test_parts_are_as_many_for_every_process_and_hold_every_pair_once(n_ranks: int) -> None:
    for n_pairs in range(1, 51):
        batch = [([number], [number] * (number % 7 + 1)) for number in range(n_pairs)]
        for n_parts in (n_ranks, 2 * n_ranks, 5 * n_ranks):
            parts = split(batch, n_parts)
            assert len(parts) == n_parts
            assert sorted(src[0] for part in parts for src, _ in part) == list(range(n_pairs))


@pytest.mark.parametrize(
    ("n_pairs", "n_ranks"), [SIZES[0], *(pytest.param(*size, marks=pytest.mark.slow) for size in SIZES[1:])]
)
def test_every_process_ends_and_an_epoch_is_every_pair_once(tmp_path: Path, n_pairs: int, n_ranks: int) -> None:
    arguments = [f"task.pairs={n_pairs}", "train.steps=6", "valid.every=0", "checkpoint.every=6"]
    assert train_in_ranks(tmp_path / "a", n_ranks, *arguments) == [0] * n_ranks, (tmp_path / "a.log").read_text()
    seen = records(tmp_path / "a" / "run", "update", "epoch", "pairs")
    epochs = [sum(n for _, n in rows) for _, rows in groupby(seen, key=lambda record: record[0])]
    assert epochs[:-1] == [n_pairs] * (len(epochs) - 1)
