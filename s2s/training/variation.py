"""Pairs that the task re-encodes in every epoch, within the maximum length of the run."""

from __future__ import annotations

__all__ = ["varied"]

from typing import TYPE_CHECKING

import numpy as np

from s2s.task import Encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.data.pairs import Pair
    from s2s.task import Task


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
