"""train.tokens=auto: the largest batch that fits into memory, extrapolated from small ones.

Trial batches consist of the longest pairs that the run may meet, which take the most memory per token, and double in
size: bytes per token beyond weights and gradients are the difference of two peaks over the difference of tokens. The
allocator may hold unused memory that the first trials fit into, so both peaks must have risen.
"""

from __future__ import annotations

__all__ = ["find_batch_size"]

from typing import TYPE_CHECKING

from s2s.backend.device import PeakMemory, free_memory
from s2s.errors import ConfigError
from s2s.io.atomic import write_file
from s2s.io.json_files import dump_record
from s2s.run.record import read_run_record

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.config import TrainConfig
    from s2s.training.train_step import TrainStep

SAFE = 0.8
"""Share of the free memory that is used: validation, other programs and fragmentation need the rest"""
MOST = 400_000
"""Tokens a side beyond which a larger batch no longer speeds up learning (Ott et al., 2018)"""
RISE = 1 / 64
"""Share of the memory by which a peak must rise to be distinguished from what the process held before"""
MULTIPLE = 256
"""The result is a multiple of this"""
OPTIMIZER_STATE = 2
"""Numbers that Adam keeps per parameter; trials make no optimizer step, so they are not allocated yet"""


def find_batch_size(config: TrainConfig, train_step: TrainStep, longest: int, folder: Path) -> str:
    """Replace train.tokens=auto by a number; a line for the header, or "" if a number was given.

    A resumed run reads the number from `folder`. longest: tokens of a pair's longer side, eos counted.
    """
    if config.tokens != "auto":
        return ""
    world, path = train_step.world, folder / "tokens.json"
    if path.is_file():
        config.tokens = read_run_record(path, "tokens")["tokens"]
        return f"train.tokens={config.tokens:,}, found by the batch-size finder when the run began"
    n = min(world.all_gather(tokens_per_rank(config, train_step, longest)))
    config.tokens = n * world.size
    if world.is_main:
        write_file(path, dump_record({"tokens": config.tokens}))
    world.barrier()
    return f"train.tokens={config.tokens:,}, for which {SAFE:.0%} of the free memory suffices by the batch-size finder"


def tokens_per_rank(config: TrainConfig, train_step: TrainStep, longest: int) -> int:
    """Tokens a side that this rank can train on at once."""
    device = train_step.world.device
    state = OPTIMIZER_STATE * sum(p.numel() * p.element_size() for p in train_step.parameters)
    room = SAFE * (free_memory(device) - state)
    n = int(min(room / _bytes_per_token(config, train_step, longest, room * RISE), MOST)) // MULTIPLE * MULTIPLE
    if n < longest:
        raise ConfigError(
            f"train.tokens=auto: memory for {max(n, 0):,} tokens is left, and a sentence may have data.max_len="
            f"{longest}; give a smaller model or data.max_len, or train.activations=recompute"
        )
    return n


def _bytes_per_token(config: TrainConfig, train_step: TrainStep, longest: int, rise: float) -> float:
    """Bytes per token a side, from two trials that raised the peak by at least `rise` bytes each."""
    n = max(1024 // longest, 1) * longest
    _try(config, train_step, n, longest)  # allocates gradients and warms up
    peaks = [0, _peak(config, train_step, n, longest)]
    rises = [0.0, 0.0]
    while train_step.world.any_true(min(rises) < rise) and n < MOST:  # a batch is one of all ranks
        n *= 2
        peaks = [peaks[1], _peak(config, train_step, n, longest)]
        rises = [rises[1], peaks[1] - peaks[0]]
    return max(rises[1], 1) / (n / 2)


def _peak(config: TrainConfig, train_step: TrainStep, tokens: int, longest: int) -> int:
    with PeakMemory(train_step.world.device) as peak:
        _try(config, train_step, tokens, longest)
    return peak.bytes


def _try(config: TrainConfig, train_step: TrainStep, tokens: int, longest: int) -> None:
    """Forward and backward of a batch of the longest pairs on every rank, without an optimizer step."""
    config.tokens = tokens * train_step.world.size
    side = [train_step.vocab.unk] * (longest - 1)
    try:
        train_step.trial([(side, side)] * (config.tokens // longest))
    finally:
        config.tokens = "auto"
