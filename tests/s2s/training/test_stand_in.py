"""A dry run of a run whose corpora are not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from s2s.cli.train import main
from s2s.training import stand_in
from s2s.training.trial import Timing

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ["arch.d_model=8", "arch.d_ff=8", "arch.n_heads=2", "arch.n_encoder_layers=1", "arch.n_decoder_layers=1"]


@pytest.mark.slow
def test_time_and_memory_are_measured_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("s2s_named_corpora.corpus.downloads_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(stand_in, "N_PAIRS", 200)
    monkeypatch.setattr(stand_in, "time_updates", lambda trainer: Timing(0.5, 0.0))
    small = [*SMALL, "task.vocab_size=200", "train.threads=1", "train.check=false", "data.workers=1"]
    assert main(["experiment=wmt14_en_de", "train.steps=7_200", *small, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "wmt14_en_de: to download: 1,651,121,778 bytes in 3 files" in out
    assert "wmt13: to download" in out
    assert "0.5 s an update, 01:00:00 for 7,200" in out
    assert not list(tmp_path.iterdir()), "nothing is written"
