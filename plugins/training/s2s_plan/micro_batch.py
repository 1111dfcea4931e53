"""train.micro_tokens=auto: how much of an update's batch fits into memory at once.

The memory of a trial beyond gradients, divided by its tokens, is an upper bound of the memory per token in a batch of
any size. The bound becomes tighter with every trial, each of twice the tokens, until the whole batch fits by it. So
most runs make one trial of some 500 tokens, and do not split their batches, as with train.micro_tokens=null.
"""

from __future__ import annotations

__all__ = ["find_micro_tokens"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.backend import available_memory
from s2s.io import dump_record, write_file
from s2s.run import read_run_record
from s2s_plan.memory import MemoryTrials

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from s2s.config import Config, TrainConfig
    from s2s.training import TrainStep
    from s2s_plan.memory import MemoryGuard, Pair

GIB = 2**30
FILE = "micro_tokens.json"
"""File that stores the result, since a continued run must draw the same dropout"""
FREE_MEMORY_SHARE = 0.85
"""Share of the free memory to use: the rest is for fragmentation and other programs"""
FIRST_TRIAL_TOKENS = 512
"""Tokens per side of the first trial"""
TRIAL_GRANULARITY = 8
"""Trials grow up to 1 / TRIAL_GRANULARITY of what fits: a tighter bound would change little"""
DECODING_BYTES = 256 * 2**20
"""Bytes for decoding in validation; on a CPU plus packed copies of the weights"""


@dataclass(frozen=True)
class UsableMemory:
    """Bytes of memory that this process may use."""

    free: int
    """Before the first trial"""
    fixed: int
    """Independent of the size of a micro-batch: gradients, optimizer state, EMA, copies for a checkpoint"""

    @property
    def left(self) -> float:
        """Bytes that micro-batches may take."""
        return FREE_MEMORY_SHARE * self.free - self.fixed


def find_micro_tokens(
    config: Config, train_step: TrainStep, guard: MemoryGuard, pair: Pair, folder: Path
) -> tuple[int | None, str]:
    """The number for train.micro_tokens, None if a whole batch fits, and a line for the header.

    The line is "" if there is nothing to find. A resumed run reads the result from `folder`. pair: the longest, for the
    trials.
    """
    train, world, path = config.train, train_step.world, folder / FILE
    if train.micro_tokens != "auto":
        return train.n_micro_tokens, ""
    if record := read_run_record(path, "micro_tokens", "bytes_per_token"):
        guard.bytes_per_token = record["bytes_per_token"]
        return record["micro_tokens"], f"{_at_once(record['micro_tokens'])}, as found when the run began"
    if not _can_try(train, train_step):
        return None, ""
    trials = MemoryTrials(train_step, guard, pair)
    memory = _usable_memory(config, trials)
    whole = max(-(-train.n_tokens // world.size), trials.longest)
    per_token = _bytes_per_token(trials, memory, whole)
    n = min(world.all_gather(int(min(memory.left / per_token, whole))))
    if n < trials.longest:
        raise _nothing_fits(config, memory, per_token * trials.longest, world.device)
    micro_tokens = None if n >= whole else n
    guard.bytes_per_token = per_token
    if world.is_main:
        write_file(path, dump_record({"micro_tokens": micro_tokens, "bytes_per_token": per_token}))
    world.barrier()
    need = math.ceil(10 * (memory.fixed + per_token * n) / GIB) / 10  # rounded up, since it is a bound
    return micro_tokens, f"memory: {_at_once(micro_tokens)}, at most {need:.1f} of the {memory.free / GIB:.1f} GiB free"


def _can_try(train: TrainConfig, train_step: TrainStep) -> bool:
    """Whether trials can be made: not if a trial would compile the model or record a graph for its own shape; then, on
    GPUs, a batch is split when memory turns out to be too small."""
    fixed_shape = train.compile or train_step.backend.static_shapes
    return not fixed_shape and train_step.device.can_measure_peak()


def _at_once(micro_tokens: int | None) -> str:
    return "a batch at once" if micro_tokens is None else f"{micro_tokens:,} tokens a side at once"


def _bytes_per_token(trials: MemoryTrials, memory: UsableMemory, whole: int) -> float:
    """An upper bound of the bytes per token per side, in a batch of `whole` tokens; inf: no pair fits."""
    n_before, peak_before = 0, trials.before
    n_pairs = max(min(FIRST_TRIAL_TOKENS, whole) // trials.longest, 1)
    while (peak := trials.peak(n_pairs)) is not None or (n_before == 0 and n_pairs > 1):
        if peak is None:  # the first trial was too large
            n_pairs = 1
            continue
        n = n_pairs * trials.longest
        slope = (peak - peak_before) / (n - n_before) if n_before else 0.0
        bound = max((peak - trials.before - trials.gradients) / n, slope, 1.0)
        fits = memory.left / bound
        is_loose = fits < whole and TRIAL_GRANULARITY * n < min(fits, whole)
        if not trials.step.world.any_true(is_loose):  # all ranks make a trial together
            return bound
        n_pairs, n_before, peak_before = 2 * n_pairs, n, peak
    return memory.left / n_before if n_before else math.inf  # the previous trial is known to fit


def _usable_memory(config: Config, trials: MemoryTrials) -> UsableMemory:
    """The usable memory; ConfigError if parameters and optimizer, or decoding in validation, do not fit."""
    world, gradients = trials.step.world, trials.gradients
    on_cpu, n_means = world.device.type == "cpu", 1 if config.train.ema else 0
    free, kept = trials.step.device.free_memory(), (1 + 2 + n_means) * gradients  # of the optimizer two moments
    copies = (3 + n_means) * gradients if on_cpu else 0  # from which a checkpoint is written
    has_room = copies <= trials.step.copied_share * (free - kept)
    memory = UsableMemory(free, kept + copies if has_room else kept)
    decoding = DECODING_BYTES + on_cpu * gradients if config.valid.score else 0  # instead of a micro-batch
    if world.any_true(memory.left <= 0 or memory.free - memory.fixed < decoding):
        raise _nothing_fits(config, memory, 0, world.device)
    return memory


def _nothing_fits(config: Config, memory: UsableMemory, need: float, device: torch.device) -> ConfigError:
    limit = f" ({available_memory().limit} leaves no more)" if device.type == "cpu" else ""
    return ConfigError(
        f"too little memory: {memory.free / GIB:.1f} GiB are free{limit}; gradients and optimizer "
        f"of arch={config.arch.name} take {memory.fixed / GIB:.1f} GiB, and the longest pair "
        f"{need / GIB:.1f} GiB more. Give a smaller model, a smaller data.max_len, "
        "train.activations=recompute, or more memory"
    )
