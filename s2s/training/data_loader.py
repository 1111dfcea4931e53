"""The global batches of a run, in order and prefetched; their pairs may vary from epoch to epoch."""

from __future__ import annotations

__all__ = ["DataLoader", "varied"]

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from s2s.config.data import DataConfig
from s2s.data.batching import Batches
from s2s.data.lazy_batch import LazyBatch
from s2s.data.pairs import Pair
from s2s.errors import DataError
from s2s.io.prefetch import prefetch
from s2s.task import Encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.task import Task
    from s2s.training.state import TrainerState

N_PREFETCHED = 2
"""Batches that are prepared during an update: one hides the time that this takes, two also even it out"""


@dataclass
class DataLoader:
    """Iterates over the global batches from the current position of a run."""

    batches: Batches
    config: DataConfig
    local_micro_batches: Callable[[Sequence[Pair]], Iterable[Sequence[Pair]]] = lambda batch: [batch]
    """The micro-batches of a global batch that this rank trains on: their pairs are read ahead of time"""
    wait: float = 0.0
    """Seconds that training waited for the newest batch"""

    def iterate(self, state: TrainerState, is_over: Callable[[], bool]) -> Iterator[Sequence[Pair]]:
        """Batches until `is_over()`; `state` is advanced to each batch before it is yielded.

        Raises DataError if no batch is ready within data.timeout seconds.
        """
        if is_over():
            return
        began = time.monotonic()
        batches = self._read(self.batches.iterate_from(state.epoch, state.batch))
        with closing(prefetch(batches, N_PREFETCHED, self.config.timeout, lambda: self._timeout(state))) as prefetched:
            for epoch, number, batch in prefetched:
                state.step += 1
                state.epoch, state.batch = epoch, number + 1
                self.wait = time.monotonic() - began
                yield batch
                if is_over():
                    return
                began = time.monotonic()

    def _read(self, batches: Iterator[tuple[int, int, LazyBatch]]) -> Iterator[tuple[int, int, LazyBatch]]:
        """The same batches, with this rank's pairs read."""
        for epoch, number, batch in batches:
            for part in self.local_micro_batches(batch):
                assert isinstance(part, LazyBatch), "a part of a lazy batch is one, too"
                part.load()
            yield epoch, number, batch

    def _timeout(self, state: TrainerState) -> DataError:
        return DataError(
            f"no batch came for {self.config.timeout:g} s after update {state.step:,}: does the disk with "
            f"data.prepared={self.config.prepared} answer? Give a larger data.timeout if it is only slow"
        )


def varied(task: Task, max_len: int | None) -> Callable[[Pair, int], Pair] | None:
    """`Task.variation` for ids read from disk; a pair that would exceed `max_len`, eos included, stays unchanged."""
    vary = task.variation()
    if vary is None:
        return None

    def within(pair: Pair, seed: int) -> Pair:
        src, tgt = vary(Encoded(*(list(map(int, side)) for side in pair)), seed)
        fits = max_len is None or max(len(src), len(tgt)) < max_len
        return (np.array(src, np.int32), np.array(tgt, np.int32)) if fits else pair

    return within
