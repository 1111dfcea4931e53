"""train.micro_tokens=auto against the memory that a batch then takes, and the guard that follows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness import micro_tokens_process
from harness.micro_tokens_process import N_PAIRS, PAIR, configured
from s2s.backend import device_of
from s2s.backend.memory import AvailableMemory
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.io.json_files import dump_record
from s2s_plan import memory
from s2s_plan.memory import MemoryGuard, NotEnoughMemoryError, longest_pair
from s2s_plan.micro_batch import _usable_memory, find_micro_tokens

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel tells no peaks")


@pytest.mark.parametrize("free", [6 * 10**7, 2 * 10**8, 10**10])
def test_a_batch_takes_no_more_than_there_is_and_is_whole_where_it_fits(tmp_path: Path, free: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, micro_tokens_process.__file__, str(tmp_path), str(free)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    said, micro_tokens, same, n_bytes = json.loads(done.stdout)
    assert same, "a trial does not change the weights"
    assert n_bytes < free
    assert (micro_tokens is None) == (free == 10**10)
    assert ("a batch at once" if micro_tokens is None else f"{micro_tokens:,} tokens a side at once") in said


def test_a_run_that_continues_keeps_its_answer(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/step-000001").mkdir(parents=True)
    (tmp_path / "micro_tokens.json").write_bytes(dump_record({"micro_tokens": 320, "bytes_per_token": 7.0}))
    (config, step), guard = configured(), MemoryGuard()
    micro_tokens, said = find_micro_tokens(config, step, guard, PAIR, tmp_path)
    assert micro_tokens == 320
    assert "320 tokens a side at once" in said
    assert config.train.micro_tokens == "auto", "the configuration is left as it is"
    assert guard.bytes_per_token == 7.0


@pytest.mark.parametrize("given", [None, 640])
def test_what_is_given_is_left_alone(tmp_path: Path, given: int | None) -> None:
    config, step = configured()
    config.train.micro_tokens = given
    assert find_micro_tokens(config, step, MemoryGuard(), PAIR, tmp_path) == (given, "")


@pytest.mark.parametrize("free", [0, 4 * 10**6])
def test_where_not_even_the_longest_pair_fits_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setattr("s2s.backend.core_devices.CPU.free_memory", lambda _: free)
    config, step = configured()
    with pytest.raises(ConfigError, match="too little memory"):
        find_micro_tokens(config, step, MemoryGuard(), ([5] * 1023, [5] * 1023), tmp_path)


@pytest.mark.parametrize(
    ("free", "ema", "fixed"), [(1000, None, 600), (800, None, 300), (1000, 0.9, 400), (1300, 0.9, 800)]
)
def test_copies_for_a_checkpoint_count_where_they_will_be_made(free: int, ema: float | None, fixed: int) -> None:
    config, _ = configured()
    config.train.ema = ema
    step: Any = SimpleNamespace(copied_share=0.5, world=World(), device=SimpleNamespace(free_memory=lambda: free))
    trials: Any = SimpleNamespace(step=step, gradients=100)
    assert _usable_memory(config, trials).fixed == fixed


def test_micro_batches_give_the_gradient_of_the_batch() -> None:
    config, step = configured()
    step.model.eval()  # no dropout, which is drawn for each micro-batch
    step.schedule = lambda _: 0.0
    gradients = []
    for micro_tokens in (None, 640):
        config.train.micro_tokens = micro_tokens
        result = step([PAIR] * N_PAIRS, 1)
        gradients.append((result.loss, result.gnorm))
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-5)


def test_the_guard_splits_a_batch_that_memory_no_longer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    config, step = configured()
    config.train.micro_tokens = None
    monkeypatch.setattr(memory, "available_memory", lambda: AvailableMemory(10**6, "the machine"))
    step.check_memory = MemoryGuard(bytes_per_token=1000.0).check
    assert step([PAIR] * N_PAIRS, 1).n_micro_batches == 16  # of some 1,000 tokens each
    step.check_memory = MemoryGuard(bytes_per_token=10**6).check
    with pytest.raises(NotEnoughMemoryError, match="the machine has"):
        step([PAIR], 2)


def test_the_guard_counts_on_what_is_kept_of_earlier_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: AvailableMemory(500, "the machine"))
    guard = MemoryGuard(bytes_per_token=1.0, largest=1000)
    guard.check(1500)
    with pytest.raises(NotEnoughMemoryError):
        guard.check(2001)


def test_the_error_of_the_guard_is_one_of_memory() -> None:
    refused = NotEnoughMemoryError("can't allocate memory: 9 tokens a side …")
    assert device_of(torch.device("cpu")).is_memory_error(refused)


class Lengths:
    """A corpus of pairs of given lengths."""

    def __init__(self, *lengths: tuple[int, int]) -> None:
        self.pairs = [([1] * src, [2] * tgt) for src, tgt in lengths]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, row: int) -> tuple[list[int], list[int]]:
        return self.pairs[row]

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        return tuple(np.array([len(self.pairs[r][side]) for r in rows]) for side in (0, 1))  # type: ignore[return-value]


def test_the_longest_pair_is_that_with_the_longest_side() -> None:
    corpora = [Lengths((3, 4), (2, 9)), Lengths(), Lengths((8, 1))]
    assert tuple(map(len, longest_pair(corpora))) == (2, 9)  # type: ignore[arg-type]
    assert longest_pair([]) == ([], [])


@pytest.mark.parametrize("wrong", ["much", "", 0])
def test_other_words_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"train.micro_tokens"):
        TrainConfig(micro_tokens=wrong)  # type: ignore[arg-type]
