"""train.micro_tokens=auto: how much of an update's batch fits into memory at once.

Trials compute and discard the gradient of few of the longest pairs. What a token takes beyond gradients bounds what a
batch of any size takes, and the bound becomes tighter with every trial, each of twice the tokens; as soon as the whole
batch fits by it, no more are made. So most runs make one trial of some 500 tokens, and take their batches whole, as
with train.micro_tokens=null.
"""

from __future__ import annotations

__all__ = ["find_micro_tokens", "longest_pair"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from s2s.backend.device import PeakMemory, can_measure_peak, free_memory
from s2s.backend.memory import available, trim
from s2s.errors import ConfigError
from s2s.io.atomic import write_file
from s2s.io.json_files import dump_record
from s2s.run.record import read_run_record
from s2s.training.memory_guard import is_memory_error
from s2s.training.train_step import n_positions_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.config import Config
    from s2s.data.batching import Pair
    from s2s.data.mapped_corpus import MappedCorpus
    from s2s.training.train_step import TrainStep

GIB = 2**30
FILE = "micro_tokens.json"
"""Keeps what was found, since a run that continues must draw the same dropout"""
FREE_MEMORY_SHARE = 0.85
"""Share of the free memory that is used: the rest is for fragmentation, and for what other programs take meanwhile"""
FIRST_TRIAL_TOKENS = 512
"""Tokens a side of the first trial"""
TRIAL_GRANULARITY = 8
"""Trials grow up to this part of what fits: a tighter bound would change little"""
BLOCK, N_BLOCKS = 1 << 20, 8
"""Pairs that are looked at together for the longest, and such blocks in a corpus"""
DECODING_BYTES = 256 * 2**20
"""Bytes that decoding in validation takes beside packed copies of the weights"""


@dataclass(frozen=True)
class Room:
    """Bytes of memory, as far as this process may count on them."""

    free: int
    """Before the first trial"""
    fixed: int
    """That are taken whatever the size of a micro-batch"""

    @property
    def left(self) -> float:
        """For what grows with a micro-batch."""
        return FREE_MEMORY_SHARE * self.free - self.fixed


def longest_pair(corpora: Sequence[MappedCorpus]) -> Pair:
    """The pair with the longest side; of corpora beyond N_BLOCKS * BLOCK pairs, of evenly spaced blocks of them."""
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


def find_micro_tokens(config: Config, train_step: TrainStep, pair: Pair, folder: Path) -> str:
    """Replace train.micro_tokens=auto by a number, or by None where a batch fits whole; a line for the header.

    "" if there is nothing to find. A resumed run reads the answer from `folder`. pair: the longest, for the trials.
    """
    train = config.train
    if train.micro_tokens != "auto":
        return ""
    path = folder / FILE
    if path.is_file():
        found = read_run_record(path, "micro_tokens", "bytes_per_token")
        train.micro_tokens, train_step.memory.bytes_per_token = found["micro_tokens"], found["bytes_per_token"]
        return f"{_at_once(train.n_micro_tokens)}, as found when the run began"
    if not _can_try(config, train_step):
        train.micro_tokens = None
        return ""
    longest, world = max(n_positions_of([pair])), train_step.world
    whole = max(-(-train.n_tokens // world.size), longest)
    room, per_token = _measured(config, train_step, pair, whole)
    n = min(world.all_gather(int(min(room.left / per_token, whole))))
    if n < longest:
        raise _nothing_fits(config, room, per_token * longest)
    train.micro_tokens = None if n >= whole else n
    train_step.memory.bytes_per_token = per_token
    if world.is_main:
        write_file(path, dump_record({"micro_tokens": train.micro_tokens, "bytes_per_token": per_token}))
    world.barrier()
    need = (room.fixed + per_token * n) / GIB
    return f"{_at_once(train.n_micro_tokens)}: at most {need:.1f} of {room.free / GIB:.1f} GiB that are free"


def _can_try(config: Config, train_step: TrainStep) -> bool:
    """Not where a trial would compile the model or record a graph for a shape of its own: there, on GPUs, a batch is
    split when memory turns out to be too small."""
    fixed_shape = config.train.compile or train_step.backend.static_shapes
    return not fixed_shape and can_measure_peak(train_step.world.device)


def _at_once(micro_tokens: int | None) -> str:
    return "a batch at once" if micro_tokens is None else f"{micro_tokens:,} tokens a side at once"


def _measured(config: Config, train_step: TrainStep, pair: Pair, whole: int) -> tuple[Room, float]:
    """The room there is, and bytes that a token a side takes at most."""
    world, longest = train_step.world, max(n_positions_of([pair]))
    gradients = sum(p.numel() * p.element_size() for p in train_step.parameters)
    trim()
    with PeakMemory(world.device) as before:
        pass
    room = Room(free_memory(world.device), _fixed(config, train_step, gradients))
    decoding = _for_decoding(config, train_step, gradients)
    if world.any_true(room.left <= 0 or room.free - room.fixed < decoding):
        raise _nothing_fits(config, room, 0)
    n_pairs, peak, n_before = max(min(FIRST_TRIAL_TOKENS, whole) // longest, 1), before.bytes, 0
    while True:
        trial, n = _peak(config, train_step, [pair] * n_pairs * world.size), n_pairs * longest
        if trial is None:  # a smaller one is known to fit, or else is tried now
            if n_before or n_pairs == 1:
                return room, room.left / n_before if n_before else math.inf
            n_pairs = 1
            continue
        slope = (trial - peak) / (n - n_before) if n_before else 0.0
        per_token = max((trial - before.bytes - gradients) / n, slope, 1.0)
        fits = room.left / per_token
        if not world.any_true(fits < whole and TRIAL_GRANULARITY * n < min(fits, whole)):  # a trial is one of all ranks
            return room, per_token
        n_pairs, peak, n_before = 2 * n_pairs, trial, n


def _fixed(config: Config, train_step: TrainStep, gradients: int) -> int:
    """Gradients, the optimizer's two moments, a moving average; on a CPU copies, from which a checkpoint is written."""
    copies = 1 + 2 + (1 if config.train.ema else 0)
    if train_step.world.device.type == "cpu":
        copies += 3 + (1 if config.train.ema else 0)
    return copies * gradients


def _for_decoding(config: Config, train_step: TrainStep, gradients: int) -> int:
    """What validation takes in the place of a micro-batch: on a CPU packed copies of the weights, and a search."""
    if not config.valid.score:
        return 0
    return DECODING_BYTES + (gradients if train_step.world.device.type == "cpu" else 0)


def _peak(config: Config, train_step: TrainStep, pairs: Sequence[Pair]) -> int | None:
    """Peak memory of a gradient of these pairs, each rank taking its share at once; None if it did not suffice."""
    train = config.train
    train.micro_tokens, whole = None, train.tokens
    train.tokens = max(n_positions_of(pairs))
    try:
        with PeakMemory(train_step.world.device) as peak:
            sufficed = train_step.trial(pairs)
    except (RuntimeError, MemoryError) as error:
        if not is_memory_error(error):
            raise
        sufficed = False
    finally:
        train.micro_tokens, train.tokens = "auto", whole
    return peak.bytes if sufficed else None


def _nothing_fits(config: Config, room: Room, need: float) -> ConfigError:
    limit = f" ({available().limit} leaves no more)" if config.train.device != "cuda" else ""
    return ConfigError(
        f"too little memory: {room.free / GIB:.1f} GiB are free{limit}; gradients, optimizer and checkpoint copies "
        f"of arch={config.arch.name} take {room.fixed / GIB:.1f} GiB, and the longest pair {need / GIB:.1f} GiB more. "
        "Give a smaller model, a smaller data.max_len, train.activations=recompute, or more memory"
    )
