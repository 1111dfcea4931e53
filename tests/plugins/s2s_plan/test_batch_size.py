"""The largest batch that is found, against the memory that it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import batch_size_process
from harness.batch_size_process import train_step
from s2s.config import TrainConfig
from s2s.errors import ConfigError
from s2s.io.json_files import dump_record
from s2s_plan.batch_size import SAFE, _bytes_per_token, find_batch_size
from s2s_plan.memory import MemoryGuard, MemoryTrials

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel tells no peaks")


def found_batch_size(folder: Path, free: int) -> tuple[str, int, bool, int]:
    """Report, tokens, whether the weights stayed the same, and the bytes that such a batch took, in a new process."""
    done = subprocess.run(
        [sys.executable, batch_size_process.__file__, str(folder), str(free)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    report, n_tokens, same, n_bytes = json.loads(done.stdout)
    return report, n_tokens, same, n_bytes


def test_what_is_found_fits_and_is_not_half_of_what_would(tmp_path: Path) -> None:
    """The better of two, since a busy machine evicts pages of libraries, which then count as the batch's."""
    free = 2 * 10**8
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    found = [found_batch_size(folder, free) for folder in folders]
    for report, n_tokens, same, _ in found:
        assert f"{n_tokens:,}" in report
        assert same, "a trial does not change the weights"
    assert any(0.5 * SAFE * free < n_bytes < free for *_, n_bytes in found)


def test_a_run_that_continues_keeps_its_number(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/step-000001").mkdir(parents=True)
    (tmp_path / "tokens.json").write_bytes(dump_record({"tokens": 1536}))
    update = train_step()
    assert find_batch_size(update, MemoryGuard(), 64, tmp_path)[0] == 1536
    assert update.config.tokens == "auto", "the configuration is left as it is"


def test_a_number_that_was_given_is_left_alone(tmp_path: Path) -> None:
    update = train_step()
    update.config.tokens = 700
    assert find_batch_size(update, MemoryGuard(), 64, tmp_path) == (700, "")


def test_too_little_memory_for_one_sentence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.backend.core_devices.CPU.free_memory", lambda _: 0)
    update = train_step()
    with pytest.raises(ConfigError, match=r"data.max_len=64"):
        find_batch_size(update, MemoryGuard(), 64, tmp_path)


@pytest.mark.parametrize(("n_fitting", "n_tokens"), [(16, 1024), (40, 2048)])
def test_the_largest_trial_that_fits_counts_where_the_next_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_fitting: int, n_tokens: int
) -> None:
    """Peaks never rise here, as where an allocator holds unused memory, so trials double until one fails."""
    monkeypatch.setattr(MemoryTrials, "peak", lambda _, n_pairs: 10**6 if n_pairs <= n_fitting else None)
    update = train_step()
    assert find_batch_size(update, MemoryGuard(), 64, tmp_path)[0] == n_tokens


@pytest.mark.parametrize("room", [10**6, 10**8])
def test_a_token_takes_what_peaks_rise_by(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Peaks that rise by 3,000 bytes with each token give just that, however many trials it takes."""
    monkeypatch.setattr(MemoryTrials, "peak", lambda trials, n_pairs: 10**7 + 3000 * n_pairs * trials.longest)
    update = train_step()
    side = [update.vocab.unk] * 63
    assert _bytes_per_token(MemoryTrials(update, MemoryGuard(), (side, side)), room) == 3000


def test_a_first_trial_that_does_not_fit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryTrials, "peak", lambda *_: None)
    update = train_step()
    with pytest.raises(ConfigError, match=r"memory for 0 tokens is left"):
        find_batch_size(update, MemoryGuard(), 64, tmp_path)


@pytest.mark.parametrize("wrong", ["much", "", 0])
def test_other_words_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"train.tokens"):
        TrainConfig(tokens=wrong)  # type: ignore[arg-type]
