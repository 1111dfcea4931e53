"""The batches of a run, in their order, made before they are asked for."""

from __future__ import annotations

__all__ = ["Feed"]

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.config import DataConfig
from s2s.data.batching import Batches, Pair
from s2s.data.drawn import Drawn
from s2s.errors import DataError
from s2s.io.prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.progress import Progress

N_AHEAD = 2
"""Batches that are made while an update is under way: one hides the time that it takes, two even it out"""


@dataclass
class Feed:
    """The global batches from where a run stands."""

    batches: Batches
    config: DataConfig
    own: Callable[[Sequence[Pair]], Iterable[Sequence[Pair]]] = lambda batch: [batch]
    """Which parts of a batch this process learns from: those are read before it asks for them"""
    wait: float = 0.0
    """Seconds that the newest batch took to come"""

    def onwards(self, progress: Progress, is_over: Callable[[], bool]) -> Iterator[Sequence[Pair]]:
        """Batches until the run `is_over`; `progress` counts each as it is handed out."""
        if is_over():
            return
        began = time.monotonic()
        batches = self._read(self.batches.onwards(progress.epoch, progress.batch))
        with closing(prefetch(batches, N_AHEAD, self.config.timeout, lambda: self._late(progress))) as coming:
            for epoch, number, batch in coming:
                progress.step += 1
                progress.epoch, progress.batch = epoch, number + 1
                self.wait = time.monotonic() - began
                yield batch
                if is_over():
                    return
                began = time.monotonic()

    def _read(self, batches: Iterator[tuple[int, int, Drawn]]) -> Iterator[tuple[int, int, Drawn]]:
        """The same batches, with this process's own pairs."""
        for epoch, number, batch in batches:
            for part in self.own(batch):
                assert isinstance(part, Drawn), "a part of what was drawn"
                part.look_up()
            yield epoch, number, batch

    def _late(self, progress: Progress) -> DataError:
        return DataError(
            f"no batch came for {self.config.timeout:g} s after update {progress.step:,}: does the disk with "
            f"data.prepared={self.config.prepared} answer? Give a larger data.timeout if it is only slow"
        )
