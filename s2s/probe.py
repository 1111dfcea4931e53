"""train.tokens=auto: the largest batch that memory holds, from what small ones take.

They are of the longest pairs that the run may meet, which take the most memory for their symbols, each twice the one
before: what a symbol takes beyond weights and gradients is the difference of two peaks by the difference of symbols. A
process may hold memory that it does not use, into which the first of them fit, so both must have risen.
"""

from __future__ import annotations

__all__ = ["settle_tokens"]

import json
from typing import TYPE_CHECKING

from s2s.backend.device import PeakMemory, free_memory
from s2s.errors import ConfigError
from s2s.io.atomic import write_file

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.config import TrainConfig
    from s2s.update import Updater

SAFE = 0.8
"""Share of the free memory that is used: validation, other programs and fragments need some"""
MOST = 400_000
"""Symbols a side beyond which a batch no longer learns faster (Ott et al., 2018)"""
RISE = 1 / 64
"""Share of the memory by which a peak must rise to be told from what the process held before"""
STEP = 256
"""Of which the answer is a multiple"""
STATE = 2
"""Numbers that Adam keeps for each parameter; a probe makes no step, so they are not there yet"""


def settle_tokens(config: TrainConfig, updater: Updater, longest: int, folder: Path) -> str:
    """Put a number in the place of train.tokens=auto; how it was found, in words, or nothing if it was given.

    A run that continues finds the number in its `folder`. longest: symbols of a pair's longer side, eos counted.
    """
    if config.tokens != "auto":
        return ""
    world, path = updater.world, folder / "tokens.json"
    if path.is_file():
        config.tokens = int(json.loads(path.read_text())["tokens"])
        return f"train.tokens={config.tokens:,}, as a probe found when the run began"
    n = min(world.all_gather(probe(config, updater, longest)))
    config.tokens = n * world.size
    if world.is_main:
        write_file(path, json.dumps({"tokens": config.tokens}))
    world.barrier()
    return f"train.tokens={config.tokens:,}, which {SAFE:.0%} of the free memory holds by a probe"


def probe(config: TrainConfig, updater: Updater, longest: int) -> int:
    """Symbols a side that this process can take at once."""
    device = updater.world.device
    state = STATE * sum(p.numel() * p.element_size() for p in updater.parameters)
    room = SAFE * (free_memory(device) - state)
    n = int(min(room / _each(config, updater, longest, room * RISE), MOST)) // STEP * STEP
    if n < longest:
        raise ConfigError(
            f"train.tokens=auto: memory for {max(n, 0):,} symbols is left, and a sentence may have data.max_len="
            f"{longest}; give a smaller model or data.max_len, or train.activations=recompute"
        )
    return n


def _each(config: TrainConfig, updater: Updater, longest: int, rise: float) -> float:
    """Bytes that a symbol a side takes, from two batches that made the peak `rise` so many bytes each."""
    n = max(1024 // longest, 1) * longest
    _try(config, updater, n, longest)  # makes gradients and warms up
    peaks = [0, _peak(config, updater, n, longest)]
    rises = [0.0, 0.0]
    while updater.world.any_true(min(rises) < rise) and n < MOST:  # a batch is one of all ranks
        n *= 2
        peaks = [peaks[1], _peak(config, updater, n, longest)]
        rises = [rises[1], peaks[1] - peaks[0]]
    return max(rises[1], 1) / (n / 2)


def _peak(config: TrainConfig, updater: Updater, tokens: int, longest: int) -> int:
    with PeakMemory(updater.world.device) as peak:
        _try(config, updater, tokens, longest)
    return peak.bytes


def _try(config: TrainConfig, updater: Updater, tokens: int, longest: int) -> None:
    """Forward and backward of a batch of the longest pairs, on every rank; nothing is learnt."""
    config.tokens = tokens * updater.world.size
    side = [updater.vocab.unk] * (longest - 1)
    try:
        updater.trial([(side, side)] * (config.tokens // longest))
    finally:
        config.tokens = "auto"
