"""A process holds no more memory after many updates, or many windows of text, than after few."""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import Any

import pytest

from harness.forked_children import in_child
from harness.sorting_runs import train
from harness.tiny_runs import train_tiny
from s2s.cli import generate
from s2s.generation.files.resumable_file import ResumableFile
from s2s.training.trainer import Trainer

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"), pytest.mark.slow]

MOST = 4 << 20
"""Bytes by which ten times as much work may grow a process: what allocators and tables round up to"""
PATIENCE = 500
"""Seconds, on a machine that does much else"""


def held_memory() -> int:
    """Bytes of this process that are in memory."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return 1024 * int(line.split()[1])


def test_ten_times_as_many_updates_take_no_more_memory(tmp_path: Path) -> None:
    """With validations, checkpoints and logs all the way, and epochs that end."""
    held: dict[int, int] = {}
    update = Trainer.update

    def measured(self: Trainer, batch: Any) -> None:
        update(self, batch)
        if self.state.step in (150, 1500):
            gc.collect()
            held[self.state.step] = held_memory()

    def run() -> None:
        signal.alarm(PATIENCE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Trainer, "update", measured)
            assert train(tmp_path / "a", "train.steps=1500", "valid.every=50", "checkpoint.every=50") == 0
        assert held[1500] - held[150] < MOST, held

    assert in_child(run) == 0


def test_ten_times_as_many_windows_take_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = (tmp_path / "a.en").read_text()
    (tmp_path / "long.en").write_text(lines * 40)
    held: list[int] = []
    write = ResumableFile.write

    def measured(self: ResumableFile, written: list[str]) -> None:
        write(self, written)
        held.append(held_memory())

    def run() -> None:
        signal.alarm(PATIENCE)
        monkeypatch.setattr(ResumableFile, "write", measured)
        assert generate.main(["run=x", "threads=1", "input=long.en", "output=out", "buffer_size=50", "--quiet"]) == 0
        tenth = len(held) // 10
        assert tenth >= 5
        assert held[-1] - held[tenth] < MOST, held

    assert in_child(run) == 0
