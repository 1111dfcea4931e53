"""train.tokens=auto: the largest batch that fits into memory, extrapolated from small ones.

Trial batches consist of the longest pairs possible in the run, which take the most memory per token, and double in
size: bytes per token beyond weights and gradients are the difference of two peaks over the difference of tokens. The
allocator may hold unused memory into which the first trials fit, so both peaks must have risen.
"""

from __future__ import annotations

__all__ = ["find_batch_size"]

import math
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.io import dump_record, write_file
from s2s.run import read_run_record
from s2s_plan.memory import MemoryTrials

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.training import TrainStep
    from s2s_plan.memory import MemoryGuard

SAFE = 0.8
"""Share of the free memory to use: validation, other programs and fragmentation need the rest"""
MOST = 400_000
"""Tokens per side beyond which a larger batch no longer speeds up learning (Ott et al., 2018)"""
RISE = 1 / 64
"""Share of the memory by which a peak must rise to be distinguished from what the process held before"""
MULTIPLE = 256
"""The result is a multiple of this"""
OPTIMIZER_STATE = 2
"""Numbers that Adam keeps per parameter; trials make no optimizer step, so they are not allocated yet"""


def find_batch_size(train_step: TrainStep, guard: MemoryGuard, longest: int, folder: Path) -> tuple[int, str]:
    """The number for train.tokens, and a line for the header: "" if the number was given.

    A resumed run reads the number from `folder`. longest: tokens of a pair's longer side, including eos.
    """
    world, path, config = train_step.world, folder / "tokens.json", train_step.config
    if config.tokens != "auto":
        return config.n_tokens, ""
    if record := read_run_record(path, "tokens"):
        return record["tokens"], f"train.tokens={record['tokens']:,}, found by the batch-size finder when the run began"
    tokens = min(world.all_gather(tokens_per_rank(train_step, guard, longest))) * world.size
    if world.is_main:
        write_file(path, dump_record({"tokens": tokens}))
    world.barrier()
    how = f"for which {SAFE:.0%} of the free memory suffices by the batch-size finder"
    return tokens, f"train.tokens={tokens:,}, {how}"


def tokens_per_rank(train_step: TrainStep, guard: MemoryGuard, longest: int) -> int:
    """Tokens per side that this rank can train on at once."""
    side = [train_step.vocab.unk] * (longest - 1)
    trials = MemoryTrials(train_step, guard, (side, side))
    room = SAFE * (train_step.device.free_memory() - OPTIMIZER_STATE * trials.gradients)
    n = int(min(room / _bytes_per_token(trials, room), MOST)) // MULTIPLE * MULTIPLE
    if n < longest:
        raise ConfigError(
            f"train.tokens=auto: memory for {max(n, 0):,} tokens is left, and a sentence may have data.max_len="
            f"{longest}; give a smaller model or data.max_len, or train.activations=recompute"
        )
    return n


def _bytes_per_token(trials: MemoryTrials, room: float) -> float:
    """Bytes per token per side, from two trials that each raised the peak by at least RISE of the room."""
    n_pairs = max(1024 // trials.longest, 1)
    trials.peak(n_pairs)  # allocates gradients and warms up
    peak, rises = trials.peak(n_pairs), [0.0, 0.0]
    if peak is None:
        return math.inf
    while trials.step.world.any_true(min(rises) < RISE * room) and n_pairs * trials.longest < MOST:  # on any rank
        larger = trials.peak(2 * n_pairs)
        if larger is None:
            return room / (n_pairs * trials.longest)  # this many are known to fit
        n_pairs, peak, rises = 2 * n_pairs, larger, [rises[1], larger - peak]
    return max(rises[1], 1) / (n_pairs * trials.longest / 2)
