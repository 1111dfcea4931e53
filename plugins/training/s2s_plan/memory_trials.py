"""Trials: the gradient of a few pairs is computed and discarded, to measure its memory."""

from __future__ import annotations

__all__ = ["MemoryTrials", "longest_pair"]

from typing import TYPE_CHECKING, Any

import numpy as np

from s2s.backend import release_freed_memory
from s2s.training import BatchPlan, is_memory_error
from s2s_plan.peak_memory import PeakMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data import MappedCorpus
    from s2s.training import TrainStep
    from s2s_plan.memory_guard import MemoryGuard

Pair = tuple[Any, Any]
"""Ids of a source and of its target, lists or arrays, without eos"""
BLOCK, N_BLOCKS = 1 << 20, 8
"""Pairs searched for the longest at once, and number of such blocks per corpus"""


class MemoryTrials:
    """Trials with copies of one pair, the longest possible in a run: it takes the most memory per token."""

    def __init__(self, train_step: TrainStep, guard: MemoryGuard, pair: Pair) -> None:
        self.step, self.guard, self.pair = train_step, guard, pair
        self.longest = max(map(len, pair)) + 1
        """Tokens of the pair's longer side, including eos"""
        self.gradients = sum(p.numel() * p.element_size() for p in train_step.parameters)
        """Bytes of the gradients, which the first trial allocates"""
        release_freed_memory()
        with PeakMemory(train_step.world.device) as before:
            pass
        self.before = before.bytes
        """Bytes before the first trial"""

    def peak(self, n_pairs: int) -> int | None:
        """Peak memory of a gradient of `n_pairs` pairs on every rank; None if memory did not suffice on some rank."""
        pairs = [self.pair] * n_pairs * self.step.world.size
        plan = BatchPlan(len(pairs) * self.longest, self.step.config.n_micro_tokens, self.guard.check)
        try:
            with PeakMemory(self.step.world.device) as peak:
                sufficed = self.step.trial(pairs, plan)
        except (RuntimeError, MemoryError) as error:
            if not is_memory_error(error):
                raise
            sufficed = False
        return peak.bytes if sufficed else None


def longest_pair(corpora: Sequence[MappedCorpus]) -> Pair:
    """The pair with the longest side; corpora beyond N_BLOCKS * BLOCK pairs are searched in evenly spaced blocks."""
    best: Pair = ([], [])
    longest = -1
    for corpus in corpora:
        stride = max(len(corpus) // N_BLOCKS, BLOCK)
        for first in range(0, len(corpus), stride):
            rows = np.arange(first, min(first + BLOCK, len(corpus)))
            lengths = np.maximum(*corpus.lengths(rows))
            row = int(lengths.argmax())
            if lengths[row] > longest:
                best, longest = corpus[int(rows[row])], int(lengths[row])
    return best
