"""The largest batch against the memory that it then takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import finding_batch_size
import pytest
from finding_batch_size import train_step

from s2s.config import TrainConfig
from s2s.errors import ConfigError
from s2s.training.batch_size import SAFE, find_batch_size

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel tells no peaks")


def test_what_is_found_fits_and_is_not_half_of_what_would(tmp_path: Path) -> None:
    free = 2 * 10**8
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, finding_batch_size.__file__, str(tmp_path), str(free)],
        env=environment,
        capture_output=True,
        check=True,
    )
    report, n_tokens, same, n_bytes = json.loads(done.stdout)
    assert f"{n_tokens:,}" in report
    assert same, "a trial does not change the weights"
    assert 0.5 * SAFE * free < n_bytes < free


def test_a_run_that_continues_keeps_its_number(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text('{"tokens": 1536}')
    update = train_step()
    find_batch_size(update.config, update, 64, tmp_path)
    assert update.config.tokens == 1536


def test_a_number_that_was_given_is_left_alone(tmp_path: Path) -> None:
    update = train_step()
    update.config.tokens = 700
    assert find_batch_size(update.config, update, 64, tmp_path) == ""
    assert update.config.tokens == 700


def test_too_little_memory_for_one_sentence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.training.batch_size.free_memory", lambda _: 0)
    update = train_step()
    with pytest.raises(ConfigError, match=r"data.max_len=64"):
        find_batch_size(update.config, update, 64, tmp_path)


@pytest.mark.parametrize("wrong", ["much", "", 0])
def test_other_words_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"train.tokens"):
        TrainConfig(tokens=wrong)  # type: ignore[arg-type]
