"""The memory of a gradient: measured in trials, and a guard that rejects micro-batches for which it does not suffice.

On a GPU, allocating too much is an error. On a CPU, the system grants more memory than it has, and kills the process
when it is written to; so the estimate for a micro-batch larger than any before is compared with the memory left by the
system, its containers and limits.
"""

from __future__ import annotations

__all__ = ["MemoryGuard", "MemoryTrials", "NotEnoughMemoryError", "PeakMemory", "longest_pair"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from s2s.backend import available_memory, device_of, release_freed_memory
from s2s.training import BatchPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from s2s.data import MappedCorpus
    from s2s.training import TrainStep

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
            if not self.step.device.is_memory_error(error):
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


class PeakMemory:
    """Peak memory inside the block, on a device that can measure it (`Device.can_measure_peak`)."""

    bytes = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device_of(device)

    def __enter__(self) -> Self:
        self.device.reset_peak_memory()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = self.device.peak_memory()


class NotEnoughMemoryError(MemoryError):
    """A micro-batch would take more memory than there is."""


@dataclass
class MemoryGuard:
    """The measured memory of micro-batches."""

    bytes_per_token: float = 0.0
    """Bytes per token per side; 0: unknown, and nothing is rejected"""
    largest: int = 0
    """Tokens per side of the largest micro-batch so far, whose memory the process keeps"""

    def check(self, n_tokens: int) -> None:
        """Raises NotEnoughMemoryError if a micro-batch of `n_tokens` tokens per side does not fit."""
        if self.bytes_per_token and n_tokens > self.largest:
            need, left = self.bytes_per_token * (n_tokens - self.largest), available_memory()
            if need > left.n_bytes:
                raise NotEnoughMemoryError(
                    f"can't allocate memory: {n_tokens:,} tokens a side would take {need / 2**30:.1f} GiB more, and "
                    f"{left.limit} has {left.n_bytes / 2**30:.1f} GiB left"
                )
        self.largest = max(self.largest, n_tokens)
