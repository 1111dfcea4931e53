"""The faster precision: forward and backward passes of one batch in fp32 and bf16 in turn, measured in CPU time."""

from __future__ import annotations

__all__ = ["choose_precision", "typical_batch"]

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s import ConfigError
from s2s.io import dump_record, write_file
from s2s.run import read_run_record
from s2s.training import BatchPlan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.config import Precision
    from s2s.data import MappedCorpus
    from s2s.training import TrainStep

FILE = "precision.json"
"""File that stores the choice: a continued run must compute as it began"""
MOST_TOKENS = 2048
"""Tokens per side of the trial batch: with more, the ratio is nearly constant"""
SAMPLE = 1000
"""Pairs per corpus from which those of the batch are chosen"""
N_TURNS = 3
"""Trials of each precision, after one warm-up trial of each"""
GAIN = 1.05
"""Minimum speed-up for bf16 to be chosen, since it rounds"""


def choose_precision(train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path) -> tuple[Precision, str]:
    """fp32 or bf16, and a line for the first screen.

    A continued run reads the choice from `directory`. Raises ConfigError if the device is not a CPU.
    """
    train, path, world = train_step.config, directory / FILE, train_step.world
    if record := read_run_record(path, "precision"):
        return record["precision"], f"train.precision={record['precision']}, as found when the run began"
    if world.device.type != "cpu":
        raise ConfigError(f"train.precision=auto compares on a CPU; on {world.device} give train.precision=bf16")
    batch = typical_batch(corpora, min(train.tokens, MOST_TOKENS) if isinstance(train.tokens, int) else MOST_TOKENS)
    seconds = _measure(train_step, batch * world.size)
    precision: Precision = "bf16" if GAIN * seconds["bf16"] < seconds["fp32"] else "fp32"
    if world.is_main:
        write_file(path, dump_record({"precision": precision}))
    world.barrier()
    ratio = seconds["bf16"] / seconds["fp32"]
    return precision, f"train.precision={precision}: in bf16 an update takes {ratio:.2f} times as long as in fp32"


def typical_batch(corpora: Sequence[MappedCorpus], n_tokens: int) -> list[tuple[Any, Any]]:
    """Pairs of about the median length of a sample, at most `n_tokens` per side with padding; at least one pair."""
    pairs: list[tuple[Any, Any]] = []
    for corpus in corpora:
        rows = np.linspace(0, len(corpus) - 1, min(SAMPLE, len(corpus))).astype(np.int64)
        pairs += [corpus[int(row)] for row in dict.fromkeys(rows.tolist())]
    pairs.sort(key=_longer_side)
    middle = len(pairs) // 2
    n_pairs = max(n_tokens // (_longer_side(pairs[middle]) + 1), 1)
    first = max(middle - n_pairs // 2, 0)
    batch = pairs[first : middle + 1]
    while len(batch) > 1 and len(batch) * (_longer_side(batch[-1]) + 1) > n_tokens:
        batch.pop(0)
    return batch


def _longer_side(pair: tuple[Any, Any]) -> int:
    return max(map(len, pair))


def _measure(train_step: TrainStep, batch: list[tuple[Any, Any]]) -> dict[Precision, float]:
    """CPU seconds of the fastest trial in each precision, summed over all ranks."""
    seconds: dict[Precision, list[float]] = {"fp32": [], "bf16": []}
    config, plan = train_step.config, BatchPlan(MOST_TOKENS * train_step.world.size)
    try:
        for _ in range(1 + N_TURNS):
            for precision, times in seconds.items():
                train_step.config = replace(config, precision=precision)
                started = time.process_time()
                train_step.trial(batch, plan)
                times.append(time.process_time() - started)
    finally:
        train_step.config = config
    return {name: sum(train_step.world.all_gather(min(times[1:]))) for name, times in seconds.items()}
