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

    from s2s.config import Config, TrainConfig
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
"""Bytes that decoding in validation takes; on a CPU packed copies of the weights come to it"""


@dataclass(frozen=True)
class Room:
    """Bytes of memory that this process may use."""

    free: int
    """Before the first trial"""
    fixed: int
    """Taken whatever the size of a micro-batch: gradients, optimizer state, copies for a checkpoint"""

    @property
    def left(self) -> float:
        """What micro-batches may take."""
        return FREE_MEMORY_SHARE * self.free - self.fixed


def find_micro_tokens(config: Config, train_step: TrainStep, pair: Pair, folder: Path) -> str:
    """Replace train.micro_tokens=auto by a number, or by None where a batch fits whole; a line for the header.

    "" if there is nothing to find. A resumed run reads the answer from `folder`. pair: the longest, for the trials.
    """
    train, world, path = config.train, train_step.world, folder / FILE
    if train.micro_tokens != "auto":
        return ""
    if path.is_file():
        found = read_run_record(path, "micro_tokens", "bytes_per_token")
        train.micro_tokens, train_step.memory.bytes_per_token = found["micro_tokens"], found["bytes_per_token"]
        return f"{_at_once(train.n_micro_tokens)}, as found when the run began"
    if not _can_try(train, train_step):
        train.micro_tokens = None
        return ""
    trials = _Trials(train, train_step, pair)
    room = _room(config, trials)
    whole = max(-(-train.n_tokens // world.size), trials.longest)
    per_token = trials.bytes_per_token(room, whole)
    n = min(world.all_gather(int(min(room.left / per_token, whole))))
    if n < trials.longest:
        raise _nothing_fits(config, room, per_token * trials.longest)
    train.micro_tokens = None if n >= whole else n
    train_step.memory.bytes_per_token = per_token
    if world.is_main:
        write_file(path, dump_record({"micro_tokens": train.micro_tokens, "bytes_per_token": per_token}))
    world.barrier()
    need = (room.fixed + per_token * n) / GIB
    return f"{_at_once(train.n_micro_tokens)}: at most {need:.1f} of {room.free / GIB:.1f} GiB that are free"


def _can_try(train: TrainConfig, train_step: TrainStep) -> bool:
    """Not where a trial would compile the model or record a graph for a shape of its own: there, on GPUs, a batch is
    split when memory turns out to be too small."""
    fixed_shape = train.compile or train_step.backend.static_shapes
    return not fixed_shape and can_measure_peak(train_step.world.device)


def _at_once(micro_tokens: int | None) -> str:
    return "a batch at once" if micro_tokens is None else f"{micro_tokens:,} tokens a side at once"


class _Trials:
    """Gradients of a few of the longest pairs, and the memory that they took."""

    def __init__(self, train: TrainConfig, train_step: TrainStep, pair: Pair) -> None:
        self.train, self.step, self.pair = train, train_step, pair
        self.longest = max(n_positions_of([pair]))
        """Tokens of the pair's longer side"""
        self.gradients = sum(p.numel() * p.element_size() for p in train_step.parameters)
        """Bytes of the gradients, which the first trial allocates"""
        trim()
        with PeakMemory(train_step.world.device) as before:
            pass
        self.before = before.bytes
        """Bytes before the first trial"""

    def bytes_per_token(self, room: Room, whole: int) -> float:
        """An upper bound of what a token a side takes, where a batch has `whole` of them; inf: no pair fits."""
        n_before, peak_before = 0, self.before
        n_pairs = max(min(FIRST_TRIAL_TOKENS, whole) // self.longest, 1)
        while (peak := self.peak(n_pairs)) is not None or (n_before == 0 and n_pairs > 1):
            if peak is None:  # the first trial was too large
                n_pairs = 1
                continue
            n = n_pairs * self.longest
            slope = (peak - peak_before) / (n - n_before) if n_before else 0.0
            bound = max((peak - self.before - self.gradients) / n, slope, 1.0)
            fits = room.left / bound
            is_loose = fits < whole and TRIAL_GRANULARITY * n < min(fits, whole)
            if not self.step.world.any_true(is_loose):  # a trial is one of all ranks
                return bound
            n_pairs, n_before, peak_before = 2 * n_pairs, n, peak
        return room.left / n_before if n_before else math.inf  # the trial before is known to fit

    def peak(self, n_pairs: int) -> int | None:
        """Peak memory of a gradient of so many pairs on every rank, taken at once; None if memory did not suffice."""
        pairs = [self.pair] * n_pairs * self.step.world.size
        whole = self.train.tokens
        self.train.micro_tokens, self.train.tokens = None, max(n_positions_of(pairs))
        try:
            with PeakMemory(self.step.world.device) as peak:
                sufficed = self.step.trial(pairs)
        except (RuntimeError, MemoryError) as error:
            if not is_memory_error(error):
                raise
            sufficed = False
        finally:
            self.train.micro_tokens, self.train.tokens = "auto", whole
        return peak.bytes if sufficed else None


def _room(config: Config, trials: _Trials) -> Room:
    """The memory there is; ConfigError if parameters and optimizer, or decoding in validation, do not fit."""
    world, gradients = trials.step.world, trials.gradients
    on_cpu, n_means = world.device.type == "cpu", 1 if config.train.ema else 0
    # gradients, the optimizer's two moments, their EMA; on a CPU copies, from which a checkpoint is written
    n_copies = 1 + 2 + n_means + (3 + n_means if on_cpu else 0)
    room = Room(free_memory(world.device), n_copies * gradients)
    decoding = DECODING_BYTES + on_cpu * gradients if config.valid.score else 0  # in the place of a micro-batch
    if world.any_true(room.left <= 0 or room.free - room.fixed < decoding):
        raise _nothing_fits(config, room, 0)
    return room


def _nothing_fits(config: Config, room: Room, need: float) -> ConfigError:
    limit = f" ({available().limit} leaves no more)" if config.train.device != "cuda" else ""
    return ConfigError(
        f"too little memory: {room.free / GIB:.1f} GiB are free{limit}; gradients, optimizer and checkpoint copies "
        f"of arch={config.arch.name} take {room.fixed / GIB:.1f} GiB, and the longest pair {need / GIB:.1f} GiB more. "
        "Give a smaller model, a smaller data.max_len, train.activations=recompute, or more memory"
    )


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
