"""A batch that is read in parts against the list of its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.small_runs import letters_config, letters_plugins
from s2s.config.data import DataConfig
from s2s.data.batching import Batches
from s2s.data.lazy_batch import LazyBatch, pair_lengths, split
from s2s.distributed import World
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.training.data_loader import DataLoader
from s2s.training.micro_batches import n_positions_of, n_tokens_of
from s2s.training.state import TrainerState
from s2s.training.train_step import TrainStep

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.data.pairs import Pair, Rows


class CountingCorpus:
    """Pair i has i % 7 + 1 and i % 5 + 1 symbols; remembers which were asked for."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: int) -> Pair:
        self.read.append(row)
        return [4 + row % 3] * (row % 7 + 1), [5] * (row % 5 + 1)

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        return rows % 7 + 1, rows % 5 + 1


def lazy_batch(corpus: CountingCorpus, n: int | None = None) -> LazyBatch:
    batches = Batches([(corpus, 1.0)], tokens=100, seed=1)
    rows = np.arange(corpus.n if n is None else n)[::-1].copy()
    return LazyBatch(rows, batches.lengths(rows), batches.pairs)


@given(st.integers(0, 30), st.integers(1, 40))
@settings(max_examples=80, deadline=None)
def test_a_split_batch_has_every_pair_once_in_parts_of_like_size(n: int, n_parts: int) -> None:
    corpus = CountingCorpus(max(n, 1))
    pairs = [corpus[i] for i in reversed(range(n))]
    for batch in (pairs, lazy_batch(corpus, n)):
        parts = split(batch, n_parts)
        assert len(parts) == n_parts
        assert [p for part in parts for p in part] == pairs
        tokens = [sum(len(s) + len(t) + 2 for s, t in part) for part in parts]
        assert max(tokens) <= sum(tokens) / n_parts + 14  # never more than a pair beyond the mean


def test_lengths_are_known_without_reading() -> None:
    corpus = CountingCorpus(20)
    batch = lazy_batch(corpus)
    known = n_tokens_of(batch), n_positions_of(batch), [side.tolist() for side in pair_lengths(batch)], len(batch)
    assert corpus.read == []
    pairs = list(batch)
    assert known == (n_tokens_of(pairs), n_positions_of(pairs), [side.tolist() for side in pair_lengths(pairs)], 20)


def test_a_pair_is_read_once_and_with_its_part() -> None:
    corpus = CountingCorpus(20)
    batch = lazy_batch(corpus)
    part = split(batch, 4)[1]
    own = [part[0], *part, batch[19 - corpus.read[0]]]
    assert own[0] == own[1] == own[-1]
    assert sorted(corpus.read) == sorted(set(corpus.read))
    assert len(corpus.read) == len(part) < 8


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_process_reads_its_own_share_alone(rank: int, tmp_path: Path) -> None:
    """Together they read everything once, in the same batches; no rank reads what it does not learn from."""
    plugins = letters_plugins()
    config = letters_config(plugins, "train.tokens=60").config
    task = plugins.registry.get("task", "letters").build(config.task)
    task.learn(tmp_path)
    model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
    optimizer, world = torch.optim.SGD(model.parameters(), 0.0), World(rank=rank, size=3)
    loss = LabelSmoothed(LabelSmoothedConfig())
    train_step = TrainStep(config.train, 1, task.vocab, model, loss, optimizer, lambda _: 0.0, world)
    corpus, state = CountingCorpus(90), TrainerState()
    data_loader = DataLoader(Batches([(corpus, 1.0)], 60, seed=1), DataConfig(), train_step.micro_batches.local)
    shares = []
    for batch in data_loader.iterate(state, lambda: state.epoch == 1):
        if state.epoch == 0:
            whole = [row for part in split(batch, 3)[rank::3] for row in part.rows.tolist()]
            assert [x is not None for x in batch.pairs] == [row in whole for row in batch.rows.tolist()]
            shares += whole
    assert set(shares) <= set(corpus.read)
    assert 20 < len(shares) < 40
