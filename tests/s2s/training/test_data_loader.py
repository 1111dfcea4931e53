"""Batches in their order, with the state of the run advanced to each of them before it is used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s.config.data import DataConfig
from s2s.data.lazy_batch import LazyBatch
from s2s.training import data_loader
from s2s.training.data_loader import DataLoader
from s2s.training.state import TrainerState

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class Numbered:
    """Three batches an epoch, of two pairs each, whose ids are epoch and number."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []

    def iterate_from(self, epoch: int, start: int) -> Iterator[tuple[int, int, LazyBatch]]:
        for number in range(3 * epoch + start, 9):
            at = divmod(number, 3)
            yield (
                *at,
                LazyBatch(np.arange(2), (np.full(2, 2), np.full(2, 2)), lambda rows, at=at: self._pairs(rows, at)),
            )

    def _pairs(self, rows: Any, at: tuple[int, int]) -> list[Any]:
        self.read += [at] * len(rows)
        return [(list(at), [int(row)]) for row in rows]


def test_the_state_says_which_batch_comes_next() -> None:
    state, seen = TrainerState(epoch=1, batch=1, step=7), []
    loader = DataLoader(Numbered(), DataConfig())  # type: ignore[arg-type]
    assert loader.wait == 0.0
    for batch in loader.iterate(state, lambda: state.step == 10):
        seen.append((batch[0][0], state.step, state.epoch, state.batch))
    assert seen == [([1, 1], 8, 1, 2), ([1, 2], 9, 1, 3), ([2, 0], 10, 2, 1)]


def test_nothing_is_read_for_a_run_that_is_over() -> None:
    batches: Any = Numbered()
    assert list(DataLoader(batches, DataConfig()).iterate(TrainerState(), lambda: True)) == []
    assert batches.read == []


def test_of_a_batch_only_this_ranks_pairs_are_read() -> None:
    batches: Any = Numbered()
    state = TrainerState()
    loader = DataLoader(batches, DataConfig(), local_micro_batches=lambda batch: [batch[:1]])
    for batch in loader.iterate(state, lambda: state.step == 9):
        assert isinstance(batch, LazyBatch)
        assert [pair is None for pair in batch.pairs] == [False, True]
    assert batches.read == [(epoch, number) for epoch in range(3) for number in range(3)]


def test_the_time_is_counted_that_training_waited_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by 1, 2, 4, … s from one look to the next: two looks around each wait."""
    looks = iter([100.0 + 2**n for n in range(20)])
    monkeypatch.setattr(data_loader, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    state = TrainerState()
    loader = DataLoader(Numbered(), DataConfig())  # type: ignore[arg-type]
    assert [loader.wait for _ in loader.iterate(state, lambda: state.step == 3)] == [1.0, 4.0, 16.0]
