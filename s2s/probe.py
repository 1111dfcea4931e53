"""train.tokens=auto: the largest batch that memory holds, from what two small ones take.

Both are of the longest pairs that the run may meet, which take the most memory for their symbols: what a symbol takes
beyond weights and gradients is then the difference of the two by the difference of their symbols.
"""

from __future__ import annotations

__all__ = ["settle_tokens"]

import json
from typing import TYPE_CHECKING

from s2s.durable import write_file
from s2s.errors import ConfigError
from s2s.machine import PeakMemory, free_memory

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.config import TrainConfig
    from s2s.update import Updater

SAFE = 0.8
"""Share of the free memory that is used: validation, other programs and fragments need some"""
MOST = 400_000
"""Symbols a side beyond which a batch no longer learns faster (Ott et al., 2018)"""
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
    n = min(world.gather(probe(config, updater, longest)))
    config.tokens = n * world.size
    if world.is_first:
        write_file(path, json.dumps({"tokens": config.tokens}))
    world.barrier()
    return f"train.tokens={config.tokens:,}, which {SAFE:.0%} of the free memory holds by a probe"


def probe(config: TrainConfig, updater: Updater, longest: int) -> int:
    """Symbols a side that this process can take at once."""
    device = updater.world.device
    sizes = [n * longest for n in (max(1024 // longest, 1), 3 * max(1024 // longest, 1))]
    peaks = []
    for n in [sizes[0], *sizes]:  # the first one makes gradients and warms up
        with PeakMemory(device) as peak:
            _try(config, updater, n, longest)
        peaks.append(peak.bytes)
    each = max(peaks[2] - peaks[1], 1) / (sizes[1] - sizes[0])
    state = STATE * sum(p.numel() * p.element_size() for p in updater.parameters)
    room = SAFE * (free_memory(device) - state)
    n = int(min(room / each, MOST)) // STEP * STEP
    if n < longest:
        raise ConfigError(
            f"train.tokens=auto: memory for {max(n, 0):,} symbols is left, and a sentence may have data.max_len="
            f"{longest}; give a smaller model or data.max_len, or train.activations=recompute"
        )
    return n


def _try(config: TrainConfig, updater: Updater, tokens: int, longest: int) -> None:
    """Forward and backward of a batch of the longest pairs, on every rank; nothing is learnt."""
    config.tokens = tokens * updater.world.size
    side = [updater.vocab.unk] * (longest - 1)
    try:
        updater.trial([(side, side)] * (config.tokens // longest))
    finally:
        config.tokens = "auto"
