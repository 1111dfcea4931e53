"""What docs/architecture.md calls the least that a translation model needs: everything else is blocked."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from s2s.cli.generate import main as generate
from s2s.cli.train import main as train

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NEEDED = {"metrics", "optim", "search", "sentencepiece", "text_corpora", "transformer", "translation"}
CORE = {"decoding", "generation", "log", "loss"}
SMALL = "n_encoder_layers=1 n_decoder_layers=1 d_model=16 d_ff=32 n_heads=2"


def test_few_plugins_suffice_to_train_and_translate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = {entry.name for entry in entry_points(group="s2s")} - NEEDED - CORE
    assert len(blocked) > 2 * len(NEEDED)
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", ",".join(sorted(blocked)))
    monkeypatch.chdir(tmp_path)
    lines = [f"the cat {i} sees dog {7 * i % 13}" for i in range(60)]
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a.de").write_text("".join(f"{line[::-1]}\n" for line in lines))
    model = [f"arch.{option}" for option in SMALL.split()]
    settings = ["train.steps=2", "train.tokens=200", "valid.every=2", "schedule.warmup=1", "task.vocab_size=60"]
    corpus = ["task.train=[a.en,a.de]", "task.valid=[a.en,a.de]", "run=bare"]
    assert train(["task=translation", "arch=transformer", *model, *settings, *corpus]) == 0
    assert "done  2 updates" in capsys.readouterr().out
    assert generate(["run=bare", "input=a.en", "output=out"]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 60
